"""Workloads: their pods, the engines in these, and the applications of Ray Serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..quantities import items, mapping, real
from .nodes import Toleration
from .values import Values


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
