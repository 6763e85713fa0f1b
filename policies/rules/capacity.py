"""Room and money: pods against the nodes a pool may have, and the whole environment against budget and quotas.

Not for: one pod against one node (placement.py), or queues (queue_shares.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from policies.facts import NodePool, Stack, Workload
from policies.finding import Problem, Rule, error, warning

from ._places import node_part, nodes_at_least, places, pods_at_most, pods_at_rest


@dataclass(slots=True)
class Demand:
    """Pods on one pool: `(part of a node, pods)` of each service, at rest and at full load."""

    pool: NodePool
    rest: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    most: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    extra: dict[str, list[tuple[float, int]]] = field(default_factory=dict)  # the second cluster of an upgrade


def demands(stack: Stack) -> list[Demand]:
    """What the pods that are sent to exactly one pool ask of it. Linear in the number of pods' shapes."""
    index = places(stack)
    found = {pool.name: Demand(pool) for pool in stack.pools}
    for workload in stack.workloads:
        twice = workload.kind == "RayService" and workload.upgrade_type in (None, "NewCluster")
        groups = [(g, pods_at_rest(workload, g), pods_at_most(workload, g)) for g in workload.groups]
        if workload.head is not None:
            groups.append((workload.head, 1, 1))
        for group, low, high in groups:
            pool = index.home(group)
            if pool is None:
                continue
            part, demand = node_part(group, pool), found[pool.name]
            if part > 1:
                continue  # fits no node: placement-node-size says so
            demand.rest.setdefault(workload.where, []).append((part, low))
            demand.most.setdefault(workload.where, []).append((part, high))
            if twice:
                second = max(low, group.hosts) if high else 0
                demand.extra.setdefault(workload.where, []).append((part, second))
    return list(found.values())


def nodes_of(parts: dict[str, list[tuple[float, int]]]) -> int:
    return nodes_at_least(pair for pairs in parts.values() for pair in pairs)


def _s(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def pool_room(stack: Stack) -> Iterator[Problem]:
    for demand in demands(stack):
        most = demand.pool.max
        if most is None:
            continue
        alone = False
        for where, parts in demand.rest.items():
            need = nodes_at_least(parts)
            if need > most:
                alone = True
                yield error(
                    where,
                    f"its pods need {_s(need)} of {demand.pool.where} at rest, which has at most {most}: it never starts",
                    f"raise the pool's max to {need}, or lower the replicas",
                )
        total = nodes_of(demand.rest)
        if total > most and not alone:
            yield error(
                demand.pool.where,
                f"{len(demand.rest)} services need {_s(total)} at rest and the pool has at most {most}: the last one never starts",
                f"raise max to {total}, or move a service to another pool",
            )
            continue
        if alone:
            continue
        over = False
        for where, parts in demand.most.items():
            need = nodes_at_least(parts)
            if need > most:
                over = True
                yield warning(
                    where,
                    f"at full load its pods need {_s(need)} of {demand.pool.where}, which has at most {most}: the last replicas stay pending",
                    f"raise the pool's max to {need}, or lower replicas.max",
                )
        total = nodes_of(demand.most)
        if total > most and not over and len(demand.most) > 1:
            yield warning(
                demand.pool.where,
                f"its services need {_s(total)} when all are at full load and the pool has at most {most}",
                f"raise max to {total}, or accept that not all scale up at once",
            )


def idle_pool(stack: Stack) -> Iterator[Problem]:
    """GPU nodes that are always on and that no service uses."""
    if not stack.complete or not stack.workloads:
        return
    used = {demand.pool.name for demand in demands(stack) if demand.most}
    open_pods = any(not group.node_selector for workload in stack.workloads for group in workload.groups)
    for pool in stack.pools:
        if pool.kind != "existing" and pool.gpus_per_node and pool.min > 0 and pool.name not in used and not open_pods:
            yield warning(
                pool.where,
                f"it keeps {_s(pool.min)} with GPUs on and no service uses it",
                "set min: 0, or send a service to it",
            )


def demanded(stack: Stack, pool: NodePool) -> tuple[list[tuple[str, int]], list[Workload]]:
    """GPUs each service takes on a pool at rest, for other rules."""
    index = places(stack)
    found, workloads = [], []
    for workload in stack.workloads:
        total = 0
        for group in workload.groups:
            if index.home(group) is pool:
                total += round(pods_at_rest(workload, group) * group.gpus)
        if total:
            found.append((workload.where, total))
            workloads.append(workload)
    return found, workloads


RULES: tuple[Rule, ...] = (
    Rule(
        id="capacity-pool",
        title="A pool may have the nodes its services need",
        why=(
            "Node groups and Karpenter stop at their maximum. Pods beyond it stay pending without an error in the service: at rest that means it "
            "never starts, at full load that scaling ends early."
        ),
        check=pool_room,
        sources=("karpenter-provider-aws#8068", "kuberay PR#3592"),
    ),
    Rule(
        id="capacity-idle-pool",
        title="GPU nodes that are always on are used",
        why="A pool's min keeps nodes whether or not pods need them; a GPU node without a service is the dearest kind of nothing.",
        check=idle_pool,
    ),
)
