"""Kueue's queues: what they cover, where they lead, and flavors that a workload may use.

A workload that no flavor takes stays suspended, with a reason in its Workload object alone. A queue that is not seen may be there. Not
for: what Kueue asks of Ray's objects (ray_pods.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Object, PodGroup, Stack, Taint, Toleration, Workload
from policies.facts.quantities import items, mapping, quantity
from policies.finding import Problem, Rule, error, warning

from ._lost import lost
from ._values import listed
from .pod_resources import containers

LABEL = "kueue.x-k8s.io/queue-name"
_GROUP = "kueue.x-k8s.io/"
_PLAIN = (
    "cpu",
    "memory",
    "nvidia.com/gpu",
)  # others are often made into these (Configuration: resources.transformations)
_HARD = ("NoExecute", "NoSchedule")


class Queues:
    """Queues and flavors that are seen."""

    def __init__(self, stack: Stack) -> None:
        self.local = {(q.namespace, q.name): q for q in stack.of_kind("LocalQueue", group=_GROUP)}
        self.cluster = {q.name: q for q in stack.of_kind("ClusterQueue", group=_GROUP)}
        self.flavors = {f.name: f for f in stack.of_kind("ResourceFlavor", group=_GROUP)}


def queues(stack: Stack) -> Iterator[Problem]:
    seen = Queues(stack)
    named = {
        str(each.get("name"))
        for cluster in seen.cluster.values()
        for _, given in resource_groups(cluster)
        for each in given
    }
    for cluster in seen.cluster.values():
        yield from _groups(cluster, seen.flavors, named)
    for local in seen.local.values():
        name = str(local.spec.get("clusterQueue") or "")
        near = closest_names(name, seen.cluster, 1) if name not in seen.cluster else ()
        if near:
            yield error(
                local.where, f"ClusterQueue '{name}' is not there: it admits nothing", f"did you mean '{near[0]}'?"
            )
    for workload in stack.workloads if seen.local or seen.cluster else ():
        yield from _workload(workload, seen)


def resource_groups(cluster: Object) -> Iterator[tuple[list[str], list[Mapping[str, Any]]]]:
    """Resources that a group of a ClusterQueue covers, and its flavors."""
    for group in map(mapping, items(cluster.spec.get("resourceGroups"))):
        yield [str(name) for name in items(group.get("coveredResources"))], [*map(mapping, items(group.get("flavors")))]


def _groups(cluster: Object, flavors: Mapping[str, Object], named: Collection[str]) -> Iterator[Problem]:
    taken: dict[str, int] = {}
    for covered, given in resource_groups(cluster):
        for name in covered:
            taken[name] = taken.get(name, 0) + 1
        for flavor in given:
            name = str(flavor.get("name"))
            own = [str(mapping(each).get("name")) for each in items(flavor.get("resources"))]
            if own != covered:
                yield error(
                    cluster.where,
                    f"flavor '{name}' has quotas of {_in_order(own)}, and its group covers {_in_order(covered)}: Kueue's webhook asks for the same names in the same order",
                    f"list {_in_order(covered)} in every flavor of the group",
                )
            then = "the queue is inactive and admits nothing"
            yield from lost(cluster.where, "ResourceFlavor", name, flavors, named, then)
    twice = [name for name, count in taken.items() if count > 1]
    if twice:
        yield error(
            cluster.where,
            f"{listed(twice)} {'is' if len(twice) == 1 else 'are'} covered by several resourceGroups: Kueue's webhook refuses the queue",
            "cover each resource in one group",
        )


def _in_order(names: list[str]) -> str:
    return ", ".join(names) or "nothing"


def _workload(workload: Workload, seen: Queues) -> Iterator[Problem]:
    name = str(workload.labels.get(LABEL) or "")
    if not name:
        return
    local = seen.local.get((workload.namespace, name))
    if local is None:
        yield from _no_queue(workload, name, seen)
        return
    cluster = seen.cluster.get(str(local.spec.get("clusterQueue")))
    if cluster is None:
        return
    groups = [*resource_groups(cluster)]
    covered = {resource for names, _ in groups for resource in names}
    for group in workload.pod_groups:
        asked = _asked(group)
        missing = sorted(asked - covered) if groups else []
        if missing:
            certain = any(name in _PLAIN or name.startswith("nvidia.com/mig-") for name in missing)
            yield (error if certain else warning)(
                group.where,
                f"it asks for {listed(missing)}, which {cluster.where} does not cover: Kueue never admits it"
                + ("" if certain else ", unless its configuration leaves that out or turns it into another resource"),
                f"add {listed(missing)} to coveredResources, with a quota in each flavor",
            )
        for names, flavors in groups:
            if asked & set(names):
                own = [seen.flavors.get(str(each.get("name"))) for each in flavors]
                yield from _taints(group.where, group.tolerations, cluster, own)
    if workload.submission_mode == "K8sJobMode" and workload.by_kuberay:
        yield from _submitter(workload, cluster, seen)


def _submitter(workload: Workload, cluster: Object, seen: Queues) -> Iterator[Problem]:
    """KubeRay's pod that submits a job is part of what Kueue admits: 1 CPU and no tolerations, unless it is stated."""
    pod = mapping(mapping(workload.spec.get("submitterPodTemplate")).get("spec"))
    for names, flavors in resource_groups(cluster):
        if "cpu" in names:
            own = [seen.flavors.get(str(each.get("name"))) for each in flavors]
            tolerations = tuple(map(_toleration, items(pod.get("tolerations"))))
            yield from _taints(f"{workload.where}: the pod that submits it", tolerations, cluster, own)


