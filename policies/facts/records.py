"""The facts rules judge: small frozen records, the same whether read from our config, from manifests or from resources.

Not the wire: readers beside this module turn manifests and properties into these. Units are in the names: mib, milli
(thousandths of a core), seconds. None is "not stated" and never "zero".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal

from .quantities import items, mapping, real

Values = Mapping[str, Any]
EMPTY: Values = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def matches(self, taint: Taint) -> bool:
        """Kubernetes' own rule (k8s.io/api/core/v1 Toleration.ToleratesTaint)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How one GPU of a pool is given to more than one pod."""

    strategy: str = "none"  # none | mig | time_slicing | mps | kai | volcano_vgpu
    replicas: int | None = None
    mig_strategy: str = "single"
    mig_profile: str | None = None
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """A node pool, whoever makes its nodes."""

    name: str
    where: str  # "node pool 'h100'"
    kind: str  # managed | karpenter | existing | self_managed
    instance_types: tuple[str, ...] = ()  # empty for existing pools
    gpu: str | None = None  # name in policies.catalog.gpus; None: no GPU
    gpus_per_node: int = 0
    gpu_mib: int | None = None  # memory of one GPU as the driver reports it
    cpu_milli: int | None = None  # what pods can have on one node
    memory_mib: int | None = None
    min: int = 0
    max: int | None = None
    desired: int | None = None
    fixed: bool = False  # Karpenter's static capacity: that many nodes, whether or not pods wait
    spot: bool = False
    reservation: str | None = None  # reservation id
    reservation_kind: str | None = None  # capacity_block | on_demand
    zones: tuple[str, ...] = ()  # empty: the cluster's
    zones_declared: bool = False
    ami_type: str | None = None  # EKS amiType, CUSTOM for an own AMI
    ami_id: str | None = None
    ami_release: str | None = None  # release of EKS' image, as declared
    driver_version: str | None = None
    efa: bool = False
    efa_declared_interfaces: int | None = None
    taints: tuple[Taint, ...] = ()
    labels: Values = field(default_factory=dict)  # labels nodes carry, llm-serving/pool included
    sharing: Sharing = Sharing()
    architecture: str = "x86_64"
    root_disk_gib: int | None = None
    nvme_gb: int | None = None
    hop_limit: int | None = None
    limits: Values = field(default_factory=dict)  # Karpenter
    price_usd_hour: float | None = None
    ignores_desired: bool = True  # later changes of desired size are left to the autoscaler
    announced: tuple[str, ...] = ()  # extended resources that tags of the group tell cluster-autoscaler of


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue of KAI or Volcano. GPUs in GPUs, CPU in milli-cores, memory in MiB; -1 unlimited, None not stated."""

    name: str
    where: str
    scheduler: str  # kai | volcano
    parent: str | None = None
    gpu_quota: float | None = None
    gpu_limit: float | None = None
    cpu_quota: float | None = None
    cpu_limit: float | None = None
    memory_quota: float | None = None
    memory_limit: float | None = None
    capability: Values = field(default_factory=dict)  # Volcano, as declared
    guarantee: Values = field(default_factory=dict)  # Volcano, as declared
    priority: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A Helm release or chart."""

    name: str
    where: str
    chart: str
    version: str | None
    repository: str | None
    namespace: str | None
    values: Values  # merged: ours or whoever's
    kind: str = (
        "release"  # release (helm.v3.Release) | chart (helm.v3/v4 Chart: no hooks) | manifests (no chart at all)
    )
    values_known: bool = True  # False: only the chart and its version are seen, from labels of what it rendered
    atomic: bool | None = None
    timeout_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """An environment variable that comes from a Secret."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods of one shape: a Ray head, a Ray worker group, or the pods of a Deployment."""

    name: str
    where: str  # "service 'chat': worker group 'l4'", "service 'chat': head"
    head: bool = False
    min: int | None = None
    replicas: int | None = None
    max: int | None = None
    hosts: int = 1
    image: str = ""
    cpu_milli: int | None = None  # request, else limit
    cpu_limit_milli: int | None = None
    memory_mib: int | None = None
    limits: Values = field(default_factory=dict)  # of containers[0], as declared
    requests: Values = field(default_factory=dict)
    gpu_resource: str | None = (
        None  # nvidia.com/gpu, nvidia.com/mig-1g.10gb, nvidia.com/gpu.shared, volcano.sh/vgpu-number
    )
    gpus: float = 0  # count of gpu_resource in the limits
    gpu_containers: int = 0  # containers of the pod that ask for GPUs
    ray_start_params: Values = field(default_factory=dict)
    resources: Values = field(default_factory=dict)  # group `resources` seen by the Ray autoscaler
    env: Mapping[str, str | SecretRef] = field(default_factory=dict)
    labels: Values = field(default_factory=dict)  # pod labels
    annotations: Values = field(default_factory=dict)  # pod annotations
    node_selector: Values = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    restart_policy: str | None = None
    service_links: bool | None = None
    scheduler_name: str | None = None
    runtime_class: str | None = None
    service_account: str | None = None
    priority_class: str | None = None
    privileged: bool = False
    host_network: bool = False
    shm_mib: int | None = None  # memory-backed /dev/shm declared by hand; None: KubeRay's own (= memory limit)
    liveness_probe: Values | None = None
    readiness_probe: Values | None = None
    startup_probe: Values | None = None
    idle_timeout_seconds: int | None = None
    image_pull_policy: str | None = None
    termination_grace_seconds: int | None = None
    hugepages: bool = False
    host_shm: bool = False
    pod: Values = field(default_factory=dict)  # the pod spec as declared, for the rare check

    @property
    def main_container(self) -> Values:
        """The container that Ray or the engine runs in: the first; empty where none is declared."""
        return mapping(next(iter(items(self.pod.get("containers"))), {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One vLLM engine deployment (an LLMConfig of a Serve app, or a plain vLLM Deployment)."""

    where: str  # "service 'chat': model 'llama'"
    model_id: str  # name clients use
    source: str  # where weights come from
    catalog_id: str  # name to look up in the catalog; the source when nothing better is stated
    role: Literal["serve", "prefill", "decode", "data_parallel"] = "serve"
    device: str = "gpu"  # gpu | cpu
    engine_args: Values = field(default_factory=dict)  # vLLM engine arguments as declared
    accelerator_type: str | None = None
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False
    bundles: tuple[
        Values, ...
    ] = ()  # placement group declared by hand or by us, expanded to one for each worker; () = none declared
    bundles_form: Literal["none", "bundles", "bundle_per_worker"] = "none"
    strategy: str | None = None
    placement_group_config: Values | None = None  # as declared
    ray_actor_options: Values = field(default_factory=dict)  # as declared in deployment_config
    deployment_config: Values = field(default_factory=dict)  # as declared
    env: Mapping[str, str | SecretRef] = field(default_factory=dict)  # runtime_env env_vars of the engine
    min_replicas: int = 1
    max_replicas: int = 1
    autoscaled: bool = False  # an autoscaling_config (or num_replicas: auto) is declared
    target_ongoing_requests: float | None = None
    max_ongoing_requests: int | None = None
    upscale_delay_s: float | None = None
    downscale_delay_s: float | None = None
    downscale_to_zero_delay_s: float | None = None
    max_replicas_per_node: int | None = None
    router: str | None = None  # import path of the request router class
    router_options: Values = field(default_factory=dict)
    kv_transfer: Values | None = None  # kv_transfer_config
    lora: Values | None = None  # lora_config
    experimental: Values = field(default_factory=dict)
    llm_config: Values = field(default_factory=dict)  # the LLMConfig as declared, for the rare check
    groups: tuple[str, ...] = ()  # worker groups made for this engine, where it is known
    load_share_gib: float | None = None

    @property
    def world(self) -> int:
        """Engine workers of one replica (of one data-parallel rank)."""
        return self.tensor * self.pipeline

    @property
    def share(self) -> float:
        """GPU that one worker reserves in Ray: of its bundle, 1 without one."""
        if self.device == "cpu":
            return 0.0
        for bundle in self.bundles:
            if "GPU" in bundle:
                return real(bundle["GPU"]) or 0.0
        return 0.0 if self.bundles else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeApp:
    """One application of serveConfigV2."""

    name: str
    import_path: str
    route_prefix: str | None
    args: Values
    deployments: tuple[Values, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A RayService, RayCluster, RayJob, or plain vLLM Deployment."""

    kind: str  # RayService | RayCluster | RayJob | Deployment
    name: str
    namespace: str
    where: str  # "service 'chat'" or "RayService default/chat"
    labels: Values = field(default_factory=dict)
    annotations: Values = field(default_factory=dict)
    ray_version: str | None = None
    python_version: str | None = None
    vllm_version: str | None = None
    cuda_version: str | None = None
    head: PodGroup | None = None
    groups: tuple[PodGroup, ...] = ()
    engines: tuple[Engine, ...] = ()
    apps: tuple[ServeApp, ...] = ()
    serve_config: Values = field(default_factory=dict)
    job_args: Values | None = None  # arguments of a job app in a RayJob's command
    autoscaling: bool = False
    autoscaler_version: str | None = None
    autoscaler_options: Values = field(default_factory=dict)
    upgrade_type: str | None = None  # NewCluster | NewClusterWithIncrementalUpgrade | None
    upgrade_options: Values = field(default_factory=dict)
    fault_tolerance: Values | None = None  # gcsFaultToleranceOptions
    auth_mode: str | None = None
    auth_options: Values = field(default_factory=dict)
    head_service_type: str | None = None
    head_service: Values | None = None
    head_ingress: bool = False
    serve_service: Values | None = None
    submission_mode: str | None = None
    managed_by: str | None = None
    suspend: bool = False
    huggingface_token: bool = False  # every Ray container gets HF_TOKEN from a Secret
    ready_timeout_seconds: int | None = None
    spec: Values = field(default_factory=dict)  # the custom resource's spec as declared
    manifest: Values = field(default_factory=dict)

    @property
    def pod_groups(self) -> tuple[PodGroup, ...]:
        """Head and worker groups."""
        return (*((self.head,) if self.head else ()), *self.groups)

    @property
    def by_kuberay(self) -> bool:
        """Whether KubeRay makes its pods."""
        return self.kind.startswith("Ray")


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """Any other Kubernetes object, for rules about names, exposure and secrets."""

    api_version: str
    kind: str
    name: str
    namespace: str
    where: str
    manifest: Values

    @property
    def spec(self) -> Values:
        return mapping(self.manifest.get("spec"))

    @property
    def labels(self) -> Values:
        return mapping(mapping(self.manifest.get("metadata")).get("labels"))

    @property
    def annotations(self) -> Values:
        return mapping(mapping(self.manifest.get("metadata")).get("annotations"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsResource:
    """Any AWS resource, for rules about security groups, roles, subnets. template: of a node group, its launch template's properties.
    doors: of a file system, what its security groups let in; None where not all of it is seen."""

    type: str
    name: str
    where: str
    props: Values
    template: Values | None = None
    doors: tuple[Values, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions as declared; None where not known."""

    kubernetes: str | None = None
    ray: str | None = None
    vllm: str | None = None
    python: str | None = None
    cuda: str | None = None
    kuberay: str | None = None
    kai: str | None = None
    volcano: str | None = None
    gpu_operator: str | None = None
    karpenter: str | None = None
    pulumi_kubernetes: str | None = None
    pulumi_aws: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    usd_per_hour: float | None = None
    gpus: Mapping[str, int] = field(default_factory=dict)
    vcpus: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What the plan reckons for one service: filled by the plan, empty at the policy pack's door."""

    workload: str  # Workload.where
    pool: str
    gpus_min: float
    gpus_max: float
    gpus_upgrade: float
    nodes_min: int
    nodes_max: int
    nodes_upgrade: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Settings of the config that nothing reads: by the kind of the service, or for want of another setting."""

    where: str
    fields: tuple[str, ...]
    kind: str | None = None
    needs: str = ""
    certain: bool = False  # what was asked for would be missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Everything there is to judge. At the pack's door parts are missing: a rule that needs one says nothing without it."""

    workloads: tuple[Workload, ...] = ()
    pools: tuple[NodePool, ...] = ()
    queues: tuple[Queue, ...] = ()
    releases: tuple[Release, ...] = ()
    objects: tuple[Object, ...] = ()
    aws: tuple[AwsResource, ...] = ()
    versions: Versions = Versions()
    budget: Budget = Budget()
    uses: tuple[Use, ...] = ()
    batch_scheduler: str | None = None  # none | kai | volcano | yunikorn | scheduler-plugins; None: not known
    gpu_sharing_enabled: bool | None = None  # KAI's global.gpuSharing
    autoscaler: str | None = None  # none | karpenter | cluster_autoscaler; None: not known
    gateway_class: str | None = None  # GatewayClass that is there
    cluster: str | None = None  # aws | existing
    cluster_made: bool = False  # True where this stack makes the cluster, so that it has no nodes but the pools'
    zones: tuple[str, ...] = ()  # zones with private subnets, where declared
    complete: bool = False  # True at the plan's door: what is not here does not exist
    fresh: bool = False  # the cluster is made here: nothing is on it that the stack does not install
    namespaces: tuple[str, ...] = ()  # namespaces that services of this stack make, one for each that does
    present: tuple[str, ...] = ()  # charts whose software is said to be there already
    models: Mapping[str, Any] = field(default_factory=dict)  # further model rows, by id
    unread: tuple[Unread, ...] = ()  # of our own config; nothing at the pack's door
    _by_kind: Mapping[str, list[tuple[int, Object]]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[str, list[tuple[int, Object]]] = {}
        for place, item in enumerate(self.objects):
            found.setdefault(item.kind, []).append((place, item))
        object.__setattr__(self, "_by_kind", found)

    def of_kind(self, *kinds: str, group: str = "") -> tuple[Object, ...]:
        """Objects of these kinds, in their order; of API versions that begin with `group` where one is given."""
        found = [each for kind in kinds for each in self._by_kind.get(kind, ())]
        return tuple(item for _, item in sorted(found, key=itemgetter(0)) if item.api_version.startswith(group))
