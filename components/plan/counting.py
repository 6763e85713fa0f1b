"""GPUs, nodes and money of services and pools: at rest, at full load, in an upgrade."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from components.derive.packing import bins, emptiest, gpus_for, pack
from components.derive.spec import GroupSpec, ServiceSpec
from components.plan.result import PoolPlan, Range
from policies.facts import NodePool, Use

EMPTIEST = 16  # nodes whose free room an upgrade may use: bounds the work for pools of a thousand services


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods of one service on one pool: `(part of a node that one pod takes, physical GPUs of it, pods)` for each moment."""

    service: str
    pool: str
    part: float
    gpus: float
    pods: Range


def group_pods(spec: ServiceSpec, group: GroupSpec) -> Range:
    """Pods of a group. In an upgrade by a new cluster the old one is at full load while the new one starts at its fewest
    replicas (at least one); an incremental one holds `max_surge_percent` beyond full load; none adds nothing."""
    low, high = group.replicas if not spec.autoscaling else group.min, group.max if spec.autoscaling else group.replicas
    high = max(high, low)
    peak = high
    if spec.config.kind == "ray_service" and spec.config.upgrade.strategy == "new_cluster":
        peak = high + max(low, 1 if high else 0)
    elif spec.config.kind == "ray_service" and spec.config.upgrade.strategy == "incremental":
        peak = high + math.ceil(high * spec.config.upgrade.max_surge_percent / 100)
    elif spec.config.kind == "vllm":
        peak = high + math.ceil(high * 0.25)  # a Deployment's default maxSurge
    return Range(min=low * group.hosts, max=high * group.hosts, upgrade=peak * group.hosts)


def node_part(pool: NodePool, gpus: float, cpu: float | None, memory_gib: float | None) -> float:
    """Part of a node of `pool` that one pod takes: the largest of its parts of GPUs, CPU and memory. Over 1: it fits on none."""
    parts = [0.0]
    if gpus and pool.gpus_per_node:
        parts.append(gpus / pool.gpus_per_node)
    if cpu and pool.cpu_milli:
        parts.append(cpu * 1000 / pool.cpu_milli)
    if memory_gib and pool.memory_mib:
        parts.append(memory_gib * 1024 / pool.memory_mib)
    return max(parts)


def demands(spec: ServiceSpec) -> list[Demand]:
    """What a service asks of each pool: its groups, and its head."""
    found = []
    for group in spec.groups:
        if group.pool is not None:
            part = node_part(group.pool, group.physical_gpus, group.cpu, group.memory_gib)
            found.append(Demand(spec.name, group.pool.name, part, group.physical_gpus, group_pods(spec, group)))
    if spec.head.pool is not None and spec.config.kind != "vllm":
        twice = spec.config.kind == "ray_service" and spec.config.upgrade.strategy != "none"
        part = node_part(spec.head.pool, 0, spec.head.cpu, spec.head.memory_gib)
        found.append(Demand(spec.name, spec.head.pool.name, part, 0.0, Range(min=1, max=1, upgrade=2 if twice else 1)))
    return found


def nodes_for(parts: Iterable[tuple[float, float]]) -> int:
    """Nodes for `(part of a node, pods)`. A pod over a whole node counts as the nodes it would need."""
    small = [(part, round(count)) for part, count in parts if 0 < part <= 1]
    large = sum(math.ceil(part) * round(count) for part, count in parts if part > 1)
    return gpus_for(small) + large


def uses(spec: ServiceSpec, asked: list[Demand]) -> list[Use]:
    """The facts that rules judge against pool, queue and budget."""
    by_pool: dict[str, list[Demand]] = {}
    for demand in asked:
        by_pool.setdefault(demand.pool, []).append(demand)
    return [
        Use(
            workload=spec.where,
            pool=pool,
            gpus_min=sum(d.gpus * d.pods.min for d in found),
            gpus_max=sum(d.gpus * d.pods.max for d in found),
            gpus_upgrade=sum(d.gpus * d.pods.upgrade for d in found),
            nodes_min=nodes_for([(d.part, d.pods.min) for d in found]),
            nodes_max=nodes_for([(d.part, d.pods.max) for d in found]),
            nodes_upgrade=nodes_for([(d.part, d.pods.upgrade) for d in found]),
        )
        for pool, found in by_pool.items()
    ]


def pool_plan(pool: NodePool, asked: list[Demand]) -> PoolPlan:
    """One pool: nodes for all services at once, and with the largest single upgrade on top (teams upgrade one at a time)."""
    low = nodes_for([(d.part, d.pods.min) for d in asked])
    high = nodes_for([(d.part, d.pods.max) for d in asked])
    upgrade = high + max(upgrade_nodes(asked).values(), default=0)
    gpus_high = sum(d.gpus * d.pods.max for d in asked)
    surge: dict[str, float] = {}
    for demand in asked:
        surge[demand.service] = surge.get(demand.service, 0) + demand.gpus * (demand.pods.upgrade - demand.pods.max)
    nodes = Range(min=max(low, pool.min), max=max(high, pool.min), upgrade=max(upgrade, pool.min))
    price = pool.price_usd_hour
    return PoolPlan(
        name=pool.name,
        kind=pool.kind,
        gpu=pool.gpu,
        gpus_per_node=pool.gpus_per_node,
        instance_types=pool.instance_types,
        nodes_allowed=Range(
            min=pool.min, max=pool.max if pool.max is not None else nodes.upgrade, upgrade=pool.max or nodes.upgrade
        ),
        nodes=nodes,
        gpus=Range(
            min=sum(d.gpus * d.pods.min for d in asked),
            max=gpus_high,
            upgrade=gpus_high + max(surge.values(), default=0),
        ),
        price_usd_hour=price,
        usd_per_hour=scaled(nodes, price) if price is not None else None,
        services=tuple(sorted({d.service for d in asked})),
    )


def upgrade_nodes(asked: list[Demand]) -> dict[str, int]:
    """Nodes that the upgrade of each service adds to a pool at full load, after the room that is left on its emptiest nodes."""
    taken = [(d.part, round(d.pods.max)) for d in asked if 0 < d.part <= 1]
    room = emptiest(pack(taken, ()), EMPTIEST)
    extra: dict[str, list[Demand]] = {}
    for demand in asked:
        if demand.pods.upgrade > demand.pods.max:
            extra.setdefault(demand.service, []).append(demand)
    added: dict[str, int] = {}
    for service, demands in extra.items():
        more = [(d.part, round(d.pods.upgrade - d.pods.max)) for d in demands]
        large = sum(math.ceil(part) * count for part, count in more if part > 1)
        added[service] = bins(pack([m for m in more if 0 < m[0] <= 1], room)) - bins(room) + large
    return added


def scaled(figure: Range, factor: float) -> Range:
    """A range times a factor, to a hundredth of a cent."""
    return Range(
        min=round(figure.min * factor, 4), max=round(figure.max * factor, 4), upgrade=round(figure.upgrade * factor, 4)
    )


def service_cost(asked: list[Demand], pools: Mapping[str, NodePool]) -> Range | None:
    """A service's part of its nodes' price. None where a price is not known."""
    low = high = upgrade = 0.0
    for demand in asked:
        price = pools[demand.pool].price_usd_hour
        if price is None:
            return None
        low += demand.part * price * demand.pods.min
        high += demand.part * price * demand.pods.max
        upgrade += demand.part * price * demand.pods.upgrade
    return Range(min=round(low, 4), max=round(high, 4), upgrade=round(upgrade, 4))
