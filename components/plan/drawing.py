"""Which engine lies on which GPU at full load: what the page draws. A picture of the plan's own packing, not a scheduler's promise."""

from __future__ import annotations

from dataclasses import dataclass, field

from components.plan.result import EnginePlan, Plan, PoolPlan, ServicePlan

MAX_NODES = 12  # of a pool that are drawn; the page says how many there are


@dataclass(slots=True)
class Slice:
    """A part of one GPU."""

    service: str
    engine: str
    share: float


@dataclass(slots=True)
class GpuBox:
    """One physical GPU and what is on it."""

    slices: list[Slice] = field(default_factory=list)

    @property
    def free(self) -> float:
        return max(0.0, 1.0 - sum(s.share for s in self.slices))


@dataclass(slots=True)
class NodeBox:
    """One node."""

    gpus: list[GpuBox]


@dataclass(slots=True)
class PoolDrawing:
    """Nodes of a pool that are drawn, and how many are not."""

    pool: PoolPlan
    nodes: list[NodeBox]
    more: int


def draw(plan: Plan) -> list[PoolDrawing]:
    """Pools with GPUs, each engine worker at full load on the first GPU with room."""
    return [_draw(pool, plan) for pool in plan.pools if pool.gpus_per_node]


def _draw(pool: PoolPlan, plan: Plan) -> PoolDrawing:
    count = int(pool.nodes.max)
    shown = min(count, MAX_NODES)
    boxes = [GpuBox() for _ in range(shown * pool.gpus_per_node)]
    for service in plan.services:
        for engine, workers in _workers(service, pool.name):
            _place(boxes, Slice(service.name, engine.name, engine.gpu_share), workers)
    per_node = pool.gpus_per_node
    nodes = [NodeBox(boxes[i : i + per_node]) for i in range(0, len(boxes), per_node)]
    return PoolDrawing(pool, nodes, count - shown)


def _workers(service: ServicePlan, pool: str) -> list[tuple[EnginePlan, int]]:
    found = []
    for engine in service.engines:
        if engine.pool == pool and engine.gpu_share:
            found.append((engine, round(engine.gpus_per_replica / engine.gpu_share) * engine.replicas_max))
    return sorted(found, key=lambda pair: -pair[0].gpu_share)


def _place(boxes: list[GpuBox], piece: Slice, workers: int) -> None:
    for box in boxes:
        while workers and box.free >= piece.share - 1e-6:
            box.slices.append(piece)
            workers -= 1
        if not workers:
            return
