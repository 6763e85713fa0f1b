"""PersistentVolumeClaims that pods of models share: how many nodes may attach one, and whether the weights fit on it.

Not for: mounts without a volume (pod_template.py), or disks of nodes (pool_disk.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Object, PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, mib
from policies.finding import Problem, Rule, error, warning

from ._engines import seats
from ._places import pods_at_most
from ._values import gib
from .model_access import from_hub
from .startup_time import weights_mib

_ONE_NODE, _ONE_POD = "ReadWriteOnce", "ReadWriteOncePod"


def _claims(stack: Stack) -> dict[tuple[str, str], Object]:
    return {(item.namespace, item.name): item for item in stack.of_kind("PersistentVolumeClaim")}


def _used(group: PodGroup) -> Iterator[tuple[str, str]]:
    """(claim, volume) of a pod."""
    for volume in map(mapping, items(group.pod.get("volumes"))):
        name = mapping(volume.get("persistentVolumeClaim")).get("claimName")
        if name:
            yield str(name), str(volume.get("name"))


def _modes(claim: Object) -> tuple[str, ...]:
    return tuple(map(str, items(claim.spec.get("accessModes"))))


def shared(stack: Stack) -> Iterator[Problem]:
    claims = _claims(stack)
    if not claims:
        return
    for workload in stack.workloads:
        pods: dict[str, float] = {}
        for group in workload.pod_groups:
            for name, _ in _used(group):
                pods[name] = pods.get(name, 0) + (1 if group.head else _count(workload, group))
        for name, count in pods.items():
            claim = claims.get((workload.namespace, name))
            modes = _modes(claim) if claim else ()
            if not modes or not set(modes) <= {_ONE_NODE, _ONE_POD}:
                continue
            only = _ONE_POD in modes and len(modes) == 1
            if count > 1:
                yield (error if only or _apart(workload) else warning)(
                    workload.where,
                    f"its {count:.0f} pods mount claim '{name}', which is {modes[0]}: {'one pod' if only else 'one node'} attaches the volume and the others wait in "
                    "ContainerCreating (Multi-Attach error)",
                    "use ReadWriteMany or ReadOnlyMany (EFS, FSx), a claim for each pod, or a bucket",
                )
            elif workload.kind == "Deployment" and not _recreates(workload):
                yield warning(
                    workload.where,
                    f"a rolling update starts the new pod while the old one holds claim '{name}', which is {modes[0]}: on another node it waits for ever",
                    "set strategy: {type: Recreate}, or use ReadWriteMany",
                )


def _count(workload: Workload, group: PodGroup) -> float:
    if workload.by_kuberay:
        return pods_at_most(workload, group)
    return group.max if group.max is not None else 1


def _apart(workload: Workload) -> bool:
    """Whether pods certainly need several nodes: by an anti-affinity, or as many hosts of one engine."""
    return any(
        mapping(mapping(group.pod.get("affinity")).get("podAntiAffinity")).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        or group.hosts > 1
        for group in workload.groups
    )


def _recreates(workload: Workload) -> bool:
    strategy = mapping(workload.spec.get("strategy"))
    return strategy.get("type") == "Recreate" or str(mapping(strategy.get("rollingUpdate")).get("maxSurge", "")) in (
        "0",
        "0%",
    )


def size(stack: Stack) -> Iterator[Problem]:
    claims = _claims(stack)
    if not claims:
        return
    for seat in seats(stack):
        need = weights_mib(seat)
        if need is None or not from_hub(seat):
            continue
        for group in seat.groups:
            for name, volume in _used(group):
                claim = claims.get((seat.workload.namespace, name))
                asked = mapping(mapping(claim.spec.get("resources")).get("requests")).get("storage") if claim else None
                room = mib(asked)
                if (
                    claim is not None
                    and room is not None
                    and room < need
                    and any("huggingface" in path or "hf" in path.split("/") for path in _paths(group, volume))
                ):
                    yield error(
                        claim.where,
                        f"it has {gib(room)} and the weights of {seat.engine.source} are {gib(need)}: the download ends with 'No space left on device'",
                        f"ask for {int(need / 1024 * 1.2) + 2}Gi or more",
                    )


def _paths(group: PodGroup, volume: str) -> list[str]:
    first = group.main_container
    return [
        str(m.get("mountPath", "")).casefold()
        for m in map(mapping, items(first.get("volumeMounts")))
        if m.get("name") == volume
    ]


RULES: tuple[Rule, ...] = (
    Rule(
        id="volume-shared",
        title="Pods that share a claim can attach it",
        why=(
            "A ReadWriteOnce volume, such as every EBS volume, is attached to one node at a time. Replicas of a model, or old and new pod of an update, land on several nodes, and "
            "all but the first wait without an error of their own."
        ),
        check=shared,
        sources=(
            "kserve#3409",
            "seldon-core#5128",
            "https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes",
        ),
    ),
    Rule(
        id="volume-size",
        title="A cache of weights holds the weights",
        why="The hub's download is written to the claim as a whole; when it is full the engine ends, and begins the same download again.",
        check=size,
    ),
)
