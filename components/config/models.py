"""One model of a service: what is served, on what share of which GPU, in how many replicas, under what load."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .base import Env, Json, Name, NonNegative, Positive, PositiveFloat, Strict
from .pools import MigProfile

WorkerProfile = Annotated[MigProfile, AfterValidator(lambda text: text.removeprefix("all-"))]


class Gpu(Strict):
    """What one engine worker gets of a GPU. Empty: a whole GPU for each worker."""

    share: float | None = Field(default=None, gt=0, le=1)
    """Share of a GPU for each engine worker; memory share, bundles and environment are derived from it."""
    mig: WorkerProfile | None = None
    """MIG profile for each worker, e.g. 3g.40gb; derived from the pool's own when it has one."""
    headroom: float | None = Field(default=None, ge=0, lt=0.5)
    """Part of the GPU left free beside a shared engine: contexts and fragments of co-tenants; derived: 1.2 GiB, at least 3 %."""


class Parallel(Strict):
    """How one engine is spread over GPUs."""

    tensor: Positive = 1
    """Tensor parallel size."""
    pipeline: Positive = 1
    """Pipeline parallel size."""
    data: Positive = 1
    """Data parallel size (attention ranks of one group)."""
    expert: bool = False
    """Spread experts over the ranks instead of slicing each."""


class Replicas(Strict):
    """Replicas of one model and how Serve scales them. min = max is a fixed number."""

    min: NonNegative = 1
    """Fewest replicas; 0 scales to zero and holds the first request."""
    max: Positive = 1
    """Most replicas."""
    initial: NonNegative | None = None
    """Replicas at start."""
    target_ongoing_requests: PositiveFloat | None = None
    """Requests in flight for each replica that scaling aims at; derived from max_num_seqs of the engine."""
    max_ongoing_requests: Positive | None = None
    """Requests a replica takes at once; derived from max_num_seqs of the engine, above the target."""
    max_queued_requests: int = Field(default=-1, ge=-1)
    """Requests a router holds for each replica's lack before it answers 503; -1 is unlimited."""
    surge_percent: int = Field(default=0, ge=0, le=100)
    """Replicas beyond the wanted number while an in-place change replaces them (Ray >= 2.60). 0: requests to a model with one
    replica wait while it is replaced; 100: the new one answers first, and takes GPU or memory beside the old one."""
    upscale_delay_s: PositiveFloat | None = None
    """Seconds of load before a replica is added."""
    downscale_delay_s: PositiveFloat | None = None
    """Seconds of calm before one is removed; derived from the cold start of the model."""
    downscale_to_zero_delay_s: PositiveFloat | None = None
    """Seconds of calm before the last one goes; derived: over the cold start, so that it does not flap."""


class Placement(Strict):
    """Placement group of one replica, set by hand over the derived one."""

    strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] | None = None
    """Ray placement strategy; derived: PACK, STRICT_PACK inside one node's share group."""
    bundles: tuple[dict[str, float], ...] | None = None
    """Bundles, one for each engine worker."""
    bundle_per_worker: dict[str, float] | None = None
    """The same bundle for each engine worker; not together with bundles."""


class Routing(Strict):
    """How requests find a replica of the model."""

    policy: Literal["power_of_two", "prefix_affinity", "session", "kv_aware", "round_robin"] = "power_of_two"
    """power_of_two: least busy of two; prefix_affinity: where the prompt's prefix is cached; session: same session, same replica."""
    options: Json = {}
    """Arguments of the router class."""


class Lora(Strict):
    """LoRA adapters loaded on request."""

    path: str
    """Bucket folder with one folder for each adapter (remote: s3://, gs://, abfss://)."""
    max_adapters: Positive = 16
    """Adapters one replica keeps loaded."""
    max_rank: Positive = 16
    """Largest rank."""


class Disaggregation(Strict):
    """Prefill and decode in engines of their own. The model's own settings are decode's; these are prefill's."""

    prefill_replicas: Replicas = Replicas.model_construct()
    """Prefill replicas."""
    prefill_engine_args: Json = {}
    """Engine arguments of prefill, over the model's."""
    connector: str = "NixlConnector"
    """KV connector."""
    prefill_port_base: Positive = 40000
    """NIXL side-channel port base of prefill engines."""
    decode_port_base: Positive = 41000
    """NIXL side-channel port base of decode engines."""


class Model(Strict):
    """One model of a service. Its key in `models` is the name clients use."""

    model: str | None = None
    """Model of the catalog or a pinned one (a Hugging Face id); the key when not given."""
    source: str | None = None
    """Where weights come from: a Hugging Face id, s3://..., or a folder in the image or a mounted volume; the model id when not given."""
    device: Literal["gpu", "cpu"] = "gpu"
    """gpu, or cpu for an engine on CPU."""
    gpu: Gpu = Gpu.model_construct()
    """Share or slice of a GPU."""
    parallel: Parallel = Parallel.model_construct()
    """Tensor, pipeline, data, expert parallel."""
    engine_args: Json = {}
    """vLLM engine arguments (AsyncEngineArgs names). Those that this stack derives may be given and are then judged."""
    replicas: Replicas = Replicas.model_construct()
    """Replicas and load."""
    pool: Name | None = None
    """Node pool of this model's workers, when not the service's."""
    cpu_per_worker: PositiveFloat = 1
    """CPU cores reserved for each engine worker (Ray bundle CPU)."""
    kv_cache_gib: Positive | None = None
    """KV cache of a CPU engine (GiB, whole); derived: 1, or what kv_cache_memory_bytes of engine_args says."""
    accelerator_type: str | None = None
    """Ray accelerator type; derived from the pool's GPU."""
    placement: Placement = Placement.model_construct()
    """Placement group set by hand."""
    ray_actor_options: Json = {}
    """Ray actor options of the replica actor, set by hand."""
    deployment_config: Json = {}
    """Further Ray Serve deployment options (graceful_shutdown_timeout_s, health_check_period_s, ...)."""
    routing: Routing = Routing.model_construct()
    """Request router."""
    lora: Lora | None = None
    """LoRA adapters."""
    disaggregation: Disaggregation | None = None
    """Prefill/decode disaggregation."""
    experimental: Json = {}
    """Ray Serve LLM experimental_configs."""
    env: Env = {}
    """Environment of this engine (runtime_env), over the derived one. No secrets: they go by reference."""
