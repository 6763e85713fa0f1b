"""Every version the stack deploys, once. Which of them go together is data of policies/catalog/versions.py.

Not for the tools that the one-node environment builds: those are in local/pins.py.
`source` of a chart is the tree in which its values, templates and version were read; `CHECKED_ON` says when.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.catalog.ray_releases import release_of

CHECKED_ON = "2026-11-30"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A Helm chart as it is published, and where its CRDs come from.

    repository: https://... or oci://...; for oci the chart's full reference is repository/name.
    crds: addresses of CRD files, with {version} for the chart's version without v. They are applied ahead of the chart,
    because Helm installs a chart's crds/ folder once and never upgrades it. Empty: the chart upgrades its CRDs by itself.
    rollback: whether Helm can go back to an earlier revision of it.
    """

    name: str
    version: str
    repository: str
    namespace: str
    source: str
    crds: tuple[str, ...] = ()
    rollback: bool = True


_RAW = "https://raw.githubusercontent.com"

GPU_OPERATOR = Chart(
    name="gpu-operator",
    version="v26.7.0",
    repository="https://helm.ngc.nvidia.com/nvidia",
    namespace="gpu-operator",
    source="https://github.com/NVIDIA/gpu-operator/tree/v26.7.0/deployments/gpu-operator",
)
KUBERAY = Chart(
    name="kuberay-operator",
    version="1.7.0",
    repository="https://ray-project.github.io/kuberay-helm/",
    namespace="kuberay-system",
    source="https://github.com/ray-project/kuberay/tree/v1.7.0/helm-chart/kuberay-operator",
    crds=tuple(
        f"{_RAW}/ray-project/kuberay/v{{version}}/helm-chart/kuberay-operator/crds/ray.io_{kind}.yaml"
        for kind in ("rayclusters", "raycronjobs", "rayjobs", "rayservices")
    ),
)
KAI = Chart(
    name="kai-scheduler",
    version="v0.17.0",
    repository="oci://ghcr.io/kai-scheduler/kai-scheduler",
    namespace="kai-scheduler",
    source="https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0/deployments/kai-scheduler",
    rollback=False,  # docs/migrationguides/README.md, "Helm Rollback Not Supported": its templates look at the live cluster
)
VOLCANO = Chart(
    name="volcano",
    version="1.15.1",
    repository="https://volcano-sh.github.io/helm-charts",
    namespace="volcano-system",
    source="https://github.com/volcano-sh/volcano/tree/v1.15.1/installer/helm/chart/volcano",
)
# Tag v1.12.0 is older than the chart; the repository is the README's, the version the one in the chart on main.
VOLCANO_VGPU = Chart(
    name="volcano-vgpu-device-plugin",
    version="1.12.0",
    repository="https://project-hami.github.io/volcano-vgpu-device-plugin",
    namespace="kube-system",
    source="https://github.com/Project-HAMi/volcano-vgpu-device-plugin/tree/4fb76ba16a1744b161e9e2fbfc0b9ec3a546dd9b/deployments/helm/volcano-vgpu-device-plugin",
)
KARPENTER = Chart(
    name="karpenter",
    version="1.14.1",
    repository="oci://public.ecr.aws/karpenter",
    namespace="kube-system",
    source="https://github.com/aws/karpenter-provider-aws/tree/v1.14.1/charts/karpenter",
)
KARPENTER_CRDS = Chart(
    name="karpenter-crd",
    version="1.14.1",
    repository="oci://public.ecr.aws/karpenter",
    namespace="kube-system",
    source="https://github.com/aws/karpenter-provider-aws/tree/v1.14.1/charts/karpenter-crd",
)
CLUSTER_AUTOSCALER = Chart(
    name="cluster-autoscaler",
    version="9.59.0",
    repository="https://kubernetes.github.io/autoscaler",
    namespace="kube-system",
    source="https://github.com/kubernetes/autoscaler/tree/cluster-autoscaler-chart-9.59.0/cluster-autoscaler/charts/cluster-autoscaler",
)
MONITORING = Chart(
    name="kube-prometheus-stack",
    version="88.5.3",
    repository="https://prometheus-community.github.io/helm-charts",
    namespace="monitoring",
    source="https://github.com/prometheus-community/helm-charts/tree/kube-prometheus-stack-88.5.3/charts/kube-prometheus-stack",
)
# Its CRDs are templates of the chart, so Helm upgrades them; uninstalling it deletes every ScaledObject.
KEDA = Chart(
    name="keda",
    version="2.20.2",
    repository="https://kedacore.github.io/charts",
    namespace="keda",
    source="https://github.com/kedacore/charts/tree/v2.20.2/keda",
)
LOAD_BALANCER_CONTROLLER = Chart(
    name="aws-load-balancer-controller",
    version="3.5.0",
    repository="https://aws.github.io/eks-charts",
    namespace="kube-system",
    source="https://github.com/aws/eks-charts/tree/v0.0.242/stable/aws-load-balancer-controller",
    crds=(
        f"{_RAW}/kubernetes-sigs/aws-load-balancer-controller/v{{version}}/helm/aws-load-balancer-controller/crds/crds.yaml",
    ),
)
EFA_PLUGIN = Chart(
    name="aws-efa-k8s-device-plugin",
    version="v0.5.30",
    repository="https://aws.github.io/eks-charts",
    namespace="kube-system",
    source="https://github.com/aws/eks-charts/tree/v0.0.242/stable/aws-efa-k8s-device-plugin",
)
# The version that GPU Operator v26.7.0 names for its own DRA stack (deployments/gpu-operator/values.yaml, draDriver).
DRA_DRIVER = Chart(
    name="dra-driver-nvidia-gpu",
    version="0.5.0",
    repository="oci://registry.k8s.io/dra-driver-nvidia/charts",
    namespace="dra-driver-nvidia-gpu",
    source="https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/v0.5.0/deployments/helm/dra-driver-nvidia-gpu",
    crds=tuple(
        f"{_RAW}/kubernetes-sigs/dra-driver-nvidia-gpu/v{{version}}/deployments/helm/dra-driver-nvidia-gpu/crds/resource.nvidia.com_{kind}.yaml"
        for kind in ("computedomaincliques", "computedomains")
    ),
)
GATEWAY = Chart(
    name="gateway-helm",
    version="v1.9.0",
    repository="oci://docker.io/envoyproxy",
    namespace="envoy-gateway-system",
    source="https://github.com/envoyproxy/gateway/tree/v1.9.0/charts/gateway-helm",
)
# Gateway API 1.6.1 and Envoy Gateway's own kinds; too large for a Helm release, so its objects are applied one by one.
GATEWAY_CRDS = Chart(
    name="gateway-crds-helm",
    version="v1.9.0",
    repository="oci://docker.io/envoyproxy",
    namespace="envoy-gateway-system",
    source="https://github.com/envoyproxy/gateway/tree/v1.9.0/charts/gateway-crds-helm",
)

CHARTS: tuple[Chart, ...] = (
    CLUSTER_AUTOSCALER,
    DRA_DRIVER,
    EFA_PLUGIN,
    GATEWAY,
    GATEWAY_CRDS,
    GPU_OPERATOR,
    KAI,
    KARPENTER,
    KARPENTER_CRDS,
    KEDA,
    KUBERAY,
    LOAD_BALANCER_CONTROLLER,
    MONITORING,
    VOLCANO,
    VOLCANO_VGPU,
)

# Kubernetes: newest that EKS offers with more than half a year of standard support left (1.34 ends 2026-12-02).
KUBERNETES = "1.35"
# Ray and the vLLM that ray[llm] pins for it (python/requirements/llm of the ray-2.60.0 tag).
RAY = "2.60.0"
VLLM = "0.29.0"
PYTHON = "3.11"
CUDA = "13.0"


def vllm_for(ray: str) -> str:
    """The vLLM that goes with a Ray: of the one above the one above, of another what its ray[llm] asks for."""
    row = release_of(ray)
    return VLLM if row is None or row is release_of(RAY) else row.vllm_first
