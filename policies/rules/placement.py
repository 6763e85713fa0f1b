"""Pods on nodes: selectors, taints and size.

Not for: how many pods there is room for (capacity.py), or GPUs (placement_gpu.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from policies.facts import NodePool, PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, quantity
from policies.finding import Problem, Rule, error, warning

from ._places import places, untolerated
from ._values import amount, gib, listed
from .karpenter_words import KNOWN

# Label of our own nodes, with the pool's name (components/node_pools.py).
POOL_LABEL = "llm-serving/pool"


def pods(stack: Stack) -> Iterator[tuple[Workload, PodGroup]]:
    """Heads and worker groups of all workloads."""
    for workload in stack.workloads:
        for group in workload.pod_groups:
            yield workload, group


def selector(stack: Stack) -> Iterator[Problem]:
    if not stack.complete:
        yield from _unmet(stack)
    if not stack.complete or not stack.pools:
        return
    index = places(stack)
    labels = {f"{key}={value}" for pool in stack.pools for key, value in pool.labels.items()}
    for _, group in pods(stack):
        if not group.node_selector or index.selected(group):
            continue
        name = group.node_selector.get(POOL_LABEL)
        if len(group.node_selector) == 1 and name is not None:
            names = sorted(pool.name for pool in stack.pools)
            close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
            yield error(
                group.where,
                f"node pool '{name}' does not exist, so its pods stay pending",
                f"did you mean '{close[0]}'?" if close else f"node pools: {listed(names)}",
            )
            continue
        wanted = [f"{key}={value}" for key, value in sorted(group.node_selector.items())]
        missing = [pair for pair in wanted if pair not in labels] or wanted
        close = difflib.get_close_matches(missing[0], sorted(labels), n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"labels of the pools: {listed(labels)}"
        yield error(
            group.where,
            f"no node pool carries {', '.join(wanted)}, so its pods stay pending",
            f"select labels of a node pool, or leave node_selector out; {hint}",
        )


def _unmet(stack: Stack) -> Iterator[Problem]:
    """Pods of a program that makes cluster and pools, which ask for a label of people's own that no pool has so."""
    if len(stack.of_type("aws:eks/cluster:Cluster")) != 1 or not stack.pools:
        return
    values: dict[str, set[str]] = {}
    for pool in stack.pools:
        for key, value in pool.labels.items():
            values.setdefault(key, set()).add(str(value))
    alone = all(pool.kind == "karpenter" for pool in stack.pools)  # of keys, then, karpenter_words.py speaks
    for _, group in pods(stack):
        for key, wanted in sorted(group.node_selector.items()):
            here = values.get(key, set())
            # Labels of other domains are given by cloud, kubelet and discovery, with values not stated here.
            if key.partition("/")[0].endswith(KNOWN) or str(wanted) in here or (alone and not here):
                continue
            close = difflib.get_close_matches(str(wanted), sorted(here), n=1, cutoff=0.5)
            labels = listed(here) if here else listed(f"{k}={v}" for k in values for v in values[k])
            yield warning(
                group.where,
                f"it asks for nodes with {key}={wanted}, which no node pool here gives: its pods stay pending, unless other nodes come",
                f"did you mean '{close[0]}'?" if close else f"the pools have {labels}",
            )


def taints(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for _, group in pods(stack):
        selected = index.selected(group) if group.node_selector else ()
        if not selected or index.open(group):
            continue
        pool = selected[0]
        kept = ", ".join(_taint(taint.key, taint.value, taint.effect) for taint in untolerated(group, pool))
        yield error(
            group.where,
            f"{pool.where} is tainted {kept} and the pod does not tolerate it, so its pods stay pending",
            "leave `tolerations` out (they are derived from the pool's taints) or add the matching one",
        )


def _taint(key: str, value: str, effect: str) -> str:
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def node_size(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for _, group in pods(stack):
        pools = index.open(group) if group.node_selector else ()
        if not pools or any(not _too_big(group, pool) for pool in pools):
            continue
        best = max(pools, key=lambda pool: (pool.memory_mib or 0, pool.cpu_milli or 0))
        yield error(
            group.where,
            f"{' and '.join(_too_big(group, best))}, so the pod fits no node of {', '.join(p.where for p in pools)}",
            "ask for less, or choose a pool with larger nodes",
        )


def _too_big(group: PodGroup, pool: NodePool) -> list[str]:
    found = []
    if group.cpu_milli and pool.cpu_milli and group.cpu_milli > pool.cpu_milli:
        found.append(
            f"it asks for {amount(group.cpu_milli / 1000)} CPU cores of {amount(pool.cpu_milli / 1000)} that pods can have"
        )
    if group.memory_mib and pool.memory_mib and group.memory_mib > pool.memory_mib:
        found.append(f"it asks for {gib(group.memory_mib)} of memory of {gib(pool.memory_mib)} that pods can have")
    whole = pool.sharing.strategy in ("none", "kai")
    asked = _gpus(group)
    if whole and asked and pool.gpus_per_node and asked > pool.gpus_per_node:
        found.append(f"it asks for {amount(asked)} GPUs of {pool.gpus_per_node} that a node has")
    return found


def _gpus(group: PodGroup) -> float:
    """GPUs of all containers of the pod together."""
    if group.gpu_containers <= 1 or group.gpu_resource is None:
        return group.gpus
    containers = [mapping(container) for container in items(group.pod.get("containers"))]
    limits = [mapping(mapping(container.get("resources")).get("limits")) for container in containers]
    return sum(quantity(each.get(group.gpu_resource)) or 0.0 for each in limits)


RULES: tuple[Rule, ...] = (
    Rule(
        id="placement-selector",
        title="A node selector matches a node pool",
        why=(
            "The scheduler and the node autoscaler compare labels literally. A label that no pool carries leaves pods pending without "
            "any event that names the label."
        ),
        check=selector,
        sources=("aieks#112", "doeks#446", "doeks#589"),
    ),
    Rule(
        id="placement-taint",
        title="Pods tolerate the taints of their pool",
        why=(
            "GPU nodes are tainted so that other pods stay away. A toleration must match key, value and effect; an Equal toleration with "
            "another value is none."
        ),
        check=taints,
        sources=("doeks#446", "kdp#1934"),
    ),
    Rule(
        id="placement-node-size",
        title="A pod fits a node of its pool",
        why=(
            "Requests are compared with what is left after the kubelet's reservations, not with the instance's advertised size. A pod "
            "larger than every node stays pending, and no autoscaler can help."
        ),
        check=node_size,
        sources=("doeks#429", "doeks#430", "volcano#1295"),
    ),
)
