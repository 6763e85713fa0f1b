"""Pods that name a queue of a scheduler that does not place them. Not for: the queue itself (scheduler_pods.py, queues.py), or Ray's pods."""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.finding import Problem, Rule, warning

_PLAIN = (None, "", "default-scheduler")
_LABELS = {"kai": ("kai.scheduler/queue", "kai-scheduler"), "volcano": ("scheduling.volcano.sh/queue-name", "volcano")}


def labelled(stack: Stack) -> Iterator[Problem]:
    queues = {(queue.scheduler, queue.name) for queue in stack.queues}
    for workload in stack.workloads if queues and stack.batch_scheduler is None else ():
        for group in workload.pod_groups if not workload.by_kuberay else ():
            given = {**workload.labels, **workload.annotations, **group.labels, **group.annotations}
            for scheduler, (key, name) in _LABELS.items():
                if group.scheduler_name in _PLAIN and (scheduler, str(given.get(key))) in queues:
                    yield warning(
                        group.where,
                        f"{key} is '{given[key]}' and Kubernetes' own scheduler places it: neither quota nor gang of the queue is kept",
                        f"set schedulerName: {name}",
                    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="queue-scheduler",
        title="Pods of a queue go to its scheduler",
        why="A queue is a label or an annotation to Kubernetes' own scheduler, which places the pod at once, outside the quota, and takes GPUs that KAI or Volcano count as free.",
        check=labelled,
        sources=("romanbaron/KAI-Scheduler#1", "KAI-Scheduler: docs/quickstart/README.md"),
    ),
)
