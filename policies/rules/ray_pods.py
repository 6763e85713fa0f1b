"""Ray pods as KubeRay, Ray's autoscaler and Kueue make something of them: commands before `ray start`, CPUs, queues.

Not for: parameters of `ray start` (ray_start.py), or KubeRay's own validation (kuberay_cluster.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import PodGroup, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import before

_RAY = ("RayService", "RayCluster", "RayJob")
_OVERWRITE = "ray.io/overwrite-container-cmd"
_FOREVER = re.compile(r"\b(sleep\s+(inf|infinity)\b|tail\s+-[fF]\b|while\s+(true|:)|wait\s*$)")
_QUEUE, _ELASTIC = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/elastic-job"
_REQUESTS_SINCE = "2.41"  # ray PR#49613: before, limits alone


def commands(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind not in _RAY:
            continue
        for group in workload.pod_groups:
            text = _command(group)
            if not text or str(group.annotations.get(_OVERWRITE, "")).casefold() == "true" or "ray start" in text:
                continue
            if _FOREVER.search(text):
                yield error(
                    group.where,
                    f"its container runs '{text[:80]}': KubeRay puts `ray start` behind it with &&, so that Ray never starts",
                    f'leave command and args out, end the command, or set annotation {_OVERWRITE}: "true" and start Ray with $KUBERAY_GEN_RAY_START_CMD',
                )


def _command(group: PodGroup) -> str:
    first = group.main_container
    return " ".join(str(word) for key in ("command", "args") for word in items(first.get(key))).strip()


def processors(stack: Stack) -> Iterator[Problem]:
    """CPUs of each group as Ray's autoscaler reads them; without them it ends with an error, again and again."""
    for workload in stack.workloads:
        if workload.kind not in _RAY or not workload.autoscaling:
            continue
        for group in workload.pod_groups:
            stated = "CPU" in group.resources or "num-cpus" in group.ray_start_params
            only_requests = before(workload.ray_version, _REQUESTS_SINCE)
            if stated or not group.pod or "cpu" in group.limits or ("cpu" in group.requests and not only_requests):
                continue
            what = (
                "no CPU limit, which this Ray's autoscaler needs" if only_requests else "neither CPU limit nor request"
            )
            yield error(
                group.where,
                f"it states {what}: Ray's autoscaler ends with 'failed to detect CPU resources', and nothing is ever scaled",
                "set CPU request and limit, or rayStartParams num-cpus",
            )


def kueue(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind not in _RAY or _QUEUE not in workload.labels:
            continue
        if workload.autoscaling and str(workload.annotations.get(_ELASTIC, "")).casefold() != "true":
            yield error(
                workload.where,
                f"Kueue manages it ({_QUEUE}) and Ray's autoscaler is on: Kueue's webhook refuses it, or it stays suspended",
                f'turn the autoscaler off, or annotate {_ELASTIC}: "true" with Kueue\'s gate ElasticJobsViaWorkloadSlices on',
            )
        if workload.kind == "RayJob" and workload.spec.get("shutdownAfterJobFinishes") is not True:
            yield error(
                workload.where,
                "Kueue manages it and shutdownAfterJobFinishes is not true: Kueue refuses a job that keeps its quota",
                "set shutdownAfterJobFinishes: true",
            )
        if workload.kind == "RayJob" and workload.spec.get("clusterSelector"):
            yield error(
                workload.where,
                "Kueue manages it and it runs on a cluster that is there: Kueue refuses it",
                "leave the queue's label out, or clusterSelector",
            )


def shared_memory_on_disk(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind not in _RAY and not workload.engines:
            continue
        for group in workload.pod_groups:
            first = group.main_container
            names = {
                str(mapping(m).get("name"))
                for m in items(first.get("volumeMounts"))
                if str(mapping(m).get("mountPath", "")).rstrip("/") == "/dev/shm"
            }
            for volume in map(mapping, items(group.pod.get("volumes"))):
                if (
                    str(volume.get("name")) in names
                    and "emptyDir" in volume
                    and mapping(volume["emptyDir"]).get("medium") != "Memory"
                ):
                    yield warning(
                        group.where,
                        f"volume '{volume.get('name')}' at /dev/shm is an emptyDir without medium: Memory: shared memory of workers is on the node's disk",
                        "set emptyDir: {medium: Memory, sizeLimit: ...}",
                    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="ray-pod-command",
        title="A command before `ray start` ends",
        why=(
            "KubeRay starts Ray behind the container's own command, joined by &&. A command that waits keeps the pod running and Ray away; workers wait for a head that is none."
        ),
        check=commands,
        sources=("kuberay PR#675", "kuberay#651", "kuberay v1.7.0: controllers/ray/common/pod.go BuildPod"),
    ),
    Rule(
        id="ray-autoscaler-cpu",
        title="Ray's autoscaler knows the CPUs of every group",
        why="It reads CPUs from the group's resources, num-cpus, limits, and since Ray 2.41 requests. A group without any of them ends it at its start, for the whole cluster.",
        check=processors,
        sources=("kuberay#2612", "ray PR#49613", "ray 2.60.0: autoscaler/_private/kuberay/autoscaling_config.py"),
    ),
    Rule(
        id="ray-kueue",
        title="What Kueue manages keeps its size and ends",
        why=(
            "Kueue reserves quota for a cluster as it is declared. It refuses Ray's autoscaler unless the object is an elastic job, and jobs whose cluster stays or is another's."
        ),
        check=kueue,
        sources=(
            "kubernetes-sigs/kueue PR#13996",
            "project-codeflare/codeflare-sdk PR#1076",
            "https://kueue.sigs.k8s.io/docs/tasks/run/rayjobs/",
        ),
    ),
    Rule(
        id="network-shm-disk",
        title="/dev/shm is memory",
        why="An emptyDir is on the node's disk unless its medium is Memory. Tensors that workers exchange over it are then written to disk, and Ray warns that its object store is slow.",
        check=shared_memory_on_disk,
        sources=("https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",),
    ),
)
