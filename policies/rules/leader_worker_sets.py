"""LeaderWorkerSets as their webhook takes them, and in an order in which they start. Not for: their pods, judged as others are, or fields (object_schema.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from policies.facts import Stack, Workload
from policies.facts.quantities import mapping, whole
from policies.finding import Problem, Rule, error

from .pod_resources import containers


def sets(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind == "LeaderWorkerSet":
            yield from _rollout(workload)
            yield from _subgroups(workload)


def order(stack: Stack) -> Iterator[Problem]:
    """Workers that are made when the leader is ready, and a leader whose engine is ready when its workers are there."""
    for workload in stack.workloads:
        if workload.kind != "LeaderWorkerSet" or workload.spec.get("startupPolicy") != "LeaderReady":
            continue
        leader = workload.groups[0]
        probed = any(
            container.get(probe)
            for _, container in containers(mapping(leader.pod))
            for probe in ("readinessProbe", "startupProbe")
        )
        for engine in workload.engines if probed else ():
            if leader.gpus and engine.tensor * engine.pipeline > leader.gpus:
                yield error(
                    workload.where,
                    f"startupPolicy is LeaderReady, and the leader's engine is ready when workers hold the rest of its {engine.tensor * engine.pipeline} GPUs: each waits for the other",
                    "leave startupPolicy out (LeaderCreated)",
                )


def _rollout(workload: Workload) -> Iterator[Problem]:
    replicas = whole(workload.spec.get("replicas"))
    replicas = 1 if replicas is None else replicas
    given = mapping(mapping(workload.spec.get("rolloutStrategy")).get("rollingUpdateConfiguration"))
    if not given or not replicas:
        return
    down = _scaled(given.get("maxUnavailable", 1), replicas, math.floor)
    up = _scaled(given.get("maxSurge", 0), replicas, math.ceil)
    if down == 0 and up == 0:
        yield error(
            workload.where,
            f"maxUnavailable and maxSurge come to 0 of its {replicas} groups: no update can take a step, and the webhook refuses it",
            "set maxUnavailable: 1, or maxSurge: 1 where there is room for a group more",
        )


def _scaled(given: Any, of: int, rounded: Any) -> int | None:
    """A number, or a percentage of the groups."""
    if isinstance(given, str) and given.endswith("%"):
        percent = whole(given.removesuffix("%"))
        return None if percent is None else int(rounded(of * percent / 100))
    return whole(given)


def _subgroups(workload: Workload) -> Iterator[Problem]:
    pods = mapping(workload.spec.get("leaderWorkerTemplate"))
    size, policy = whole(pods.get("size")) or 1, mapping(pods.get("subGroupPolicy"))
    part = whole(policy.get("subGroupSize"))
    if part is None or part < 1:
        return
    excluded = policy.get("subGroupPolicyType") == "LeaderExcluded"
    if part > size or ((size - 1) % part and (excluded or size % part)):
        of = f"{size - 1} (size without the leader)" if excluded else f"{size} (size), nor {size - 1}"
        yield error(
            workload.where,
            f"subGroupSize {part} does not divide {of}: the webhook refuses it, and names subGroupSize where size was changed",
            "choose a subGroupSize that divides size, or size - 1",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="leader-worker-set",
        title="A LeaderWorkerSet is one that its webhook takes",
        why=(
            "A group is updated when it may be missing for a while, or another may stand beside it; subgroups divide a group without remainder. The webhook checks both on creation and on "
            "every change of size."
        ),
        check=sets,
        sources=("lws PR#1008", "lws PR#65", "lws 060ab4d: pkg/webhooks/leaderworkerset_webhook.go"),
    ),
    Rule(
        id="leader-worker-order",
        title="An engine's workers do not wait for the engine",
        why="With LeaderReady LeaderWorkerSet makes workers after the leader's pod is ready. An engine over several pods answers its probes when all ranks are there, so neither ever comes.",
        check=order,
        sources=("lws PR#150", "lws: keps/135-startup-policy/README.md"),
    ),
)
