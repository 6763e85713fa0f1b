"""What pods run and may do on their node: pinned images, no privilege, no node namespaces.

Not for: secrets (secrets.py), or who can reach the pods (exposure.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from policies.facts import Object, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

# Tags that move: the image behind them tomorrow is another one.
_MOVING = re.compile(r"(latest|nightly|main|master|dev|edge|stable|head|canary)([-.].*)?", re.IGNORECASE)
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_ONCE = ("CronJob", "Job", "Pod")
_TPU = "google.com/tpu"
_WORKLOAD_KINDS = ("Pod", "Deployment", "StatefulSet", "Job", "CronJob", "ReplicaSet")


def unpinned(image: str) -> str | None:
    """Why an image reference is not pinned; None when it is."""
    if _DIGEST.search(image) or not image:
        return None
    name = image.rsplit("/", 1)[-1]
    if ":" not in name:
        return "has no tag, which means latest"
    tag = name.split(":", 1)[1]
    if not tag:
        return "has an empty tag"
    return f"has tag '{tag}', which moves" if _MOVING.fullmatch(tag) else None


def _pods(stack: Stack) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """(place, pod spec, whether it serves or has GPUs) of every workload and of objects that run pods."""
    for workload in stack.workloads:
        for group in workload.pod_groups:
            if group.pod:
                yield group.where, mapping(group.pod), True
    for item in stack.of_kind(*_WORKLOAD_KINDS):
        yield item.where, _pod(item), False


def _pod(item: Object) -> Mapping[str, Any]:
    """Pod spec of an object that runs pods."""
    spec = item.spec
    if item.kind == "Pod":
        return spec
    if item.kind == "CronJob":
        spec = mapping(mapping(spec.get("jobTemplate")).get("spec"))
    return mapping(mapping(spec.get("template")).get("spec"))


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping(c) for key in ("containers", "initContainers", "ephemeralContainers") for c in items(pod.get(key))]


def images(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            seen = {str(c.get("image", "")) for c in _containers(mapping(group.pod))} or {group.image}
            main = str(group.main_container.get("image") or group.image)
            serves = workload.by_kuberay or bool(workload.engines) or workload.kind not in _ONCE
            for image in sorted(seen):
                severity = error if serves and image == main else warning
                yield from _image(
                    group.where, image, "head and workers" if workload.by_kuberay else "its pods", severity
                )
    known = {id(w.manifest) for w in stack.workloads}
    for item in stack.of_kind(*_WORKLOAD_KINDS):
        if id(item.manifest) not in known:
            for image in sorted({str(c.get("image", "")) for c in _containers(_pod(item))}):
                yield from _image(item.where, image, "its pods", warning)


def _image(where: str, image: str, pods: str, severity: Callable[..., Problem]) -> Iterator[Problem]:
    """A job, a helper or a page in front of the model works with another build; engines that share a cache or a world may not."""
    reason = unpinned(image)
    if reason is not None:
        yield severity(
            where,
            f"image '{image}' {reason}: {pods} may run different builds after a restart",
            "pin a version tag or a digest (image.tag, image.digest)",
        )


def same_image(stack: Stack) -> Iterator[Problem]:
    """Head and workers of one Ray cluster from images that only differ in registry or tag are judged by the versions' rules."""
    for workload in stack.workloads:
        always = [
            g
            for g in workload.pod_groups
            if g.image_pull_policy == "Never" and "/" in g.image and "." in g.image.split("/")[0]
        ]
        if always and stack.cluster == "aws":
            yield warning(
                always[0].where,
                f"imagePullPolicy Never with registry image '{always[0].image}': new nodes have no copy and never get one",
                "use IfNotPresent",
            )


