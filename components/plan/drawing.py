"""Which engine lies on which GPU at full load: what the page draws. A picture of the plan's own packing, not a scheduler's promise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from components.plan.result import Plan, PoolPlan, ServicePlan

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
    """Pools with GPUs at full load: what must lie on one node first and largest first, each on the first node with room."""
    return [_draw(pool, plan) for pool in plan.pools if pool.gpus_per_node]


def _draw(pool: PoolPlan, plan: Plan) -> PoolDrawing:
    count = int(pool.nodes.max)
    nodes = [NodeBox([GpuBox() for _ in range(pool.gpus_per_node)]) for _ in range(count)]
    pieces = [piece for service in plan.services for piece in _pieces(service, pool)]
    for together, piece, times in sorted(pieces, key=lambda p: (-p[0], -p[1].share, p[1].service, p[1].engine)):
        _place(nodes, piece, together, times)
    shown = nodes[:MAX_NODES]
    return PoolDrawing(pool, shown, count - len(shown))


def _pieces(service: ServicePlan, pool: PoolPlan) -> Iterator[tuple[int, Slice, int]]:
    """(workers that lie on one node, the slice of each, how often) of each engine: a pod's GPUs, or a tensor-parallel group's."""
    groups = {group.name: group for group in service.groups}
    for engine in service.engines:
        if engine.pool != pool.name or not engine.gpu_share:
            continue
        workers = round(engine.gpus_per_replica / engine.gpu_share)
        group = groups.get(engine.group)
        pod = group.gpus_per_pod if group is not None else workers
        together = max(1, min(workers, pod if engine.gpu_share == 1 else engine.tensor_parallel, pool.gpus_per_node))
        yield (
            together,
            Slice(service.name, engine.name, engine.gpu_share),
            engine.replicas_max * -(-workers // together),
        )


def _place(nodes: list[NodeBox], piece: Slice, together: int, times: int) -> None:
    for node in nodes:
        while times:
            room = [box for box in node.gpus if box.free >= piece.share - 1e-6]
            if len(room) < together:
                break
            for box in room[:together]:
                box.slices.append(piece)
            times -= 1
        if not times:
            return
