"""Plain pods that go to KAI or Volcano, and the schedulers' own jobs, groups and queues: what webhooks refuse, and what is never placed.

For objects that are seen beside one another, whoever wrote them; a queue that is not seen may be there. Not for: Ray's workloads, whose
scheduler is the operator's (queues.py), or how much a queue holds (queue_shares.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import PodGroup, Queue, Stack, Workload
from policies.facts.quantities import items, mapping, quantity, whole
from policies.finding import Problem, Rule, error, warning

from ._places import asks_kai_share
from ._values import listed
from .queues import BUILT_IN, LABELS, NOT_LEAVES, OLD_LABEL, POD_QUEUE

_OF = {"kai-scheduler": "kai", "volcano": "volcano"}
_VGPU = "volcano.sh/vgpu-"
_OLD_SHARE = ("volcano.sh/gpu-memory", "volcano.sh/gpu-number")  # of the plugin before HAMi's


def pods(stack: Stack) -> Iterator[Problem]:
    queues = _Queues(stack)
    for workload in stack.workloads:
        if workload.by_kuberay:
            continue
        for group in workload.groups:
            own = _OF.get(group.scheduler_name or "")
            if own is None and asks_kai_share(group) and group.scheduler_name in (None, "", "default-scheduler"):
                yield error(
                    group.where,
                    "it asks for a part of a GPU by KAI's annotation and Kubernetes' own scheduler places it: nothing gives it a GPU",
                    "set schedulerName: kai-scheduler, and the label kai.scheduler/queue",
                )
            elif own is not None and stack.batch_scheduler is None:
                yield from _queue(workload, group, own, queues)


class _Queues:
    """Queues that are seen, by scheduler."""

    def __init__(self, stack: Stack) -> None:
        self.by: dict[str, dict[str, Queue]] = {"kai": {}, "volcano": {}}
        for queue in stack.queues:
            self.by.setdefault(queue.scheduler, {})[queue.name] = queue
        self.parents = {(queue.scheduler, queue.parent) for queue in stack.queues if queue.parent}

    def judged(self, where: str, scheduler: str, name: str) -> Iterator[Problem]:
        known = self.by[scheduler]
        if (scheduler, name) in self.parents or name in NOT_LEAVES[scheduler]:
            leaves = [q.name for q in known.values() if q.parent == name and (scheduler, q.name) not in self.parents]
            yield error(
                where,
                f"queue '{name}' has queues below it, and only leaves take workloads",
                f"use one of its leaves{': ' + listed(leaves) if leaves else ''}",
            )
        elif known and name not in known and name not in BUILT_IN[scheduler]:
            near = closest_names(name, known, 1)
            if near:
                yield error(where, f"queue '{name}' is not there: its pods stay pending", f"did you mean '{near[0]}'?")


def _queue(workload: Workload, group: PodGroup, scheduler: str, queues: _Queues) -> Iterator[Problem]:
    key = LABELS[scheduler]
    labels, notes = {**workload.labels, **group.labels}, {**workload.annotations, **group.annotations}
    # Volcano reads a plain pod's queue from an annotation, KAI from a label alone.
    named = labels.get(key) or (notes.get(POD_QUEUE) or notes.get(key) if scheduler == "volcano" else None)
    if named:
        yield from queues.judged(group.where, scheduler, str(named))
    elif scheduler == "kai" and notes.get(key):
        yield error(
            group.where,
            f"the queue is given as annotation {key}, and KAI reads labels: its pods go to default-queue, or wait",
            f"give it as label {key}",
        )
    elif scheduler == "kai" and labels.get(OLD_LABEL):
        yield error(
            group.where, f"label {OLD_LABEL} is the name that KAI gave up in 0.6: nothing reads it", f"use label {key}"
        )
    elif scheduler == "kai" and queues.by["kai"] and "default-queue" not in queues.by["kai"]:
        yield warning(
            group.where,
            f"it names no queue: KAI puts its pods into default-queue, which is not among the queues here ({listed(queues.by['kai'])})",
            f"set label {key}",
        )


def vgpu(stack: Stack) -> Iterator[Problem]:
    """Volcano's virtual GPUs: a number of them, and a part of each."""
    for workload in stack.workloads:
        for group in workload.groups:
            asked = {
                str(k).removeprefix(_VGPU): quantity(v) for k, v in group.limits.items() if str(k).startswith(_VGPU)
            }
            if not asked:
                continue
            old = [name for name in _OLD_SHARE if quantity(group.limits.get(name))]
            if old:
                yield error(
                    group.where,
                    f"it asks for {listed(old)} beside {_VGPU}{min(asked)}: they are of two device plugins, and no node advertises both",
                    f"ask for {_VGPU}memory and {_VGPU}number",
                )
            if "number" not in asked:
                yield error(
                    group.where,
                    f"it asks for {listed(f'{_VGPU}{name}' for name in sorted(asked))} and for no {_VGPU}number: Volcano gives it no GPU",
                    f"set {_VGPU}number: 1",
                )
            if "memory" in asked and "memory-percentage" in asked:
                yield error(
                    group.where,
                    f"it states {_VGPU}memory and {_VGPU}memory-percentage: one of them is not what it gets",
                    "keep one",
                )
            for name in ("cores", "memory-percentage"):
                if (asked.get(name) or 0) > 100:
                    yield error(group.where, f"{_VGPU}{name} is {asked[name]:g}, a percentage", "give at most 100")
            if quantity(group.limits.get("nvidia.com/gpu")):
                yield error(
                    group.where,
                    f"it asks for nvidia.com/gpu and {_VGPU}number: no node advertises both, Volcano's plugin takes the place of NVIDIA's",
                    "ask for one of them",
                )


