"""Rolling updates of plain Deployments: whether they can take a step, whether the first new pod finds a GPU, and when they are given up.

Not for: the second cluster of a RayService (upgrade.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from policies.facts import Stack, Workload
from policies.facts.quantities import items, mapping, real, whole
from policies.finding import Problem, Rule, error, warning

from ._places import nodes_at_least
from .capacity import demands
from .probes import LEAST_LOAD_SECONDS, patience

_GANG = "scheduling.volcano.sh/group-min-member"


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


def steps(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind != "Deployment":
            continue
        update = mapping(mapping(workload.spec.get("strategy")).get("rollingUpdate"))
        given = [str(update.get(key)) for key in ("maxSurge", "maxUnavailable")]
        if all(each in ("0", "0%") for each in given):
            yield error(
                workload.where,
                "maxSurge and maxUnavailable are both 0: no pod may come and none may go, and the API server refuses the Deployment",
                "set maxUnavailable: 1 where the pool is full, else maxSurge: 1",
            )
        deadline = whole(workload.spec.get("progressDeadlineSeconds"))
        patient = max((patience(group.startup_probe) or 0 for group in workload.groups), default=0)
        if deadline is not None and workload.engines and deadline < (patient or LEAST_LOAD_SECONDS):
            until = (
                f"its startup probe waits {patient} s"
                if patient
                else f"no engine loads in less than {LEAST_LOAD_SECONDS} s"
            )
            yield warning(
                workload.where,
                f"progressDeadlineSeconds is {deadline} and {until}: the rollout is reported as failed while the model still loads",
                f"set progressDeadlineSeconds to {max(600, 2 * patient)} or more",
            )


def gangs(stack: Stack) -> Iterator[Problem]:
    """Volcano makes a gang of the pods of one ReplicaSet, and an update fills the new one a few pods at a time."""
    for workload in stack.workloads:
        replicas = whole(workload.spec.get("replicas", 1)) or 0
        for group in workload.groups if workload.kind == "Deployment" else ():
            least = whole(group.annotations.get(_GANG)) or 0
            beyond, missing = _steps(workload, replicas)
            if group.scheduler_name == "volcano" and beyond + missing < min(least, replicas):
                yield error(
                    group.where,
                    f"Volcano places {least} of its pods together, and a rolling update makes {beyond + missing} before one is ready: the new pods stay pending, and the update never ends",
                    "set strategy: {rollingUpdate: {maxSurge: 100%}}, or {type: Recreate}",
                )


def grace(stack: Stack) -> Iterator[Problem]:
    """Time between the order to end and the kill, against what a preStop hook takes of it."""
    for workload in stack.workloads:
        if workload.by_kuberay or not workload.engines:
            continue
        for group in workload.groups:
            total = 30 if group.termination_grace_seconds is None else group.termination_grace_seconds
            first = group.main_container
            waits = _sleep(mapping(mapping(first.get("lifecycle")).get("preStop")))
            if total <= 0:
                yield warning(
                    group.where,
                    "terminationGracePeriodSeconds is 0: requests in flight are cut off in every update and drain",
                    "leave it out, or give as long as a request takes",
                )
            elif waits is not None and waits >= total:
                yield warning(
                    group.where,
                    f"its preStop hook sleeps {waits} s of the {total} s that the pod has to end: vLLM is killed before it hears of the end, with requests in flight",
                    f"set terminationGracePeriodSeconds above {waits}, by as long as a request takes",
                )


def _sleep(hook: Any) -> int | None:
    seconds = whole(mapping(hook.get("sleep")).get("seconds"))
    words = " ".join(map(str, items(mapping(hook.get("exec")).get("command"))))
    found = re.search(r"\bsleep (\d+)", words)
    return seconds if seconds is not None else int(found[1]) if found else None


RULES: tuple[Rule, ...] = (
    Rule(
        id="upgrade-steps",
        title="A rolling update may take a step, and is given the time that a load takes",
        why=(
            "maxSurge 0 beside maxUnavailable 0 is refused. A progress deadline shorter than the load makes the Deployment fail, and the tool that waits for it roll back, "
            "while the new pods are well."
        ),
        check=steps,
        sources=("https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#progress-deadline-seconds",),
    ),
    Rule(
        id="upgrade-gang",
        title="A rolling update makes a gang's pods together",
        why="Volcano makes a PodGroup for each ReplicaSet. The new one gets as many pods as may come on top or be missing; with fewer than the gang's number none of them is placed.",
        check=gangs,
        sources=("volcano#4739",),
    ),
    Rule(
        id="upgrade-grace",
        title="A pod that ends may finish its requests",
        why="The grace period counts from the order to end, preStop hooks included. What is not done when it is over is killed.",
        check=grace,
        sources=("https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/#hook-handler-execution",),
    ),
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
