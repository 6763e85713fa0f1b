"""Public reports about queues and topologies, who reaches pods, device plugins and KServe's objects, as YAML: each broken, and mended."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from policies.facts.stack import reading
from policies.facts.wire import Resource, manifests
from policies.rules import check

from .resources import case, objects, said, twins
from .test_reports_of_aws import POOL
from .test_reports_of_objects import ENGINE
from .test_reports_of_other_kinds import CLAIM, GROUPS, KUEUE
from .test_reports_of_plugins_and_names import PICKED, PLUGIN, PROMETHEUS, release
from .test_reports_of_ray_objects import KNOWN, cluster, service

TOPOLOGY = KUEUE.replace("spec: {nodeLabels:", "spec: {topologyName: racks, nodeLabels:").replace(
    "  template:\n    spec:\n      restartPolicy",
    "  template:\n    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: example.com/rack}}\n    spec:\n      restartPolicy",
) + """---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: example.com/block}, {nodeLabel: example.com/rack}]}
"""  # fmt: skip
NODE_POOL = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: workers}
spec: {partitionLabelValue: workers}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: root, labels: {kai.scheduler/node-pool: workers}}
spec: {resources: {cpu: {quota: -1, limit: -1, overQuotaWeight: 1}, gpu: {quota: -1, limit: -1, overQuotaWeight: 1}, memory: {quota: -1, limit: -1, overQuotaWeight: 1}}}
"""
VIRTUAL = """
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
data:
  volcano-scheduler.conf: |
    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins: [{name: priority}, {name: gang}]
    - plugins:
      - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}
      - {name: predicates}
---
apiVersion: v1
kind: Pod
metadata: {name: half, namespace: serving}
spec:
  schedulerName: volcano
  containers: [{name: cuda, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 3000}}}]
"""
CLASS = CLAIM.replace("deviceClassName: gpu.nvidia.com}}", "deviceClassName: gpu.nvidia.com}}, {name: nic, exactly: {deviceClassName: dranet-rdma}}") + """---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: dranet-rdma}
spec: {selectors: [{cel: {expression: "device.driver == 'dra.net'"}}]}
"""  # fmt: skip
PICKER = PICKED + """---
apiVersion: v1
kind: Service
metadata: {name: picker, namespace: serving}
spec: {selector: {app: picker}, ports: [{name: grpc, port: 9002}]}
"""  # fmt: skip
ACROSS = PICKED.replace("kind: HTTPRoute\nmetadata: {name: chat, namespace: serving}", "kind: HTTPRoute\nmetadata: {name: chat, namespace: edge}").replace("kind: InferencePool, name: chat}", "kind: InferencePool, name: chat, namespace: serving}") + """---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: chat, namespace: serving}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: edge}], to: [{group: inference.networking.k8s.io, kind: InferencePool}]}
"""  # fmt: skip
IN = ", {from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}], ports: [{port: 8000}]}"
SCRAPED = PROMETHEUS + f"""---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: chat, namespace: serving}}
spec:
  podSelector: {{matchLabels: {{app: chat}}}}
  policyTypes: [Ingress]
  ingress: [{{from: [{{podSelector: {{}}}}]}}{IN}]
"""  # fmt: skip
SERVICES = SCRAPED.replace("kind: PodMonitor", "kind: ServiceMonitor").replace("podMetricsEndpoints", "endpoints").replace("{podMonitorSelector: {matchLabels: {release: prometheus}}, podMonitorNamespaceSelector: {}}", "{serviceMonitorSelector: {}}")  # fmt: skip
ON_POOL = POOL + "---\n" + ENGINE.replace(
    "    metadata: {labels: {app: chat}}\n    spec:",
    "    metadata: {labels: {app: chat}, annotations: {karpenter.sh/do-not-disrupt: 'true'}}\n    spec:\n      nodeSelector: {karpenter.sh/nodepool: gpu}\n      tolerations: [{key: nvidia.com/gpu, operator: Exists}]",
    1,
)  # fmt: skip
SELECTS = "nodeSelector: {karpenter.sh/nodepool: gpu}"
QUOTA = ENGINE + """apiVersion: v1
kind: ResourceQuota
metadata: {name: gpus, namespace: serving}
spec: {hard: {requests.nvidia.com/gpu: 2}}
"""  # fmt: skip
LLM = """
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: qwen, namespace: serving}
spec:
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct", name: Qwen/Qwen2.5-7B-Instruct}
  replicas: 1
  router: {gateway: {refs: [{name: public, namespace: gateways}]}, route: {http: {refs: [{name: chat}]}}, scheduler: {}}
  template:
    containers: [{name: main, image: "vllm/vllm-openai:v0.29.0", resources: {limits: {cpu: 8, memory: 24Gi, nvidia.com/gpu: 1}}}]
"""
TOKEN = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llama, namespace: serving}
spec:
  predictor:
    serviceAccountName: hf
    model:
      modelFormat: {name: huggingface}
      args: [--model_name=llama, --max-model-len=8192]
      storageUri: hf://meta-llama/Meta-Llama-3-8B-Instruct
      resources: {limits: {cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}}
