"""Rolling updates of plain Deployments: whether the first new pod finds a GPU.

Not for: the second cluster of a RayService (upgrade.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from policies.facts import Stack, Workload
from policies.facts.quantities import mapping, real
from policies.finding import Problem, Rule, warning

from ._places import nodes_at_least
from .capacity import demands


def rollout(stack: Stack) -> Iterator[Problem]:
    plain = {workload.where: workload for workload in stack.workloads if workload.kind == "Deployment"}
    if not plain:
        return
    for demand in demands(stack):
        most = demand.pool.max
        if most is None or not demand.pool.gpus_per_node:
            continue
        rest = [pair for pairs in demand.rest.values() for pair in pairs]
        if nodes_at_least(rest) > most:
            continue  # capacity-pool speaks
        for where, pairs in demand.rest.items():
            workload = plain.get(where)
            pods = sum(count for _, count in pairs)
            if workload is None or not pods or not pairs:
                continue
            beyond, missing = _steps(workload, pods)
            needed = nodes_at_least([*rest, (pairs[0][0], beyond)])
            if not missing and beyond and needed > most:
                yield warning(
                    where,
                    f"a rolling update makes a new pod before it ends an old one: {needed} nodes of {demand.pool.where}, which has at most {most}, so "
                    "the new pod stays pending and the update never ends",
                    "raise the pool's max, or patch the Deployment's strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}",
                )


def _steps(workload: Workload, pods: int) -> tuple[int, int]:
    """(pods beyond the wanted number, pods that may be missing) in an update; Kubernetes rounds the first up, the second down."""
    strategy = mapping(workload.spec.get("strategy"))
    if strategy.get("type") == "Recreate":
        return 0, pods
    update = mapping(strategy.get("rollingUpdate"))
    return _part(update.get("maxSurge"), pods, math.ceil), _part(update.get("maxUnavailable"), pods, math.floor)


def _part(given: Any, pods: int, rounded: Any) -> int:
    text = str(given if given is not None else "25%")
    number = real(text.removesuffix("%"))
    if number is None:
        return 0
    return int(rounded(pods * number / 100)) if text.endswith("%") else int(number)


RULES: tuple[Rule, ...] = (
    Rule(
        id="upgrade-rollout",
        title="A rolling update of GPU pods has room for its first pod, or takes one away first",
        why=(
            "A Deployment's default lets a quarter of its pods come on top, rounded up, and a quarter be missing, rounded down: with up to three pods none may go before "
            "a new one is ready. On a pool that is full the new pod waits for a GPU that the old one holds."
        ),
        check=rollout,
        sources=("https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment",),
    ),
)