def objects(stack: Stack) -> Iterator[Problem]:
    queues = _Queues(stack)
    for item in stack.of_kind("Queue", "Job", "PodGroup"):
        spec = item.spec
        if item.kind == "Queue" and item.api_version.startswith("scheduling.run.ai/") and spec.get("resources") is None:
            yield error(
                item.where,
                "it has no spec.resources: KAI's webhook refuses the queue",
                "state resources: {cpu, gpu, memory: {quota: -1, limit: -1}} for no bounds",
            )
        elif item.kind == "Queue" and item.api_version.startswith("scheduling.volcano.sh/"):
            weight = whole(spec.get("weight"))
            if weight is not None and not 1 <= weight <= 65535:
                yield error(item.where, f"its weight is {weight}; allowed: 1 to 65535", "give a weight of at least 1")
        elif item.kind == "Job" and item.api_version.startswith("batch.volcano.sh/"):
            yield from _job(item.where, spec)
            yield from queues.judged(item.where, "volcano", str(spec.get("queue") or "default"))
        elif item.kind == "PodGroup" and item.api_version.startswith("scheduling.run.ai/"):
            yield from _subgroups(item.where, spec)
        elif item.kind == "PodGroup" and item.api_version.startswith("scheduling.volcano.sh/"):
            yield from queues.judged(item.where, "volcano", str(spec.get("queue") or "default"))


def _subgroups(where: str, spec: Mapping[str, Any]) -> Iterator[Problem]:
    """KAI's webhook (pkg/apis/scheduling/v2alpha2/podgroup_webhook.go)."""
    given = [mapping(each) for each in items(spec.get("subGroups"))]
    names = [str(each.get("name")) for each in given]
    parents = Counter(str(each["parent"]) for each in given if each.get("parent"))
    for found, message, mend in (
        (spec.get("minMember") is not None and spec.get("minSubGroup") is not None, "it has minMember and minSubGroup", "keep one"),
        (len(set(names)) < len(names), "several of its subgroups have one name", "give each a name of its own"),
        (set(parents) - set(names), f"its subgroups name parents that are not there: {listed(set(parents) - set(names))}", "name a subgroup of the list"),
    ):  # fmt: skip
        if found:
            yield error(where, f"{message}: KAI's webhook refuses the group", mend)
    for each in given:
        name, below = str(each.get("name")), parents.get(str(each.get("name")), 0)
        if below and each.get("minMember") is not None:
            yield error(
                where,
                f"subgroup '{name}' has subgroups of its own and minMember, which is for those with pods: KAI's webhook refuses the group",
                "leave minMember out, or state minSubGroup",
            )
        elif not below and each.get("minSubGroup") is not None:
            yield error(
                where,
                f"subgroup '{name}' has no subgroups and states minSubGroup: KAI's webhook refuses the group",
                "state minMember",
            )
        elif below and (whole(each.get("minSubGroup")) or 0) > below:
            yield error(
                where,
                f"minSubGroup of subgroup '{name}' is {each['minSubGroup']} and it has {below} subgroups: KAI's webhook refuses the group",
                f"set it to at most {below}",
            )


def _job(where: str, spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Volcano's webhook (pkg/webhooks/admission/jobs/validate)."""
    tasks = [mapping(task) for task in items(spec.get("tasks"))]
    if not tasks and spec.get("tasks") is not None:
        yield error(where, "it has no tasks: Volcano's webhook refuses the job", "give it a task")
        return
    counts = [1 if task.get("replicas") is None else whole(task["replicas"]) or 0 for task in tasks]
    least = whole(spec.get("minAvailable"))
    if least is not None and least > sum(counts):
        yield error(
            where,
            f"minAvailable is {least} and its tasks have {sum(counts)} pods: Volcano's webhook refuses the job",
            f"set minAvailable to at most {sum(counts)}",
        )
    for task, count in zip(tasks, counts, strict=True):
        own = whole(task.get("minAvailable"))
        if own is not None and own > count:
            yield error(
                where,
                f"minAvailable of task '{task.get('name')}' is {own} and it has {count} pods: Volcano's webhook refuses the job",
                f"set it to at most {count}",
            )
    twice = [name for name, n in Counter(str(task.get("name")) for task in tasks if task.get("name")).items() if n > 1]
    if twice:
        yield error(where, f"several tasks are called {listed(twice)}", "give each a name of its own")


RULES: tuple[Rule, ...] = (
    Rule(
        id="pod-queue",
        title="Plain pods go to the scheduler that reads what they ask, and to a leaf that is there",
        why=(
            "KAI's annotations mean nothing to Kubernetes' own scheduler, and pods that name KAI or Volcano wait without an event where their queue does not exist or has "
            "queues below it."
        ),
        check=pods,
        sources=("romanbaron/KAI-Scheduler#1", "kai-scheduler/KAI-Scheduler PR#932", "kai#44", "volcano#195"),
    ),
    Rule(
        id="volcano-vgpu",
        title="A virtual GPU is a number and a part",
        why=(
            "HAMi's plugin for Volcano counts virtual GPUs by vgpu-number; memory and cores say how much of each. Without a number nothing is given, and NVIDIA's own resource is "
            "not on such nodes."
        ),
        check=vgpu,
        sources=("Project-HAMi/volcano-vgpu-device-plugin: README.md", "volcano#3624"),
    ),
    Rule(
        id="scheduler-objects",
        title="Jobs, groups and queues are ones that the schedulers' webhooks take",
        why="Webhooks of KAI and Volcano check objects when they are created; groups are not checked, and wait for a queue that does not exist.",
        check=objects,
        sources=(
            "volcano v1.15.1: pkg/webhooks/admission",
            "KAI-Scheduler: pkg/admission/webhook/queuehooks",
            "volcano#388",
            "KAI-Scheduler#1639",
        ),
    ),
)
