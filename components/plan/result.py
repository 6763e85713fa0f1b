"""The plan: what `preview` prints, the page draws, machines read as JSON. Its schema is published; adding a field is free,
renaming one needs a new `schema_version`.

GPUs are physical GPUs (fractions where a GPU is shared), bytes are bytes, money is USD an hour.
"""

from __future__ import annotations

from dataclasses import dataclass

from policies.finding import Finding

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A figure at rest (every model at its fewest replicas), at full load, and at the worst moment of an upgrade."""

    min: float
    max: float
    upgrade: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Memory of one GPU of an engine, worst rank, in bytes."""

    device_bytes: int  # what a process sees of the device
    budget_bytes: int  # gpu_memory_utilization of it
    weights_bytes: int  # LoRA slots included
    activation_bytes: int
    graph_bytes: int
    overhead_bytes: int
    kv_bytes: int  # left for the KV cache; negative: not even the rest fits
    kv_bytes_per_token: int
    state_bytes_per_sequence: int
    kv_tokens: int
    max_model_len: int
    largest_max_model_len: int  # the most that fits
    concurrency: float  # requests of max_model_len that the cache holds
    verdict: str  # fits | tight (inside the error band) | too_big
    error_band_bytes: int  # how far kv_bytes may be off, either way


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """One engine deployment."""

    name: str
    model: str
    known: bool  # the catalog, or a pinned row, knows the model
    role: str
    device: str
    pool: str | None
    group: str
    gpu: str | None
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    gpu_share: float  # GPU of one worker, physical
    gpus_per_replica: float
    replicas_min: int
    replicas_max: int
    parameters: int | None
    memory: MemoryPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """One worker group."""

    name: str
    pool: str | None
    gpus_per_pod: int
    hosts: int
    physical_gpus_per_pod: float
    cpu: float | None
    memory_gib: float | None
    pods: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """One service."""

    name: str
    kind: str
    namespace: str
    image: str
    queue: str | None
    upgrade: str
    engines: tuple[EnginePlan, ...]
    groups: tuple[GroupPlan, ...]
    gpus: Range
    gpus_by_type: dict[str, Range]
    usd_per_hour: Range | None  # its part of the nodes, by the GPUs (or CPU) it takes; None where a price is unknown
    download_gib: float | None
    ready_seconds: int | None  # estimate from cold: image, weights, load


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """One node pool with everything the services put on it."""

    name: str
    kind: str
    gpu: str | None
    gpus_per_node: int
    instance_types: tuple[str, ...]
    nodes_allowed: Range
    nodes: Range  # needed; the most that one service's upgrade adds at a time
    gpus: Range  # taken by services
    price_usd_hour: float | None
    usd_per_hour: Range | None
    services: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The whole environment."""

    gpus: Range
    usd_per_hour: Range | None
    idle_share: float | None  # part of the GPU money at rest that no engine takes
    errors: int
    warnings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One figure that differs from an earlier plan."""

    place: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceChange:
    """What an update does to one service that differs from what is deployed."""

    service: str
    effect: str  # new, removed, replaced, new_cluster, incremental, rolling, serve_update, in_place, kept (components/plan/rollout.py)
    text: str
    causes: tuple[str, ...]  # paths in the workload's manifest, names of other objects
    gpus_peak: (
        float | None
    )  # GPUs of the service at the worst moment of this update; None where it takes no more than before or after
    usd_per_hour_peak: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The difference to what is deployed, or to another plan."""

    against: str
    services: tuple[ServiceChange, ...] | None  # None: only figures are known of the other side
    figures: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one environment."""

    schema_version: int
    environment: str
    services: tuple[ServicePlan, ...]
    pools: tuple[PoolPlan, ...]
    totals: Totals
    findings: tuple[Finding, ...]
    changes: Changes | None = None  # where a plan or a deployed stack to compare with was given

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == "error")
