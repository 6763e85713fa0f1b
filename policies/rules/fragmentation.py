"""Small GPU pods spread over the nodes that a large one needs whole.

The sums fit and the large pod still waits: kube-scheduler prefers the emptiest node, so single-GPU pods leave one GPU used on every
node and eight free on none. Not for: whether the sums fit (capacity.py), or shares of a GPU inside a pod.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml

from policies.facts import NodePool, PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, warning

from ._places import physical_gpus, places, pods_at_most, pods_at_rest
from ._values import amount, dig, releases

DEFAULT = (None, "", "default-scheduler")


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of one group: GPUs of each, and how many there are."""

    where: str
    gpus: float
    count: int


def fragmented(stack: Stack) -> Iterator[Problem]:
    """Pools whose GPUs are enough for all pods, and whose nodes are not once the small pods have spread."""
    for pool, groups in _mixed(stack):
        for count, when in ((pods_at_rest, "at rest"), (pods_at_most, "at full load")):
            pods = _pods(pool, groups, count)
            left = _without_a_node(pool, pods)
            if left is None:
                continue
            small = [each for each in pods if each.gpus < left.gpus]
            yield warning(
                left.where,
                f"its pods take {amount(left.gpus)} GPUs of one node of {pool.where}, which has {pool.gpus_per_node}; {_s(sum(p.count for p in small))} "
                f"of {_wheres(small)} take {amount(min(p.gpus for p in small))}"
                + (
                    f" to {amount(max(p.gpus for p in small))}"
                    if max(p.gpus for p in small) > min(p.gpus for p in small)
                    else ""
                )
                + f" and spread over the pool's {pool.max} nodes {when}, so that none is free enough though the GPUs would do",
                "give them pools of their own, raise the pool's max, or pack them: software.batch_scheduler kai, or volcano with binpack.resources",
            )
            break


def _s(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"


def _wheres(pods: list[Pods], most: int = 3) -> str:
    names = list(dict.fromkeys(each.where for each in pods))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _mixed(stack: Stack) -> Iterator[tuple[NodePool, list[tuple[Workload, PodGroup]]]]:
    """Pools of several GPUs a node and at least two nodes, with their spread-out pods, where these differ in size."""
    index, packed = places(stack), _packed(stack)
    found: dict[str, tuple[NodePool, list[tuple[Workload, PodGroup]]]] = {}
    for workload in stack.workloads:
        for group in workload.groups:
            pool = index.home(group)
            if pool is None or pool.gpus_per_node < 2 or (pool.max or 0) < 2:
                continue
            # A pod with a scheduler of its own may be packed by that: a MostAllocated profile looks like this.
            if packed or (stack.batch_scheduler in (None, "none") and group.scheduler_name not in DEFAULT):
                continue
            found.setdefault(pool.name, (pool, []))[1].append((workload, group))
    for pool, groups in found.values():
        sizes = {round(physical_gpus(group, pool), 4) for _, group in groups} - {0.0}
        if len(sizes) > 1:
            yield pool, groups


def _packed(stack: Stack) -> bool:
    """Whether the batch scheduler fills nodes up: KAI does, Volcano where GPUs are among what it packs; others are not known to spread."""
    match stack.batch_scheduler:
        case None | "none":
            return False
        case "kai":
            given = {str(dig(r.values, "scheduler", "placementStrategy")) for r in releases(stack, "kai-scheduler")}
            return "spread" not in given
        case "volcano":
            return any(_packs_gpus(release.values) for release in releases(stack, "volcano"))
    return True


def _packs_gpus(values: object) -> bool:
    try:
        config = yaml.safe_load(str(dig(values, "custom", "scheduler_config_override") or ""))
    except yaml.YAMLError:
        return False
    for tier in map(mapping, items(mapping(config).get("tiers"))):
        for plugin in map(mapping, items(tier.get("plugins"))):
            if plugin.get("name") == "binpack":
                return "gpu" in str(mapping(plugin.get("arguments")).get("binpack.resources", ""))
    return False


def _pods(
    pool: NodePool, groups: list[tuple[Workload, PodGroup]], count: Callable[[Workload, PodGroup], int]
) -> list[Pods]:
    found = [Pods(w.where, round(physical_gpus(g, pool), 4), count(w, g)) for w, g in groups]
    return sorted((each for each in found if each.gpus and each.count), key=lambda each: (each.gpus, each.where))


def _without_a_node(pool: NodePool, pods: list[Pods]) -> Pods | None:
    """The first pods that find no node after all smaller ones spread; None where all fit, or where no order would make them fit."""
    nodes, size = pool.max or 0, pool.gpus_per_node
    if len({each.gpus for each in pods}) < 2 or any(each.gpus > size for each in pods):
        return None
    if not _fit_packed(nodes, size, sorted(pods, key=lambda each: -each.gpus)):
        return None  # capacity-pool speaks of that
    free = [-float(size)] * nodes
    for each in pods:  # each on the emptiest node
        for _ in range(each.count):
            if -free[0] < each.gpus - 1e-6:
                return each
            heapq.heapreplace(free, free[0] + each.gpus)
    return None


def _fit_packed(nodes: int, size: int, pods: list[Pods]) -> bool:
    """Largest first, into the fullest node with room: nodes are counted by what they have left."""
    left: dict[float, int] = {float(size): nodes}
    for each in pods:
        for _ in range(each.count):
            room = min((free for free, count in left.items() if count and free >= each.gpus - 1e-6), default=None)
            if room is None:
                return False
            left[room] -= 1
            rest = round(room - each.gpus, 4)
            left[rest] = left.get(rest, 0) + 1
    return True


RULES: tuple[Rule, ...] = (
    Rule(
        id="capacity-fragmentation",
        title="Large GPU pods find a node that small ones left free",
        why=(
            "kube-scheduler scores nodes by how empty they are (NodeResourcesFit LeastAllocated), so small pods spread. On nodes of eight GPUs, eight "
            "single-GPU pods leave seven free on each of eight nodes and room for an eight-GPU pod on none: it waits, after an upgrade or a restart at the "
            "latest. EKS does not let its scheduler be configured; KAI packs by default, Volcano when it is told to count GPUs."
        ),
        check=fragmented,
        sources=(
            "https://kubernetes.io/docs/concepts/scheduling-eviction/resource-bin-packing/",
            "volcano: pkg/scheduler/plugins/binpack/binpack.go",
            "KAI-Scheduler v0.17.0: scheduler.placementStrategy",
        ),
    ),
)
