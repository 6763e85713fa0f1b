"""The cluster, and the cluster software that is installed on it by Helm or, on a cluster without a registry, from manifests."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from .base import Labels, Name, NonNegative, Positive, Strict

LogType = Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]
RoleArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/.+$")]
SubnetId = Annotated[str, Field(pattern=r"^subnet-[0-9a-f]+$")]
BatchScheduler = Literal["none", "kai", "volcano", "yunikorn", "scheduler-plugins"]


def _cidr(text: str) -> str:
    ipaddress.ip_network(text)
    return text


Cidr = Annotated[str, AfterValidator(_cidr)]


class ExistingCluster(Strict):
    """A cluster that is there already."""

    kind: Literal["existing"] = "existing"
    """existing"""
    kubeconfig: str | None = None
    """Path of a kubeconfig; the ambient KUBECONFIG when not given."""
    context: str | None = None
    """Context of the kubeconfig; its current one when not given."""
    kubernetes_version: str | None = None
    """Kubernetes minor, e.g. 1.34, for the checks of versions that go together."""


class Network(Strict):
    """The VPC of the cluster: made, or given by ids."""

    cidr: str = "10.0.0.0/16"
    """Address range of a VPC that is made."""
    zones: tuple[str, ...] = ()
    """Availability zones; derived: a, b and c of the region. With existing subnets: the zone of each, in their order."""
    nat: Literal["single", "per_zone"] = "single"
    """One NAT gateway, or one in each zone."""
    interface_endpoints: bool = True
    """Private endpoints for ECR and STS in the VPC that is made (S3 always has one, which costs nothing)."""
    vpc_id: str | None = Field(default=None, pattern=r"^vpc-[0-9a-f]+$")
    """An existing VPC; then private_subnet_ids and zones must be given."""
    private_subnet_ids: tuple[SubnetId, ...] = ()
    """Existing private subnets, in at least two zones."""

    @model_validator(mode="after")
    def _cidr_holds_the_subnets(self) -> Network:
        zones = len(self.zones) or 3
        # Subnets of a VPC have 16 to 28 bits; private ones share the range with a block of public ones (manifests/subnets.py).
        longest = 28 - zones.bit_length() - (zones - 1).bit_length()
        prefix = ipaddress.IPv4Network(self.cidr).prefixlen
        if not 16 <= prefix <= longest:
            raise ValueError(
                f"cidr is a /{prefix}; a VPC with subnets in {zones} zones takes a /16 to a /{longest}, "
                "and pods need an address each: a /16 is a good start"
            )
        return self

    @model_validator(mode="after")
    def _existing_subnets_have_a_vpc_and_zones(self) -> Network:
        if (self.vpc_id is None) != (not self.private_subnet_ids):
            raise ValueError(
                "vpc_id and private_subnet_ids go together: give both to use a VPC, or neither to make one"
            )
        if self.private_subnet_ids and len(self.zones) != len(self.private_subnet_ids):
            raise ValueError(
                f"zones names the zone of each existing subnet, in their order: {len(self.private_subnet_ids)} subnets, "
                f"{len(self.zones)} zones"
            )
        return self


class AwsCluster(Strict):
    """An EKS cluster that the stack makes, or one that is there and gets node pools."""

    kind: Literal["aws"]
    """aws"""
    region: str = Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d+$")
    """AWS region, e.g. us-east-1."""
    name: str | None = Field(default=None, pattern=r"^[0-9A-Za-z][0-9A-Za-z_-]{0,79}$")
    """Cluster name; derived from project and environment. Up to 80 characters: Karpenter's queue has the same name."""
    create: bool = True
    """Make the cluster. False: an EKS cluster called `name` is there; it only gets node pools, roles and software."""
    kubernetes_version: str | None = None
    """Kubernetes minor; derived from components/versions.py."""
    support: Literal["standard", "extended"] = "standard"
    """At the end of the version's standard support: standard upgrades the control plane, extended stays and costs six times as much."""
    addon_versions: dict[str, str] = {}
    """Versions of EKS add-ons set by hand; derived: EKS' default for the cluster's Kubernetes version."""
    network: Network = Network()
    """The VPC."""
    public_endpoint_cidrs: tuple[Cidr, ...] = ()
    """Who may reach the API server from outside; none: private endpoint only."""
    admin_role_arns: tuple[RoleArn, ...] = ()
    """IAM roles that get cluster-admin by access entries."""
    log_types: tuple[LogType, ...] = ("api", "audit", "authenticator")
    """Control-plane logs that are kept."""
    log_retention_days: Positive = 30
    """Days control-plane logs are kept."""
    weights_bucket: bool = True
    """Make an S3 bucket for model weights that the engines may read."""
    tags: Labels = {}
    """Tags of every AWS resource."""

    @model_validator(mode="after")
    def _an_existing_cluster_has_a_name_and_a_network(self) -> AwsCluster:
        if not self.create and (self.name is None or self.network.vpc_id is None):
            raise ValueError("create: false needs name, network.vpc_id, network.private_subnet_ids and network.zones")
        return self

    @model_validator(mode="after")
    def _a_control_plane_spans_two_zones(self) -> AwsCluster:
        if self.create and self.network.zones and len(set(self.network.zones)) < 2:
            raise ValueError(
                f"network.zones is {', '.join(self.network.zones)}; EKS takes subnets in at least two zones "
                "(a pool can still be in one: node_pools.<name>.zones)"
            )
        return self


Cluster = Annotated[ExistingCluster | AwsCluster, Field(discriminator="kind")]


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


class LoadBalancerController(Component):
    """AWS Load Balancer Controller. Derived: installed on AWS when a service is exposed by a load balancer."""


class Monitoring(Component):
    """kube-prometheus-stack with dashboards for Ray, Serve LLM/vLLM and DCGM. Installed only when asked for."""

    storage_gib: Positive = 50
    """Volume of Prometheus."""
    retention_days: Positive = 10
    """Days metrics are kept."""


class Gateway(Component):
    """Gateway API and Envoy Gateway, for incremental upgrades. Installed only when asked for."""

    class_name: str | None = None
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
    gpu_operator: GpuOperator = GpuOperator()
    """NVIDIA GPU Operator."""
    kuberay: KubeRay = KubeRay()
    """KubeRay operator."""
    kai: Kai = Kai()
    """KAI Scheduler."""
    volcano: Volcano = Volcano()
    """Volcano."""
    vgpu_plugin: VgpuPlugin = VgpuPlugin()
    """Device plugin of Volcano vGPU."""
    autoscaler: Autoscaler = Autoscaler()
    """Karpenter or cluster-autoscaler."""
    efa_plugin: EfaPlugin = EfaPlugin()
    """EFA device plugin."""
    load_balancer_controller: LoadBalancerController = LoadBalancerController()
    """AWS Load Balancer Controller."""
    monitoring: Monitoring = Monitoring()
    """Prometheus and dashboards."""
    gateway: Gateway = Gateway()
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
    gpu: QueueShare = QueueShare()
    """GPUs."""
    cpu: QueueShare = QueueShare(quota=-1)
    """CPU cores."""
    memory_gib: QueueShare = QueueShare(quota=-1)
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