def _no_queue(workload: Workload, name: str, seen: Queues) -> Iterator[Problem]:
    here = [queue for space, queue in seen.local if space == workload.namespace]
    elsewhere = sorted(space for space, queue in seen.local if queue == name)
    near = closest_names(name, here, 1)
    if near or elsewhere:
        yield error(
            workload.where,
            f"LocalQueue '{name}' is not in namespace '{workload.namespace}': it stays suspended",
            f"did you mean '{near[0]}'?" if near else f"make one there; '{name}' is in {listed(elsewhere)}",
        )


def _asked(group: PodGroup) -> set[str]:
    found = set()
    for _, container in containers(mapping(group.pod)):
        given = mapping(container.get("resources"))
        for resource, amount in {**mapping(given.get("limits")), **mapping(given.get("requests"))}.items():
            if quantity(amount):
                found.add(str(resource))
    return found


def _taints(
    where: str, own: tuple[Toleration, ...], cluster: Object, flavors: list[Object | None]
) -> Iterator[Problem]:
    """Kueue compares a flavor's taints with the pod's tolerations and the flavor's own, as the scheduler would."""
    refused = []
    for flavor in flavors:
        if flavor is None:
            return
        tolerations = (*own, *map(_toleration, items(flavor.spec.get("tolerations"))))
        hard = [taint for taint in map(_taint, items(flavor.spec.get("nodeTaints"))) if taint.effect in _HARD]
        alone = [taint for taint in hard if not any(each.matches(taint) for each in tolerations)]
        if not alone:
            return
        refused.append(f"{flavor.name} ({alone[0].key}={alone[0].value}:{alone[0].effect})")
    if refused:
        yield error(
            where,
            f"it tolerates the taints of no flavor that {cluster.where} has for it: {', '.join(refused)}. Kueue never admits it",
            "add the toleration to the pods (of a job: submitterPodTemplate as well), or to the flavor (spec.tolerations)",
        )


def _taint(given: Any) -> Taint:
    return Taint(**_texts(given, "key", "value", "effect"))


def _toleration(given: Any) -> Toleration:
    return Toleration(**{"operator": "Equal"} | _texts(given, "key", "operator", "value", "effect"))


def _texts(given: Any, *names: str) -> dict[str, str]:
    return {name: str(mapping(given)[name]) for name in names if mapping(given).get(name) is not None}


RULES: tuple[Rule, ...] = (
    Rule(
        id="kueue-queue",
        title="A queue of Kueue covers what its workloads ask for, on nodes that they tolerate",
        why=(
            "Kueue admits a workload when every resource that its pods request has a quota in a flavor whose taints they tolerate. A resource that is not covered counts as none: "
            "the workload waits for ever, suspended. Each flavor of a group lists all of the group's resources."
        ),
        check=queues,
        sources=(
            "kueue#931",
            "kueue#3158",
            "kueue#5711",
            "https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/",
            "https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/",
        ),
    ),
)
