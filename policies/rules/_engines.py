"""An engine with all that is known around it: its pods, their pool, the GPU, the model. One index for a stack.

For: every rule about engines. Not for: judging.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from policies.catalog import gpus
from policies.catalog.gpus import Gpu
from policies.catalog.lookup import UnknownRow
from policies.catalog.models.row import Model
from policies.facts import Engine, NodePool, PodGroup, SecretRef, Stack, Workload
from policies.facts.quantities import real, switch, whole
from policies.fit import engine as fit_engine
from policies.fit.engine import Device
from policies.fit.shape import EngineShape

from ._kept import per_stack
from ._places import engine_groups, fraction, places, ray_gpus

RAY_KINDS = ("RayService", "RayCluster", "RayJob")
# gpu_memory_utilization that vLLM takes when none is given (vllm/config/cache.py, 0.29.0).
DEFAULT_UTILIZATION = 0.92
SHARED_BY_PLUGIN = ("time_slicing", "mps")


@dataclass(frozen=True, slots=True)
class Seat:
    """One engine and what it runs on. None where it is not known."""

    workload: Workload
    engine: Engine
    groups: tuple[PodGroup, ...]  # worker groups that can carry it
    pools: tuple[NodePool, ...]  # pools of those groups, where a selector leaves one
    row: Model | None
    device: Device | None
    gpu: Gpu | None
    shape: EngineShape

    @property
    def ray(self) -> bool:
        return self.workload.kind in RAY_KINDS

    @property
    def on_gpu(self) -> bool:
        return self.engine.device == "gpu"

    @property
    def group(self) -> PodGroup | None:
        return self.groups[0] if self.groups else None

    @property
    def pool(self) -> NodePool | None:
        return self.pools[0] if len(self.pools) == 1 else None

    @property
    def args(self) -> Any:
        return self.engine.engine_args

    @property
    def gpus_per_pod(self) -> float:
        """GPUs of its largest pod, as Ray counts them."""
        return max((ray_gpus(group) for group in self.groups), default=0.0)

    @property
    def ranks(self) -> int:
        """Engine workers of one replica, over all data-parallel ranks."""
        return self.engine.world * max(1, self.engine.data)

    @property
    def shares_experts(self) -> bool:
        """Whether its data-parallel ranks exchange tensors in each layer; those of a dense model are engines of their own."""
        return self.engine.data > 1 and (self.engine.expert or (self.row is not None and self.row.moe is not None))

    @property
    def pods_joined(self) -> int:
        """Pods over which workers that exchange tensors in each step are spread."""
        workers = self.ranks if self.shares_experts else self.engine.world
        return max(1, math.ceil(workers * self.engine.share / self.gpus_per_pod)) if self.gpus_per_pod > 0 else 1


@per_stack
def seats(stack: Stack) -> tuple[Seat, ...]:
    """All engines of a stack."""
    return tuple(_seats(stack))


def _seats(stack: Stack) -> Iterator[Seat]:
    index = places(stack)
    rows: dict[str, Model | None] = {}
    kinds: dict[str, Gpu | None] = {}
    for workload in stack.workloads:
        for engine in workload.engines:
            groups = engine_groups(workload, engine)
            homes = {pool.name: pool for pool in map(index.home, groups) if pool is not None}
            pools = tuple(homes.values())
            only = pools[0] if len(pools) == 1 else None
            device = fit_engine.device_of(only, groups[0] if groups else None) if engine.device == "gpu" else None
            shape = fit_engine.shape_of(engine, stack.models)
            yield Seat(workload, engine, groups, pools, _row(engine, stack, rows), device, _gpu(only, kinds), shape)


def _row(engine: Engine, stack: Stack, rows: dict[str, Model | None]) -> Model | None:
    for name in (engine.catalog_id, engine.source):
        if name not in rows:  # a miss costs a search for close names: once for each name
            rows[name] = fit_engine.find(name, stack.models)
        if rows[name] is not None:
            return rows[name]
    return None


def _gpu(pool: NodePool | None, kinds: dict[str, Gpu | None]) -> Gpu | None:
    if pool is None or pool.gpu is None:
        return None
    if pool.gpu not in kinds:
        try:
            kinds[pool.gpu] = gpus.get(pool.gpu)
        except UnknownRow:
            kinds[pool.gpu] = None
    return kinds[pool.gpu]


def on_gpus(stack: Stack) -> Iterator[Seat]:
    """Engines that run on GPUs."""
    return (seat for seat in seats(stack) if seat.on_gpu)


def utilization(engine: Engine) -> float:
    """gpu_memory_utilization as vLLM takes it; the default where it is not given or is no number."""
    number = real(engine.engine_args.get("gpu_memory_utilization"))
    return DEFAULT_UTILIZATION if number is None or math.isnan(number) else number


def utilization_text(engine: Engine) -> str:
    """For messages: "gpu_memory_utilization is 0.9", or that the default counts."""
    if real(engine.engine_args.get("gpu_memory_utilization")) is None:
        return f"gpu_memory_utilization is not set and {DEFAULT_UTILIZATION:g} by default"
    return f"gpu_memory_utilization is {utilization(engine):g}"


def ray_share(seat: Seat) -> float | None:
    """Part of a GPU that Ray reserves for one worker, where it is less than one."""
    share = bundle_gpu(seat.engine)
    return share if seat.ray and share is not None and 0 < share < 1 else None


def bundle_gpu(engine: Engine) -> float | None:
    """GPU of the first bundle that has one; 1 without bundles; None where it is no number or no bundle has one."""
    if not engine.bundles:
        return 1.0
    for bundle in engine.bundles:
        if "GPU" in bundle:
            return real(bundle["GPU"])
    return None


def pod_share(seat: Seat) -> tuple[float, str] | None:
    """(part of a physical GPU that one GPU of the pod is, by what), where pods share GPUs without a wall in memory."""
    group, pool = seat.group, seat.pool
    if group is None:
        return None
    part = fraction(group)
    if part is not None:
        return part, "kai"
    if "gpu-memory" in group.annotations:
        memory, total = real(group.annotations["gpu-memory"]), pool.gpu_mib if pool else None
        return (memory / total, "kai") if memory and total else None
    if pool is not None and pool.sharing.strategy in SHARED_BY_PLUGIN and (pool.sharing.replicas or 1) > 1:
        return 1 / (pool.sharing.replicas or 1), pool.sharing.strategy
    return None


def physical_share(seat: Seat) -> float:
    """Part of a physical GPU that one worker may count on: its bundle's share of its pod's share."""
    pod = pod_share(seat)
    return (ray_share(seat) or 1.0) * (pod[0] if pod else 1.0)


def literal_env(seat: Seat, name: str) -> str | None:
    """A variable of the engine's process: its runtime_env, else that of its pods. None when absent or from a Secret."""
    value: str | SecretRef | None = seat.engine.env.get(name)
    if value is None and seat.group is not None:
        value = seat.group.env.get(name)
    return value if isinstance(value, str) else None


def has_env(seat: Seat, name: str) -> bool:
    """Whether the engine's process gets a variable, from wherever."""
    return name in seat.engine.env or any(name in group.env for group in seat.groups)


def ray_version(stack: Stack, workload: Workload) -> str | None:
    return workload.ray_version or stack.versions.ray


def vllm_version(stack: Stack, workload: Workload) -> str | None:
    return workload.vllm_version or stack.versions.vllm


def most_replicas(engine: Engine) -> int:
    """Replicas at full load (of whole data-parallel groups)."""
    return max(engine.max_replicas, engine.min_replicas, 0)


def positive(value: Any) -> int | None:
    """A whole number of at least 1."""
    number = whole(value) if not isinstance(value, float) or math.isfinite(value) else None
    return number if number is not None and number >= 1 else None


def ranks_in_pod(engine: Engine) -> int:
    """Data-parallel ranks that plain vLLM starts in one pod: all, unless it is told that the others are elsewhere."""
    args = engine.engine_args
    if args.get("data_parallel_rank") is not None or switch(args.get("data_parallel_external_lb")):
        return 1
    local = whole(args.get("data_parallel_size_local"))
    return max(1, engine.data if local is None else local)