def privileged(stack: Stack) -> Iterator[Problem]:
    for where, pod, serves in _pods(stack):
        for container in _containers(pod):
            security = mapping(container.get("securityContext"))
            if security.get("privileged") is True:
                tpu = _TPU in mapping(mapping(container.get("resources")).get("limits"))
                yield (error if serves and not tpu else warning)(
                    where,
                    f"container '{container.get('name')}' is privileged: it is root on the node and on every GPU of it",
                    "leave privileged out"
                    + (
                        " where the device plugin gives it its TPUs"
                        if tpu
                        else "; GPUs, EFA and shared memory need none"
                    ),
                )
            added = {str(c).upper() for c in items(mapping(security.get("capabilities")).get("add"))}
            strong = added & {"ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "NET_ADMIN"}
            if strong:
                yield warning(
                    where,
                    f"container '{container.get('name')}' adds capabilities {', '.join(sorted(strong))}",
                    "add only what it uses (EFA and locked memory need IPC_LOCK)",
                )


def node_namespaces(stack: Stack) -> Iterator[Problem]:
    for where, pod, serves in _pods(stack):
        if pod.get("hostNetwork") is True:
            yield warning(
                where,
                "hostNetwork puts its ports on the node's address: two Ray pods of one node collide, and dashboard and client ports are as open as the node",
                "leave hostNetwork out; EFA works from pod networks",
            )
        for key in ("hostPID", "hostIPC"):
            if pod.get(key) is True:
                yield warning(where, f"{key} shares the node's {key[4:]} namespace with the pod", f"leave {key} out")
        for volume in map(mapping, items(pod.get("volumes"))):
            path = str(mapping(volume.get("hostPath")).get("path", ""))
            if _takes_over(path, _only_read(pod, str(volume.get("name")))):
                yield (error if serves else warning)(
                    where,
                    f"volume '{volume.get('name')}' mounts {path} of the node, from where the node can be taken over",
                    "use an emptyDir, a claim, or a folder of its own",
                )


# Folders from which a pod becomes root of its node, whole or in part. /root/.cache and /root/models hold weights in many guides.
_WHOLE = ("/", "/etc", "/home", "/root", "/run", "/usr", "/var", "/var/lib", "/var/run")
_KEYS = ("/root/.aws", "/root/.docker", "/root/.kube", "/root/.ssh")
_RUNTIME = ("/run/containerd", "/run/docker.sock", "/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet")
_PRIVATE = (*_KEYS, *_RUNTIME, "/etc/cni", "/etc/kubernetes", "/etc/shadow", "/etc/ssh")
_CLOCK = ("/etc/localtime", "/etc/timezone")
_WRITTEN = (*_PRIVATE, "/boot", "/etc", "/proc")  # read-only, time zones and certificates of /etc harm nobody


def _takes_over(path: str, read_only: bool) -> bool:
    given = (path.rstrip("/") or path).replace("/var/run/", "/run/")
    kept = _PRIVATE if read_only else _WRITTEN
    return given in _WHOLE or (
        given not in _CLOCK and any(given == each or given.startswith(f"{each}/") for each in kept)
    )


def _only_read(pod: Mapping[str, Any], volume: str) -> bool:
    """Whether each container that mounts the volume mounts it read-only."""
    mounts = [mapping(mount) for container in _containers(pod) for mount in items(container.get("volumeMounts"))]
    return all(mount.get("readOnly") is True for mount in mounts if mount.get("name") == volume)


RULES: tuple[Rule, ...] = (
    Rule(
        id="security-image-pinned",
        title="Images are pinned",
        why=(
            "A tag that moves gives another build to every pod that starts later. Head and workers of a Ray cluster must have the same Ray and Python, to the patch."
        ),
        check=images,
        sources=("kuberay#1265",),
    ),
    Rule(
        id="security-image-pull",
        title="New nodes can get the image",
        why="With pull policy Never only images that are on the node already are used; nodes that an autoscaler starts have none.",
        check=same_image,
    ),
    Rule(
        id="security-privileged",
        title="No privileged pods",
        why="A serving pod runs code and weights from elsewhere. Privilege makes a flaw in them a flaw of the node; nothing in serving needs it.",
        check=privileged,
        sources=("https://kubernetes.io/docs/concepts/security/pod-security-standards/",),
    ),
    Rule(
        id="security-node-namespaces",
        title="Pods stay out of the node's namespaces and folders",
        why="Host networking, process and IPC namespaces and mounts of the node's system folders undo the isolation between services.",
        check=node_namespaces,
        sources=("https://kubernetes.io/docs/concepts/security/pod-security-standards/",),
    ),
)
