"""What KubeRay's own validation refuses in a Ray cluster, said before it is applied.

The API server accepts these objects; the operator then stops reconciling them and writes an event. Source of every rule:
controllers/ray/utils/validation.go at v1.7.0. Not for: replica bounds (gang.py), upgrades (upgrade.py), names (names.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error

SOURCE = "kuberay v1.7.0: controllers/ray/utils/validation.go"
_EXCLUSIVE = ("num-cpus", "num-gpus", "memory", "resources")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_GO_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)(((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*)")


def cluster_spec(workload: Workload) -> Mapping[str, Any]:
    """The RayClusterSpec inside a workload's spec."""
    key = {"RayService": "rayClusterConfig", "RayJob": "rayClusterSpec"}.get(workload.kind)
    return mapping(workload.spec.get(key)) if key else mapping(workload.spec)


def ray_workloads(stack: Stack) -> Iterator[Workload]:
    """Workloads that KubeRay runs."""
    return (workload for workload in stack.workloads if workload.by_kuberay)


def resources_twice(stack: Stack) -> Iterator[Problem]:
    for workload in ray_workloads(stack):
        for group in workload.pod_groups:
            params = [name for name in _EXCLUSIVE if group.ray_start_params.get(name)]
            if params and group.resources:
                yield error(
                    group.where,
                    f"resources and rayStartParams {', '.join(params)} are both set; KubeRay takes one of them",
                    "move all of them to resources (CPU, GPU, memory and your own)",
                )


def labels(stack: Stack) -> Iterator[Problem]:
    for workload in ray_workloads(stack):
        for group in workload.pod_groups:
            if "labels" in group.ray_start_params:
                message = "rayStartParams.labels is refused by KubeRay"
                yield error(group.where, message, "use the group's own field `labels`")
        spec = cluster_spec(workload)
        head = [mapping(spec.get("headGroupSpec"))] if workload.head is not None else []
        raw = [*head, *map(mapping, items(spec.get("workerGroupSpecs")))]
        for group, given in zip(workload.pod_groups, raw, strict=False):
            for key, value in mapping(given.get("labels")).items():
                if not _LABEL_KEY.fullmatch(str(key)) or not _LABEL_VALUE.fullmatch(str(value)):
                    yield error(
                        group.where,
                        f"Ray label '{key}: {value}' has not the form of a Kubernetes label",
                        "use letters, digits, '-', '_' and '.', at most 63 of them",
                    )


def fault_tolerance(stack: Stack) -> Iterator[Problem]:
    for workload in ray_workloads(stack):
        head, options = workload.head, workload.fault_tolerance
        if head is None:
            continue
        annotations = workload.annotations
        annotated = str(annotations.get("ray.io/ft-enabled", "")).lower() == "true"
        if options is None:
            if "RAY_REDIS_ADDRESS" in head.env and not annotated:
                yield error(
                    head.where,
                    "RAY_REDIS_ADDRESS switches GCS fault tolerance on without gcsFaultToleranceOptions; KubeRay refuses it",
                    "set fault_tolerance: {backend: redis, redis_address: ...}",
                )
        else:
            yield from _exclusions(workload, head, options)
        if head.ray_start_params.get("redis-username") or "REDIS_USERNAME" in head.env:
            yield error(
                head.where,
                "the Redis user name is set beside gcsFaultToleranceOptions; KubeRay refuses it",
                "use gcsFaultToleranceOptions.redisUsername",
            )


def _exclusions(workload: Workload, head: PodGroup, options: Mapping[str, Any]) -> Iterator[Problem]:
    if workload.annotations.get("ray.io/ft-enabled"):
        yield error(
            workload.where,
            "annotation ray.io/ft-enabled and gcsFaultToleranceOptions are both set; KubeRay refuses it",
            "leave the annotation out",
        )
    if workload.annotations.get("ray.io/external-storage-namespace"):
        yield error(
            workload.where,
            "annotation ray.io/external-storage-namespace goes not with gcsFaultToleranceOptions; KubeRay refuses it",
            "use gcsFaultToleranceOptions.externalStorageNamespace",
        )
    for name in ("REDIS_PASSWORD", "RAY_REDIS_ADDRESS"):
        if name in head.env:
            yield error(
                head.where,
                f"{name} goes not with gcsFaultToleranceOptions; KubeRay refuses it",
                "use fault_tolerance.redis_password and redis_address",
            )
    if head.ray_start_params.get("redis-password"):
        yield error(
            head.where,
            "rayStartParams.redis-password goes not with gcsFaultToleranceOptions; KubeRay refuses it",
            "use fault_tolerance.redis_password",
        )
    redis = [
        k for k in ("redisAddress", "redisUsername", "redisPassword", "externalStorageNamespace") if options.get(k)
    ]
    if options.get("backend") == "rocksdb":
        if redis:
            yield error(
                workload.where, f"backend rocksdb takes no {', '.join(redis)}", "leave them out, or use backend redis"
            )
        storage = mapping(options.get("storage"))
        if storage.get("claimName") and any(storage.get(k) for k in ("size", "storageClassName", "accessModes")):
            yield error(
                workload.where,
                "storage.claimName goes not with size, storageClassName and accessModes",
                "keep one form",
            )
    else:
        if options.get("storage"):
            yield error(workload.where, "storage belongs to backend rocksdb", "leave it out, or use backend rocksdb")
        if not options.get("redisAddress"):
            yield error(
                workload.where,
                "fault tolerance by Redis has no address, so the head waits for a Redis that nobody names",
                "set fault_tolerance.redis_address",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kuberay-resources-twice",
        title="A group's resources are stated once",
        why="rayStartParams num-cpus, num-gpus, memory and resources say the same as the group's field resources. KubeRay refuses both, since they could differ.",
        check=resources_twice,
        sources=(SOURCE,),
    ),
    Rule(
        id="kuberay-labels",
        title="Ray labels are in the group's labels",
        why="KubeRay builds --labels itself from the field and refuses the parameter; keys and values must have the form of Kubernetes labels.",
        check=labels,
        sources=(SOURCE,),
    ),
    Rule(
        id="kuberay-fault-tolerance",
        title="Fault tolerance is configured in one place",
        why="Before gcsFaultToleranceOptions the same was set by annotation, environment and start parameters. KubeRay refuses mixtures.",
        check=fault_tolerance,
        sources=(SOURCE,),
    ),
)
