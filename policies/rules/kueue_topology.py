"""Topologies of Kueue: flavors that name one, workloads that ask for one of its levels, and gates that keep a pod out of any queue.

Not for: quotas, taints and where queues lead (kueue.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.facts import Object, PodGroup, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._lost import lost
from ._values import dig, listed
from .kueue import LABEL, Queues, resource_groups

_ASKING = tuple(f"kueue.x-k8s.io/podset-{way}-topology" for way in ("preferred", "required", "slice-required"))
# Gates that a controller of its own takes away again.
_TAKEN_AWAY = ("kueue.x-k8s.io/", "grove.io/", "nvidia.com/", "kai.scheduler/", "ray.io/", "scheduling.k8s.io/")


def topologies(stack: Stack) -> Iterator[Problem]:
    seen = Queues(stack)
    known = {item.name: _levels(item) for item in stack.of_kind("Topology", group="kueue.x-k8s.io/")}
    named = {
        str(flavor.spec.get("topologyName")) for flavor in seen.flavors.values() if flavor.spec.get("topologyName")
    }
    for flavor in seen.flavors.values():
        name = str(flavor.spec.get("topologyName") or "")
        if name:
            yield from lost(flavor.where, "Topology", name, known, named, "queues with this flavor are inactive")
    for workload in stack.workloads:
        local = seen.local.get((workload.namespace, str(workload.labels.get(LABEL) or "")))
        cluster = seen.cluster.get(str(local.spec.get("clusterQueue"))) if local is not None else None
        if cluster is None:
            continue
        for group in workload.pod_groups:
            yield from _asked(group, cluster, seen.flavors, known)


def _levels(topology: Object) -> tuple[str, ...]:
    return tuple(str(mapping(each).get("nodeLabel")) for each in items(topology.spec.get("levels")))


def _asked(
    group: PodGroup, cluster: Object, flavors: Mapping[str, Object], known: Mapping[str, tuple[str, ...]]
) -> Iterator[Problem]:
    given = {key: str(group.annotations[key]) for key in _ASKING if group.annotations.get(key)}
    names = [str(flavor.get("name")) for _, found in resource_groups(cluster) for flavor in found]
    if not given or not names or any(name not in flavors for name in names):
        return
    of_flavors = {str(flavors[name].spec.get("topologyName") or "") for name in names} - {""}
    if of_flavors - known.keys():
        return
    levels = {level for name in of_flavors for level in known[name]}
    for key, level in given.items():
        if level in levels:
            continue
        has = (
            f"the topology of its flavors has levels {listed(levels)}"
            if levels
            else "none of its flavors has a topology (topologyName)"
        )
        yield error(
            group.where,
            f"{key} asks for a domain of {level}, and {has}: {cluster.where} never admits it",
            f"ask for {' or '.join(sorted(levels))}"
            if levels
            else "give the flavor a topologyName, or leave the annotation out",
        )


def gates(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            names = [str(mapping(each).get("name")) for each in items(dig(group.pod, "schedulingGates"))]
            own = [name for name in names if not name.startswith(_TAKEN_AWAY)]
            if own:
                queued = (
                    " (Kueue takes away its own gates alone, and counts the quota all the same)"
                    if workload.labels.get(LABEL)
                    else ""
                )
                yield warning(
                    group.where,
                    f"its pods have scheduling gate {listed(own)}: no scheduler looks at them until somebody takes it away{queued}",
                    "leave it out, unless a controller of yours takes it away",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kueue-topology",
        title="A workload asks for a level of its flavors' topology",
        why=(
            "With topology-aware scheduling a workload names a node label, and Kueue looks for it among the levels of the Topology that the flavor names. Without a flavor that has it the "
            "workload is never admitted, whatever is free."
        ),
        check=topologies,
        sources=(
            "kueue PR#11259",
            "https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/",
        ),
    ),
    Rule(
        id="pod-gates",
        title="Scheduling gates have somebody who takes them away",
        why="A pod with a scheduling gate is left alone by every scheduler. Kueue, Grove and others take away the gates that they put there themselves, and no other.",
        check=gates,
        sources=(
            "kueue PR#9541",
            "https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/",
        ),
    ),
)
