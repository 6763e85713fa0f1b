"""Who owns a fresh volume: root, unless the pod says otherwise. Not for: users that images know, or folders (pod_writes.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import PodGroup, Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, warning

from .storage_classes import BLOCKS, EBS_NAMES


def owners(stack: Stack) -> Iterator[Problem]:
    classes = {item.name: item.manifest.get("provisioner") for item in stack.of_kind("StorageClass")}
    claims = {
        (item.namespace, item.name)
        for item in stack.of_kind("PersistentVolumeClaim")
        if _on_ebs(item.spec.get("storageClassName"), classes)
    }
    for workload in stack.workloads if claims else ():
        for group in workload.pod_groups:
            context = mapping(group.pod.get("securityContext"))
            user = whole(
                mapping(group.main_container.get("securityContext")).get("runAsUser", context.get("runAsUser"))
            )
            fresh = sorted(name for name in _mounted(group) if (workload.namespace, name) in claims)
            if fresh and user and context.get("fsGroup") is None and not _given_away(group):
                yield warning(
                    group.where,
                    f"it runs as user {user} and writes to claim '{fresh[0]}' without fsGroup: a fresh volume of EBS is root's, and the first write is refused (permission denied)",
                    f"set fsGroup in the pod's securityContext, e.g. {user}",
                )


def _on_ebs(name: Any, classes: Mapping[str, Any]) -> bool:
    return classes[name] in BLOCKS if name in classes else name in EBS_NAMES


def _mounted(group: PodGroup) -> Iterator[str]:
    """Claims that the first container mounts to write."""
    mounts = [mapping(each) for each in items(group.main_container.get("volumeMounts"))]
    names = {each.get("name") for each in mounts if each.get("readOnly") is not True}
    for volume in map(mapping, items(group.pod.get("volumes"))):
        claim = mapping(volume.get("persistentVolumeClaim"))
        if volume.get("name") in names and claim.get("claimName") and claim.get("readOnly") is not True:
            yield str(claim["claimName"])


def _given_away(group: PodGroup) -> bool:
    """Whether something before the first container changes the owner."""
    before = map(mapping, items(group.pod.get("initContainers")))
    return any("chown" in str(each) or "chmod" in str(each) for each in before)


RULES: tuple[Rule, ...] = (
    Rule(
        id="volume-owner",
        title="A pod's user owns the volume that it writes to",
        why="A new file system of EBS belongs to root, mode 755. kubelet gives it to the pod's fsGroup where one is stated; a user of one's own cannot make the first folder otherwise.",
        check=owners,
        sources=(
            "defilantech/LLMKube#418",
            "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/",
        ),
    ),
)
