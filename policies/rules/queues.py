"""Queues of KAI and Volcano: the workload names one that exists, is a leaf, and can take it.

Not for: how much a queue holds (queue_shares.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from policies.facts import Queue, Stack, Workload
from policies.finding import Problem, Rule, error, warning

from ._values import before, listed

LABELS = {"kai": "kai.scheduler/queue", "volcano": "volcano.sh/queue-name"}
OLD_LABEL = "runai/queue"
POD_QUEUE = "scheduling.volcano.sh/queue-name"
# Queues the schedulers bring themselves: KAI's chart on install (defaultQueue.createDefaultQueue, v0.10), Volcano's admission.
BUILT_IN = {"kai": ("default-queue",), "volcano": ("default",)}
NOT_LEAVES = {"kai": ("default-parent-queue",), "volcano": ("root",)}
KAI_NAMESPACES = ("kai-scheduler", "kai-resource-reservation", "kai-scale-adjust")


def queue_label(stack: Stack, workload: Workload) -> str | None:
    """The queue a workload names for the stack's scheduler; on a Deployment its pods carry the label."""
    key = LABELS.get(stack.batch_scheduler or "")
    if key is None:
        return None
    for labels in (workload.labels, *(group.labels for group in workload.groups)):
        if labels.get(key):
            return str(labels[key])
    if stack.batch_scheduler == "volcano" and not workload.by_kuberay:
        # Volcano makes a PodGroup for a pod that has none, in the queue of this annotation (pg_controller_handler.go, v1.15.1).
        return next((str(g.annotations[POD_QUEUE]) for g in workload.groups if g.annotations.get(POD_QUEUE)), None)
    return None


def _scheduled(stack: Stack, workload: Workload) -> bool:
    """Whether the batch scheduler places the workload: all of KubeRay's, and Deployments that name it."""
    if workload.by_kuberay:
        return True
    names = {"kai": "kai-scheduler", "volcano": "volcano"}
    return any(group.scheduler_name == names.get(stack.batch_scheduler or "") for group in workload.groups)


def label(stack: Stack) -> Iterator[Problem]:
    scheduler = stack.batch_scheduler
    for workload in stack.workloads:
        if scheduler not in LABELS:
            yield from _without_scheduler(stack, workload)
            continue
        key = LABELS[scheduler]
        if not _scheduled(stack, workload):
            continue
        named = queue_label(stack, workload)
        annotated = next((k for k in (*LABELS.values(), OLD_LABEL) if k in workload.annotations), None)
        if annotated is not None and named is None:
            yield error(
                workload.where,
                f"the queue is given as annotation {annotated}, which nothing reads: the pods end in the default queue or stay pending",
                f"give it as label {key} of the {workload.kind} (field `queue`)",
            )
        elif named is None and OLD_LABEL in workload.labels and scheduler == "kai":
            if not before(stack.versions.kai, "0.6.0"):
                yield error(
                    workload.where,
                    f"label {OLD_LABEL} is the name KAI gave up in 0.6; nothing reads it",
                    f"use label {key} (field `queue`)",
                )
        elif named is None:
            other = next((k for s, k in LABELS.items() if s != scheduler and workload.labels.get(k)), None)
            if other is not None:
                yield error(
                    workload.where,
                    f"label {other} belongs to another scheduler; {scheduler} reads {key}",
                    f"use label {key} (field `queue`)",
                )
            elif scheduler == "kai":
                yield error(
                    workload.where,
                    f"it names no queue: KubeRay leaves its pods without {key}, and KAI puts them into default-queue or leaves them pending",
                    f"set `queue`{_choices(stack)}",
                )


def _without_scheduler(stack: Stack, workload: Workload) -> Iterator[Problem]:
    key = next((k for k in LABELS.values() if workload.labels.get(k)), None)
    if key is not None and stack.batch_scheduler == "none":
        yield warning(
            workload.where,
            f"it carries {key} and no batch scheduler is chosen, so no quota and no gang holds for it",
            "set software.batch_scheduler, or leave `queue` out",
        )
    named = {"kai-scheduler": "kai", "volcano": "volcano"}
    for group in workload.pod_groups:
        own = named.get(group.scheduler_name or "")
        if own is not None and stack.complete and stack.batch_scheduler == "none":
            yield error(
                group.where,
                f"schedulerName {group.scheduler_name} and no batch scheduler is chosen: nobody places its pods",
                f"set software.batch_scheduler: {own}, or leave schedulerName out",
            )


def _choices(stack: Stack) -> str:
    leaves = [queue.name for queue in stack.queues if queue.name not in _parents(stack)]
    return f"; queues: {listed(leaves)}" if leaves else " and declare the queue under `queues`"


def _parents(stack: Stack) -> set[str]:
    return {queue.parent for queue in stack.queues if queue.parent}


