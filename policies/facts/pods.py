"""Reader of pod templates: one Ray head, worker group or Deployment becomes a PodGroup."""

from __future__ import annotations

import re
from typing import Any

from .quantities import items, mapping, mib, milli, quantity, whole
from .records.nodes import Toleration
from .records.values import Values
from .records.workloads import PodGroup, SecretRef

# What KubeRay takes for a GPU (controllers/ray/utils/resources.go) and the shared forms that it does not see.
_GPU_KEY = re.compile(r"(gpu$)|(^nvidia\.com/mig-)|(gpu\.shared$)|(vgpu-number$)")
NOT_GPUS = ("volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores")


def read(
    template: Values,
    *,
    name: str,
    where: str,
    head: bool = False,
    group: Values | None = None,
    ray_start_params: Values | None = None,
    resources: Values | None = None,
) -> PodGroup:
    """Read `template` (metadata and spec of a pod). `group` is the worker group around it."""
    metadata, spec = mapping(template.get("metadata")), mapping(template.get("spec"))
    containers = [mapping(c) for c in items(spec.get("containers"))]
    main = containers[0] if containers else {}
    limits = mapping(mapping(main.get("resources")).get("limits"))
    requests = mapping(mapping(main.get("resources")).get("requests"))
    gpu_resource = next((key for key in limits if _GPU_KEY.search(key) and key not in NOT_GPUS), None)
    asking = sum(
        1 for c in containers if any(_GPU_KEY.search(k) for k in mapping(mapping(c.get("resources")).get("limits")))
    )
    around = group or {}
    shm, host_shm = _shm(spec, main)
    cpu = milli(limits.get("cpu"))
    cpu_request = milli(requests.get("cpu"))
    memory = mib(limits.get("memory"))
    security = [mapping(c.get("securityContext")) for c in containers]
    return PodGroup(
        name=name,
        where=where,
        head=head,
        min=whole(around.get("minReplicas")),
        replicas=whole(around.get("replicas")),
        max=whole(around.get("maxReplicas")),
        hosts=whole(around.get("numOfHosts")) or 1,
        image=str(main.get("image", "")),
        cpu_milli=cpu_request if cpu_request is not None else cpu,
        cpu_limit_milli=cpu,
        memory_mib=memory if memory is not None else mib(requests.get("memory")),
        limits=limits,
        requests=requests,
        gpu_resource=gpu_resource,
        gpus=(quantity(limits.get(gpu_resource)) or 0.0) if gpu_resource else 0.0,
        gpu_containers=asking,
        ray_start_params=mapping(ray_start_params),
        resources=mapping(resources),
        env=environment(main),
        labels=mapping(metadata.get("labels")),
        annotations=mapping(metadata.get("annotations")),
        node_selector=mapping(spec.get("nodeSelector")),
        tolerations=tuple(
            Toleration(
                key=str(t.get("key") or ""),
                operator=str(t.get("operator") or "Equal"),
                value=str(t.get("value") or ""),
                effect=str(t.get("effect") or ""),
            )
            for t in map(mapping, items(spec.get("tolerations")))
        ),
        restart_policy=spec.get("restartPolicy"),
        service_links=spec.get("enableServiceLinks"),
        scheduler_name=spec.get("schedulerName"),
        runtime_class=spec.get("runtimeClassName"),
        service_account=spec.get("serviceAccountName"),
        priority_class=spec.get("priorityClassName"),
        privileged=any(s.get("privileged") is True for s in security),
        host_network=spec.get("hostNetwork") is True,
        shm_mib=shm,
        liveness_probe=main.get("livenessProbe"),
        readiness_probe=main.get("readinessProbe"),
        startup_probe=main.get("startupProbe"),
        idle_timeout_seconds=whole(around.get("idleTimeoutSeconds")),
        image_pull_policy=main.get("imagePullPolicy"),
        termination_grace_seconds=whole(spec.get("terminationGracePeriodSeconds")),
        hugepages=any(str(k).startswith("hugepages-") for k in limits),
        host_shm=host_shm,
        pod=spec,
    )


def environment(container: Values) -> dict[str, str | SecretRef]:
    """Environment of a container; a value from a Secret is a SecretRef, one from elsewhere is left out."""
    env: dict[str, str | SecretRef] = {}
    for entry in map(mapping, items(container.get("env"))):
        name = str(entry.get("name", ""))
        ref = mapping(mapping(entry.get("valueFrom")).get("secretKeyRef"))
        if ref:
            env[name] = SecretRef(secret=str(ref.get("name", "")), key=str(ref.get("key", "")))
        elif "value" in entry:
            env[name] = str(entry["value"])
    return env


def _shm(spec: Values, main: Values) -> tuple[int | None, bool]:
    """(MiB of a memory-backed /dev/shm declared by hand, whether it is the host's)."""
    name = next(
        (m.get("name") for m in map(mapping, items(main.get("volumeMounts"))) if m.get("mountPath") == "/dev/shm"), None
    )
    if name is None:
        return None, False
    for volume in map(mapping, items(spec.get("volumes"))):
        if volume.get("name") == name:
            if "hostPath" in volume:
                return None, True
            empty = mapping(volume.get("emptyDir"))
            if empty.get("medium") == "Memory":
                return mib(empty.get("sizeLimit")), False
    return None, False


def ints(value: Any, default: int) -> int:
    """A whole number or the default."""
    number = whole(value)
    return default if number is None else number
