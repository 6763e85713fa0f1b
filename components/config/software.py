"""Cluster software, installed by Helm or, on a cluster without a registry, from manifests; its queues; versions and ceilings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, model_validator

from .base import Name, NonNegative, Positive, Strict
from .names import ObjectName

BatchScheduler = Literal["none", "kai", "volcano", "yunikorn", "scheduler-plugins"]


class Component(Strict):
    """What every installed piece of cluster software has in common."""

    install: bool | None = None
    """Install it; derived: whether something in this environment needs it. False: it is there already, or not wanted."""
    version: str | None = None
    """Chart version; derived from components/versions.py."""
    values: dict[str, JsonValue] = {}
    """Helm values merged over the derived ones; the result is judged."""
    timeout_seconds: Positive = 900
    """Seconds an installation or upgrade may take before it is rolled back."""


class GpuOperator(Component):
    """NVIDIA GPU Operator. Derived: installed when a pool has GPUs."""

    dcgm_exporter: bool = True
    """GPU metrics."""


class KubeRay(Component):
    """KubeRay operator, by its chart or from the manifests of its Go module. Derived: installed when a service is Ray's."""

    source: Literal["chart", "manifests"] = "chart"
    """chart: Helm; manifests: the kustomization in `directory`, for a cluster that reaches no chart repository."""
    directory: str | None = None
    """For source manifests: folder config/default of the operator's Go module. $VARIABLES are expanded."""
    image: str | None = None
    """Operator image with tag or digest; the release's own when not given."""
    feature_gates: dict[str, bool] = {}
    """Feature gates set by hand, over the derived ones."""
    watch_namespaces: tuple[str, ...] = ()
    """Namespaces the operator watches; all when empty."""

    @model_validator(mode="after")
    def _manifests_have_a_directory_and_a_version(self) -> KubeRay:
        if self.source == "manifests" and (self.directory is None or self.version is None):
            raise ValueError(
                "source: manifests needs directory (config/default of the operator's Go module) and version (its release, e.g. 1.6.1)"
            )
        if self.source == "chart" and self.directory is not None:
            raise ValueError("directory is read with source: manifests only; set that, or leave directory out")
        return self


class Kai(Component):
    """KAI Scheduler. Derived: installed when it is the batch scheduler."""

    gpu_sharing: bool | None = None
    """Allow GPU fractions; derived: whether a pool's sharing is kai."""
    default_queue: bool = False
    """Make KAI's own default-queue, which takes pods without a queue label; off, so that a forgotten label is seen."""


class Volcano(Component):
    """Volcano. Derived: installed when it is the batch scheduler. Its chart has its CRDs as templates: uninstalling it
    deletes every Volcano object of the cluster."""


class VgpuPlugin(Component):
    """HAMi's device plugin for Volcano vGPU. Derived: installed when a pool's sharing is volcano_vgpu."""


class Autoscaler(Component):
    """Node autoscaler."""

    kind: Literal["none", "karpenter", "cluster_autoscaler"] | None = None
    """Derived: karpenter when a pool is Karpenter's; else cluster_autoscaler when a pool on AWS may grow; else none."""


class EfaPlugin(Component):
    """AWS' device plugin for Elastic Fabric Adapters. Derived: installed when a pool on AWS has EFA."""


class DraDriver(Component):
    """NVIDIA's DRA driver, for ComputeDomains: NVLink between nodes. Derived: installed when a pool has GPUs that need it (GB200)."""


class LoadBalancerController(Component):
    """AWS Load Balancer Controller. Derived: installed on AWS when a service is exposed by a load balancer."""


class Monitoring(Component):
    """kube-prometheus-stack with dashboards for Ray, Serve LLM/vLLM and DCGM. Installed only when asked for."""

    storage_gib: Positive = 50
    """Volume of Prometheus."""
    retention_days: Positive = 10
    """Days metrics are kept."""


class Keda(Component):
    """KEDA, which scales plain vLLM on metrics of Prometheus. Derived: installed when a service scales by it."""


