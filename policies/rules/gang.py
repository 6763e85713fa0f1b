"""Gangs: the pods that a batch scheduler places together are those that one engine needs together.

Not for: the counts themselves (replicas.py), queues (queues.py) or room in pools (capacity.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack, Workload
from policies.finding import Problem, Rule, error, warning

from ._places import desired, engine_pods
from ._values import before

_RAY = ("RayService", "RayCluster", "RayJob")


def members(stack: Stack, workload: Workload) -> int:
    """Worker pods the gang waits for. Volcano: volcano_scheduler.go; KAI: ray_grouper.go; neither: none."""
    total = 0
    for group in workload.groups:
        low = group.min or 0
        if stack.batch_scheduler == "kai":
            total += (low if low > 0 else group.replicas or 0) * group.hosts
        elif stack.batch_scheduler == "volcano":
            total += (low if workload.autoscaling else desired(group)) * group.hosts
    return total


def covers_engine(stack: Stack) -> Iterator[Problem]:
    if stack.batch_scheduler not in ("kai", "volcano"):
        return
    for workload in stack.workloads:
        if workload.kind not in _RAY:
            continue
        gang = members(stack, workload)
        for engine in workload.engines:
            needed = engine_pods(workload, engine)
            if needed > 1 and gang < needed:
                covered = "only the head" if not gang else f"the head and {gang} worker pod{'s' if gang > 1 else ''}"
                yield error(
                    engine.where,
                    f"one replica needs {needed} pods at once and the gang covers {covered}: pods that are added later are "
                    "placed one by one, and a part of them holds its GPUs for nothing",
                    f"set the group's minReplicas x numOfHosts to at least {needed} (worker.min, or replicas.min of the model)",
                )


def podgroup_frozen(stack: Stack) -> Iterator[Problem]:
    if stack.batch_scheduler == "scheduler-plugins" and any(w.kind in _RAY for w in stack.workloads):
        yield warning(
            "batch scheduler",
            "with scheduler-plugins KubeRay never updates a PodGroup after it is made, so a change of replicas leaves the old gang size",
            "use kai or volcano, or delete the RayCluster after such a change",
        )


def scheduler_versions(stack: Stack) -> Iterator[Problem]:
    if stack.batch_scheduler != "kai":
        return
    versions = stack.versions
    kinds = {workload.kind for workload in stack.workloads}
    for kind, limit in (("RayCluster", "1.5.0"), ("RayService", "1.6.0"), ("RayJob", "1.6.0")):
        if kind in kinds and before(versions.kuberay, limit):
            yield error(
                "batch scheduler",
                f"KubeRay {versions.kuberay} does not hand a {kind} to KAI",
                f"use KubeRay {limit} or newer",
            )
    pairs = [(w, g) for w in stack.workloads if w.kind in _RAY for g in w.groups]
    for workload, group in pairs:
        if group.hosts > 1 and before(versions.kai, "0.9.3"):
            yield error(
                group.where,
                f"KAI {versions.kai} counts replicas without numOfHosts {group.hosts}, so a part of the gang starts alone",
                "use KAI 0.10 or newer",
            )
        if not workload.autoscaling and (group.min or 0) < desired(group) and before(versions.kai, "0.10.0"):
            yield warning(
                group.where,
                f"KAI {versions.kai} waits for all {desired(group)} replicas though minReplicas is {group.min or 0}",
                "use KAI 0.10 or newer",
            )


def gang_label(stack: Stack) -> Iterator[Problem]:
    if stack.batch_scheduler not in ("yunikorn", "scheduler-plugins"):
        return
    for workload in stack.workloads:
        if workload.kind in _RAY and "ray.io/gang-scheduling-enabled" not in workload.labels:
            yield warning(
                workload.where,
                f"under {stack.batch_scheduler} KubeRay makes a gang only for a {workload.kind} with label ray.io/gang-scheduling-enabled: its pods are placed "
                "one by one",
                "add the label, with value true",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="gang-covers-engine",
        title="The gang holds all pods of one engine",
        why=(
            "With autoscaling Volcano's PodGroup has minMember 1 + sum(minReplicas x numOfHosts); KAI uses minReplicas, or replicas where that "
            "is 0. An engine over several pods whose group starts at 0 is then outside the gang, and two engines can each hold half of the "
            "GPUs they need."
        ),
        check=covers_engine,
        sources=("kuberay#5002", "kuberay#5233"),
    ),
    Rule(
        id="gang-label",
        title="YuniKorn and scheduler-plugins gang by label",
        why=(
            "KubeRay's plugins for YuniKorn and scheduler-plugins add gang metadata to pods only where the custom resource carries ray.io/gang-scheduling-enabled. "
            "KAI and Volcano need no such label."
        ),
        check=gang_label,
        sources=("kuberay v1.7.0: controllers/ray/batchscheduler",),
    ),
    Rule(
        id="gang-podgroup-frozen",
        title="scheduler-plugins keeps the first gang size",
        why=(
            "KubeRay creates the PodGroup of scheduler-plugins once. After replicas change, minMember is still the old number: too few pods "
            "are gang-scheduled, or the gang can never be complete."
        ),
        check=podgroup_frozen,
        sources=("kuberay#5205",),
    ),
    Rule(
        id="gang-scheduler-versions",
        title="KubeRay and KAI versions that form the right gang",
        why=(
            "KubeRay hands RayClusters to KAI since 1.5 and RayServices and RayJobs since 1.6. KAI counts numOfHosts since 0.9.3 and minReplicas "
            "without autoscaling since 0.10."
        ),
        check=scheduler_versions,
        sources=("kuberay#4066", "kai#500", "kai#507", "kai#617"),
    ),
)