def exists(stack: Stack) -> Iterator[Problem]:
    scheduler = stack.batch_scheduler or ""
    if scheduler not in LABELS:
        return
    known = {queue.name: queue for queue in stack.queues if queue.scheduler == scheduler}
    parents = _parents(stack)
    for workload in stack.workloads:
        name = queue_label(stack, workload)
        if name is None:
            continue
        if name in parents or name in NOT_LEAVES[scheduler]:
            leaves = [n for n, q in known.items() if q.parent == name and n not in parents]
            yield error(
                workload.where,
                f"queue '{name}' has queues below it, and only leaves take workloads",
                f"use one of its leaves{': ' + listed(leaves) if leaves else ''}",
            )
        elif name not in known:
            yield from _unknown(stack, workload, scheduler, name, known)


def _unknown(stack: Stack, workload: Workload, scheduler: str, name: str, known: dict[str, Queue]) -> Iterator[Problem]:
    if name in BUILT_IN[scheduler]:
        if scheduler == "kai" and stack.complete:
            yield warning(
                workload.where,
                "it relies on default-queue, which KAI's chart makes only on install (since 0.10) and with a GPU quota of 0",
                "declare a queue of its own under `queues` and name it",
            )
        return
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    hint = f"; did you mean '{close[0]}'?" if close else (f"; queues: {listed(known)}" if known else "")
    if stack.complete:
        yield error(
            workload.where,
            f"queue '{name}' does not exist{hint}",
            "declare it under `queues`, or name one that is there",
        )
    elif known:
        yield warning(
            workload.where, f"queue '{name}' is not among the queues of this stack{hint}", "make sure that it exists"
        )


def hierarchy(stack: Stack) -> Iterator[Problem]:
    for scheduler in LABELS:
        known = {queue.name: queue for queue in stack.queues if queue.scheduler == scheduler}
        for queue in known.values():
            if queue.parent is None:
                continue
            if queue.parent not in known and queue.parent not in (*NOT_LEAVES[scheduler], *BUILT_IN[scheduler]):
                severity = error if stack.complete else warning
                yield severity(
                    queue.where,
                    f"its parent '{queue.parent}' does not exist",
                    f"declare it; queues: {listed(known)}",
                )
            elif _cycle(queue, known):
                yield error(queue.where, "it is its own ancestor", "let one of the queues in the circle have no parent")


def _cycle(queue: Queue, known: dict[str, Queue]) -> bool:
    seen = {queue.name}
    parent = queue.parent
    while parent is not None and parent in known:
        if parent == queue.name:
            return True
        if parent in seen:
            return False  # the circle is further up, and is said there
        seen.add(parent)
        parent = known[parent].parent
    return False


def submission(stack: Stack) -> Iterator[Problem]:
    if stack.batch_scheduler != "kai":
        return
    for workload in stack.workloads:
        if workload.kind == "RayJob" and (workload.submission_mode or "K8sJobMode") == "K8sJobMode":
            yield error(
                workload.where,
                "submissionMode K8sJobMode (the CRD's default) is refused under KAI: its submitter pod comes after the gang",
                "use HTTPMode, SidecarMode or InteractiveMode (job.submission_mode)",
            )


def namespace(stack: Stack) -> Iterator[Problem]:
    if stack.batch_scheduler != "kai":
        return
    for workload in stack.workloads:
        if workload.namespace in KAI_NAMESPACES:
            yield error(
                workload.where,
                f"namespace '{workload.namespace}' belongs to KAI, whose admission does not handle workloads there",
                "use a namespace of your own",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="queue-label",
        title="The queue is named by a label of the workload",
        why=(
            "KubeRay copies kai.scheduler/queue from the labels of the RayService to its clusters and pods. A missing label is only logged; "
            "whether pods then run depends on a default-queue. An annotation, KAI's old label or another scheduler's label is not read at all."
        ),
        check=label,
        sources=("kai#44", "kai#932", "kuberay: batchscheduler/kai-scheduler/kai_scheduler.go"),
    ),
    Rule(
        id="queue-exists",
        title="The queue exists and is a leaf",
        why=(
            "Pods of a queue that does not exist stay pending: Volcano's webhook checks vcjobs, not the PodGroups that KubeRay makes, and KAI "
            "only schedules leaves."
        ),
        check=exists,
        sources=("volcano#195", "volcano#388", "kai#612", "kai#499"),
    ),
    Rule(
        id="queue-hierarchy",
        title="Queues form a tree",
        why="A queue whose parent is missing is ignored by the scheduler with everything in it.",
        check=hierarchy,
        sources=("https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0/docs/queues",),
    ),
    Rule(
        id="queue-job-submission",
        title="KAI takes no RayJob in K8sJobMode",
        why=(
            "In K8sJobMode the submitter pod is created after the cluster is ready, so it cannot be part of the gang. KubeRay refuses the "
            "combination and makes no pods."
        ),
        check=submission,
        sources=("kuberay#4418", "ray#61332"),
    ),
    Rule(
        id="queue-namespace",
        title="No workloads in KAI's own namespaces",
        why="KAI leaves its own namespaces out of grouping and admission, so that it never schedules itself.",
        check=namespace,
    ),
)