class Gateway(Component):
    """Gateway API and Envoy Gateway, for incremental upgrades and routes. Installed only when asked for."""

    class_name: ObjectName | None = None
    """GatewayClass that is there, or that is made when this is installed; none: no Gateway API."""

    @model_validator(mode="after")
    def _an_installed_gateway_has_a_class(self) -> Gateway:
        if self.install and self.class_name is None:
            raise ValueError("install: true needs class_name, the name of the GatewayClass that is made, e.g. envoy")
        return self


class Software(Strict):
    """Cluster software."""

    batch_scheduler: BatchScheduler = "none"
    """Gang scheduler for Ray pods; exactly one, or none."""
    gpu_operator: GpuOperator = GpuOperator.model_construct()
    """NVIDIA GPU Operator."""
    kuberay: KubeRay = KubeRay.model_construct()
    """KubeRay operator."""
    kai: Kai = Kai.model_construct()
    """KAI Scheduler."""
    volcano: Volcano = Volcano.model_construct()
    """Volcano."""
    vgpu_plugin: VgpuPlugin = VgpuPlugin.model_construct()
    """Device plugin of Volcano vGPU."""
    autoscaler: Autoscaler = Autoscaler.model_construct()
    """Karpenter or cluster-autoscaler."""
    efa_plugin: EfaPlugin = EfaPlugin.model_construct()
    """EFA device plugin."""
    dra_driver: DraDriver = DraDriver.model_construct()
    """NVIDIA DRA driver."""
    load_balancer_controller: LoadBalancerController = LoadBalancerController.model_construct()
    """AWS Load Balancer Controller."""
    monitoring: Monitoring = Monitoring.model_construct()
    """Prometheus and dashboards."""
    keda: Keda = Keda.model_construct()
    """Autoscaler of plain vLLM."""
    gateway: Gateway = Gateway.model_construct()
    """Gateway API."""


class QueueShare(Strict):
    """One resource of a queue. -1 is unlimited."""

    quota: float = Field(default=0, ge=-1)
    """What the queue is sure of (KAI quota, Volcano deserved)."""
    limit: float = Field(default=-1, ge=-1)
    """What it may have at most (KAI limit, Volcano capability)."""
    weight: float = Field(default=1, ge=0)
    """Share of what nobody is sure of (KAI over-quota weight; the one of `gpu` is Volcano's queue weight)."""
    guarantee: float = Field(default=0, ge=0)
    """Volcano only: kept free for the queue and never lent; part of the quota."""

    @model_validator(mode="after")
    def _a_guarantee_is_part_of_the_quota(self) -> QueueShare:
        if self.guarantee and self.guarantee > self.quota:
            raise ValueError(
                f"guarantee {self.guarantee:g} is more than quota {self.quota:g}; Volcano takes guarantee <= quota: raise quota"
            )
        return self


class Queue(Strict):
    """A queue of the batch scheduler. GPUs in GPUs, CPU in cores, memory in GiB."""

    parent: Name | None = None
    """Parent queue; only leaves take workloads."""
    gpu: QueueShare = QueueShare.model_construct()
    """GPUs."""
    cpu: QueueShare = QueueShare.model_construct(quota=-1)
    """CPU cores."""
    memory_gib: QueueShare = QueueShare.model_construct(quota=-1)
    """Memory in GiB."""
    priority: NonNegative = 100
    """Order among siblings."""
    reclaimable: bool = True
    """Volcano: others may take back what the queue borrowed."""


class VersionOverrides(Strict):
    """Versions set by hand over components/versions.py; the combination is judged."""

    ray: str | None = None
    """Ray in the images."""
    vllm: str | None = None
    """vLLM in the images."""
    python: str | None = None
    """Python minor in the images."""
    cuda: str | None = None
    """CUDA of the images, e.g. 13.0."""


class Budget(Strict):
    """Ceilings the plan is held to, upgrades included."""

    usd_per_hour: float | None = Field(default=None, gt=0)
    """Most the nodes may cost an hour at their peak."""
    gpus: dict[str, Positive] = {}
    """Most GPUs of a kind, e.g. the account's quota: {H100: 16}."""
    vcpus: dict[str, Positive] = {}
    """EC2 vCPU quotas by family: {G: 768, P: 384} (on demand), {G-spot: ...}."""
