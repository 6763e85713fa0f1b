"""KAI's placement by topology, and priority classes that it knows. Not for: fractions and values (kai.py), or queues (queues.py).

Source: KAI-Scheduler at d5bc503, pkg/podgrouper (constants.go, default_grouper.go) and pkg/scheduler (subgroup_info/factory.go,
plugins/topology/job_filtering.go).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.catalog.lookup import closest_names
from policies.facts import Stack, Workload
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._lost import lost
from ._values import listed

_TOPOLOGY = "kai.scheduler/topology"
_PLACEMENTS = ("kai.scheduler/topology-preferred-placement", "kai.scheduler/topology-required-placement")
_NODE_POOL = "kai.scheduler/node-pool"
CLASSES = ("build", "build-preemptible", "inference", "train")


def topology(stack: Stack) -> Iterator[Problem]:
    levels = {
        item.name: [str(mapping(level).get("nodeLabel")) for level in items(item.spec.get("levels"))]
        for item in stack.of_kind("Topology", group="kai.scheduler/")
    }
    for workload in stack.workloads:
        own = mapping(workload.annotations)
        for where, given in (
            (workload.where, own),
            *((g.where, {**own, **mapping(g.annotations)}) for g in workload.groups),
        ):
            asked = {key: str(given[key]) for key in _PLACEMENTS if given.get(key)}
            if not asked or (where != workload.where and all(own.get(key) == value for key, value in asked.items())):
                continue
            yield from _placed(where, asked, given, levels)


def _placed(
    where: str, asked: Mapping[str, str], given: Mapping[str, object], levels: Mapping[str, list[str]]
) -> Iterator[Problem]:
    name = given.get(_TOPOLOGY)
    if not name:
        yield error(
            where,
            f"it asks for a place by {listed(sorted(asked))} and names no topology: KAI takes no notice of it",
            f"name the Topology in {_TOPOLOGY}",
        )
        return
    if levels and str(name) not in levels:
        yield from lost(where, "Topology", str(name), levels, (str(name),), "its pods stay pending")
        return
    for key, label in asked.items():
        have = levels.get(str(name))
        if have and label not in have:
            yield error(
                where,
                f"{key} is '{label}' and topology '{name}' has the levels {listed(have)}: its pods stay pending",
                f"use one of {', '.join(have)}",
            )


def classes(stack: Stack) -> Iterator[Problem]:
    if stack.batch_scheduler != "kai":
        return
    known = {item.name for item in stack.of_kind("PriorityClass")} | set(CLASSES)
    for workload in stack.workloads:
        given = _class(workload)
        if given is None or given in known or given.startswith("system-"):
            continue
        near = closest_names(given, sorted(known), 1)
        if near or stack.fresh:
            yield warning(
                workload.where,
                f"priority class '{given}' is none that KAI makes ({', '.join(CLASSES)}); without a class of that name KAI takes train, which others may preempt",
                f"did you mean '{near[0]}'?" if near else "use one of them, or make the class",
            )


def _class(workload: Workload) -> str | None:
    for key in ("ray.io/priority-class-name", "priorityClassName"):
        if workload.labels.get(key):
            return str(workload.labels[key])
    return next((group.priority_class for group in workload.groups if group.priority_class), None)


def shards(stack: Stack) -> Iterator[Problem]:
    """Queues and pods of a part of the nodes that no scheduler of KAI serves."""
    served = {
        str(item.spec.get("partitionLabelValue")) for item in stack.of_kind("SchedulingShard", group="kai.scheduler/")
    }
    given: list[tuple[str, Mapping[str, object]]] = [
        (item.where, item.labels) for item in stack.of_kind("Queue", group="scheduling.run.ai/")
    ]
    given += [(group.where, group.labels) for workload in stack.workloads for group in workload.pod_groups]
    told: set[str] = set()
    for where, labels in given:
        name = str(labels.get(_NODE_POOL) or "")
        if name and name not in served | told:
            told.add(name)
            yield warning(
                where,
                f"label {_NODE_POOL} is '{name}', and no SchedulingShard with partitionLabelValue {name} is seen: KAI's default scheduler passes it over, and its pods stay pending",
                f"make a SchedulingShard with partitionLabelValue: {name}, or leave the label out",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kai-topology",
        title="A place by topology names a topology and one of its levels",
        why=(
            "KAI reads the required and the preferred level together with the Topology they are levels of. Without its name the annotations are dropped in silence; with a name "
            "or a level that is not there the pods are never placed."
        ),
        check=topology,
        sources=(
            "KAI-Scheduler: docs/topology/README.md",
            "KAI-Scheduler d5bc503: subgroup_info/factory.go, plugins/topology/job_filtering.go",
        ),
    ),
    Rule(
        id="kai-priority-class",
        title="The priority class is one that is there",
        why="KAI's pod-grouper takes the default class of the kind where the named one does not exist, and logs it: a service that was to be safe is preempted.",
        check=classes,
        sources=("KAI-Scheduler d5bc503: default_grouper.go calcPriorityClassWithDefaults",),
    ),
    Rule(
        id="kai-node-pool",
        title="A part of the nodes has a scheduler",
        why="KAI runs one scheduler for each SchedulingShard, which reads queues, pods and nodes with its value of the node pool's label, and one for those without a label.",
        check=shards,
        sources=("KAI-Scheduler#1045", "KAI-Scheduler: docs/operator/scheduling-shards.md"),
    ),
)