"""
LINK = GROUPS.replace(
    "        enableServiceLinks: false",
    "        hostNetwork: true\n        dnsPolicy: ClusterFirstWithHostNet\n        enableServiceLinks: false",
).replace(
    "          resources:",
    "          env: [{name: NCCL_SOCKET_IFNAME, value: '^lo,docker,veth,eni,pod-id-link0'}, {name: GLOO_SOCKET_IFNAME, value: enp73s0}]\n          resources:",
)
PAIRS = (
    case("headlamp-k8s/plugins#1191", "kueue-queue", KUEUE, ("kind: ResourceFlavor\nmetadata: {name: l4}", "kind: ResourceFlavor\nmetadata: {name: default-flavor}"), severity="warning"),
    case("kubernetes-sigs/kueue PR#11259", "kueue-topology", TOPOLOGY, ("topology: example.com/rack", "topology: cloud.provider.com/topology-rack")),
    case("a flavor without a topology", "kueue-topology", TOPOLOGY, ("topologyName: racks, ", "")),
    case("a topology of another name", "kueue-topology", TOPOLOGY, ("topologyName: racks", "topologyName: rack")),
    case("kubernetes-sigs/kueue PR#9541", "pod-gates", KUEUE, ("      restartPolicy: Never", "      schedulingGates: [{name: example.com/hold}]\n      restartPolicy: Never"), severity="warning"),
    case("kai-scheduler/KAI-Scheduler#1045", "kai-node-pool", NODE_POOL, ("partitionLabelValue: workers", "partitionLabelValue: worker-nodes"), severity="warning"),
    case("Project-HAMi/volcano-vgpu-device-plugin#2", "volcano-scheduler", VIRTUAL, ("VGPUEnable", "GPUNumberEnable")),
    case("a scheduler without the plugin", "volcano-scheduler", VIRTUAL, ("      - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}\n", "")),
    case("two ways to share", "volcano-scheduler", VIRTUAL, ("VGPUEnable: true", "VGPUEnable: true, deviceshare.GPUSharingEnable: true")),
    case("llm-d/llm-d#1754", "device-class", CLASS, ("{deviceClassName: dranet-rdma}", "{deviceClassName: rdma-dranet}"), severity="warning"),
    case("a device class with a letter too many", "device-class", CLASS, ("{deviceClassName: dranet-rdma}", "{deviceClassName: dranet-rdmaa}")),
    case("kubernetes-sigs/gateway-api-inference-extension PR#959", "inference-pool", PICKER, ("endpointPickerRef: {name: picker,", "endpointPickerRef: {name: chat-epp,"), severity="warning"),
    case("a picker's other port", "inference-pool", PICKER, ("port: {number: 9002}", "port: {number: 9003}")),
    case("envoyproxy/ai-gateway#2230", "route-target", ACROSS, ("{group: inference.networking.k8s.io, kind: InferencePool}]}", '{group: "", kind: Service}]}'), severity="warning"),
    case("linagora/openrag PR#979", "network-policy-monitor", SCRAPED, (IN, ""), severity="warning"),
    case("a monitor of Services", "network-policy-monitor", SERVICES, (IN, IN.replace("8000", "9000")), severity="warning"),
    case("aws/karpenter-provider-aws#6861", "karpenter-words", ON_POOL, ("do-not-disrupt", "do-not-evict"), severity="warning"),
    case("a pool's label of before v1", "karpenter-words", ON_POOL, (SELECTS, "nodeSelector: {karpenter.sh/provisioner-name: gpu}")),
    case("Azure/karpenter-provider-azure#1005", "karpenter-words", ON_POOL, (SELECTS, "nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}"), severity="warning"),
    case("Project-HAMi/website PR#104", "namespace-quota", QUOTA, ("requests.nvidia", "limits.nvidia"), severity="warning"),
    case("a quota without its prefix", "namespace-quota", QUOTA, ("requests.nvidia", "nvidia"), severity="warning"),
    case("opendatahub-io/models-as-a-service#144", "kserve-router", LLM, ("route: {http: {refs: [{name: chat}]}}", "route: {}"), severity="warning"),
    case("routes of one's own at KServe's Gateway", "kserve-router", LLM, ("gateway: {refs: [{name: public, namespace: gateways}]}", "gateway: {}")),
    case("routes and a route", "kserve-router", LLM, ("refs: [{name: chat}]}", "refs: [{name: chat}], spec: {hostnames: [chat.example.com]}}")),
    case("a worker of no size", "kserve-parallelism", LLM, ("  replicas: 1\n", "  replicas: 1\n  worker: {containers: [{name: main}]}\n")),
    case("ranks without those of a node", "kserve-parallelism", LLM, ("  replicas: 1\n", "  replicas: 1\n  parallelism: {data: 8}\n")),
    case("kserve/website#482", "kserve-token", TOKEN, ("    serviceAccountName: hf\n", ""), ("      resources:", "      env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf-secret, key: HF_TOKEN}}}]\n      resources:"), severity="warning"),
    case("aws-samples/aws-do-eks PR#54", "network-interface", LINK, (",pod-id-link0", ""), severity="warning"),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), PAIRS)
def test_what_was_reported_is_said_and_its_mended_twin_passes(
    rule: str, severity: str, broken: str, mended: str
) -> None:
    twins(rule, severity, objects(broken), objects(mended))


OPERATOR = {"driver": {"enabled": False}}
PLAIN = """
apiVersion: v1
kind: Pod
metadata: {name: gpu, namespace: serving}
spec:
  runtimeClassName: nvidia
  containers: [{name: cuda, image: "nvidia/cuda:12.8.0-base-ubuntu22.04", command: [nvidia-smi], resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def gpu_operator(**values: Any) -> Resource:
    return release("gpu-operator", "v26.7.0", "gpu-operator", {**OPERATOR, **values})


CHART = release("nvidia-device-plugin", "0.19.0", "nvidia-device-plugin", {})
NRI = gpu_operator(cdi={"enabled": True, "nriPluginEnabled": True})


@pytest.mark.parametrize(
    ("rule", "broken", "mended"),
    [
        pytest.param("gpu-plugin-twice", [gpu_operator(), CHART], [gpu_operator(devicePlugin={"enabled": False}), CHART], id="kai-scheduler/KAI-Scheduler#993"),
        pytest.param("gpu-plugin-twice", [gpu_operator(), *objects(PLUGIN)], objects(PLUGIN), id="a plugin by its manifest"),
        pytest.param("gpu-runtime-class", [NRI, *objects(PLAIN)], [gpu_operator(), *objects(PLAIN)], id="Project-HAMi/website PR#825"),
        pytest.param("gpu-runtime-class", [NRI, *objects(PLAIN)], [NRI, *objects(PLAIN.replace("  runtimeClassName: nvidia\n", ""))], id="a pod without a class"),
    ],
)  # fmt: skip
def test_one_plugin_and_its_runtime_class(rule: str, broken: list[Resource], mended: list[Resource]) -> None:
    twins(rule, "error", broken, mended)


def test_a_plugin_for_other_nodes_may_stand_beside_the_operator() -> None:
    elsewhere = release("nvidia-device-plugin", "0.19.0", "kube-system", {"nodeSelector": {"team": "research"}})
    assert "gpu-plugin-twice" not in {rule for rule, _ in said(gpu_operator(), elsewhere)}


def isolated(*ingress: dict[str, Any]) -> dict[str, Any]:
    rules = {"ingressRules": list(ingress)}
    return service(ray=cluster(networkPolicy={"mode": "DenyAllIngress", "head": rules, "worker": rules}))


DASHBOARD = {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ray"}}}], "ports": [{"port": 8265}]}  # fmt: skip
SERVE = {"from": [{"namespaceSelector": {}}], "ports": [{"port": 8000, "protocol": "TCP"}]}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((), {("network-policy-operator", "error"), ("network-policy-serve", "warning")}),
        ((DASHBOARD,), {("network-policy-serve", "warning")}),
        ((DASHBOARD, SERVE), set()),
    ],
)
def test_kuberays_own_policy_leaves_the_operator_and_clients_outside(given: Any, found: set[tuple[str, str]]) -> None:
    """ray-project/kuberay PR#5051."""
    doc = manifests([copy.deepcopy(isolated(*given))], "x")
    findings = {(f.rule, f.severity) for f in check(reading(doc, KNOWN).stack)}
    assert {each for each in findings if each[0].startswith("network-policy-")} == found
