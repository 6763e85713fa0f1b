"""How long Karpenter leaves GPU nodes alone: expiry and consolidation against engines that take minutes to load.

Judged on NodePool objects, whoever wrote them. Not for: images that drift (pool_image.py), or the Ray head (head_pod.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import NodePool, PodGroup, Stack
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, warning

from ._places import engine_groups, places

_PART = re.compile(r"(\d+(?:\.\d+)?)(h|m|s)")
_HOURS = {"h": 1.0, "m": 1 / 60, "s": 1 / 3600}
_LEAST_HOURS = 24
_KEEP = "karpenter.sh/do-not-disrupt"


def disruption(stack: Stack) -> Iterator[Problem]:
    found = stack.of_kind("NodePool", group="karpenter.sh/")
    if not found:
        return
    pools = {pool.name: pool for pool in stack.pools if pool.kind == "karpenter" and (pool.gpu or pool.gpus_per_node)}
    engines = _engines(stack)
    for item in found:
        pool = pools.get(item.name)
        if pool is None:
            continue
        spec = item.spec
        life = mapping(mapping(spec.get("template")).get("spec")).get("expireAfter")
        hours = _hours(life)
        if hours is not None and hours < _LEAST_HOURS:
            yield warning(
                item.where,
                f"expireAfter is {life}: each of its GPU nodes is taken away after that, whatever runs on it, budgets and {_KEEP} notwithstanding",
                "set expireAfter: Never, or days",
            )
        yield from _consolidation(item.where, spec, pool, engines.get(pool.name, ()))


def _consolidation(
    where: str, spec: Mapping[str, Any], pool: NodePool, groups: tuple[PodGroup, ...]
) -> Iterator[Problem]:
    policy = str(mapping(spec.get("disruption")).get("consolidationPolicy") or "WhenEmptyOrUnderutilized")
    moved = [group for group in groups if str(group.annotations.get(_KEEP)).lower() != "true"]
    if policy == "WhenEmpty" or not moved or pool.fixed:
        return
    yield warning(
        where,
        f"consolidationPolicy is {policy} and {moved[0].where} runs engines here: Karpenter evicts them to move to cheaper or fewer nodes, and each loads its model again",
        f'set consolidationPolicy: WhenEmpty, or annotate the pods {_KEEP}: "true"',
    )


def _engines(stack: Stack) -> dict[str, tuple[PodGroup, ...]]:
    """Pods that carry engines, by the one pool that they go to."""
    index = places(stack)
    found: dict[str, dict[str, PodGroup]] = {}
    for workload in stack.workloads:
        for engine in workload.engines:
            for group in engine_groups(workload, engine):
                pool = index.home(group)
                if pool is not None:
                    found.setdefault(pool.name, {})[group.where] = group
    return {name: tuple(groups.values()) for name, groups in found.items()}


def _hours(text: object) -> float | None:
    parts = _PART.findall(str(text))
    if not parts or "".join(number + unit for number, unit in parts) != str(text):
        return None
    return sum(float(number) * _HOURS[unit] for number, unit in parts)


RULES: tuple[Rule, ...] = (
    Rule(
        id="karpenter-disruption",
        title="Karpenter leaves GPU nodes to their engines",
        why=(
            "Since Karpenter 1.0 an expired node is drained by force. Consolidation moves pods to save a node, and an engine that is moved downloads and loads its model for "
            "minutes, on a GPU that may not be free elsewhere."
        ),
        check=disruption,
        sources=(
            "kubernetes-sigs/karpenter#1611",
            "karpenter-provider-aws#6129",
            "karpenter-provider-aws#7729",
            "https://karpenter.sh/docs/concepts/disruption/",
        ),
    ),
)
