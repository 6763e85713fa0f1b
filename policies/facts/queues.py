"""Reader of queues: KAI's Queue (scheduling.run.ai/v2) and Volcano's (scheduling.volcano.sh/v1beta1), and Gateway classes.

Units of KAI: GPUs, thousandths of a core, 10^6 bytes; -1 is unlimited (pkg/apis/scheduling/v2/queue_types.go, v0.17.0).
Volcano's are Kubernetes resource lists, where what is not named has no limit (pkg/apis/scheduling/v1beta1).
Not for: judging a queue.
"""

from __future__ import annotations

from .quantities import mapping, mib, milli, quantity, real, whole
from .records.stack import Queue
from .records.values import Values

_MEGABYTE, _MEBIBYTE = 10**6, 2**20
_GPU = "nvidia.com/gpu"


def read(manifest: Values) -> Queue | None:
    """The queue; None for any other object."""
    api = str(manifest.get("apiVersion", ""))
    if manifest.get("kind") != "Queue":
        return None
    if api.startswith("scheduling.run.ai/"):
        return _kai(manifest)
    if api.startswith("scheduling.volcano.sh/"):
        return _volcano(manifest)
    return None


def _names(manifest: Values) -> tuple[str, str]:
    name = str(mapping(manifest.get("metadata")).get("name", ""))
    return name, f"queue '{name}'"


def _kai(manifest: Values) -> Queue:
    name, where = _names(manifest)
    spec = mapping(manifest.get("spec"))
    resources = mapping(spec.get("resources"))

    def share(kind: str, part: str, unit: float = 1.0) -> float | None:
        stated = mapping(resources.get(kind))
        number = real(stated.get(part))
        if number is None:
            # docs/queues: an unset quota guarantees nothing. What an unset limit means, that page answers both ways.
            return 0.0 if stated and part == "quota" else None
        return number if number == -1 else number * unit

    memory = _MEGABYTE / _MEBIBYTE
    priority = whole(spec.get("priority"))
    return Queue(
        name=name,
        where=where,
        scheduler="kai",
        parent=str(spec["parentQueue"]) if spec.get("parentQueue") else None,
        gpu_quota=share("gpu", "quota"),
        gpu_limit=share("gpu", "limit"),
        cpu_quota=share("cpu", "quota"),
        cpu_limit=share("cpu", "limit"),
        memory_quota=share("memory", "quota", memory),
        memory_limit=share("memory", "limit", memory),
        priority=100 if priority is None else priority,
    )


def _volcano(manifest: Values) -> Queue:
    name, where = _names(manifest)
    spec = mapping(manifest.get("spec"))
    sure, most = mapping(spec.get("deserved")), mapping(spec.get("capability"))
    priority = whole(spec.get("priority"))
    return Queue(
        name=name,
        where=where,
        scheduler="volcano",
        parent=str(spec["parent"]) if spec.get("parent") else None,
        gpu_quota=quantity(sure.get(_GPU)),
        gpu_limit=quantity(most.get(_GPU)),
        cpu_quota=milli(sure.get("cpu")),
        cpu_limit=milli(most.get("cpu")),
        memory_quota=mib(sure.get("memory")),
        memory_limit=mib(most.get("memory")),
        capability=most,
        guarantee=mapping(mapping(spec.get("guarantee")).get("resource")),
        priority=100 if priority is None else priority,
    )


def gateway_class(manifest: Values) -> str | None:
    """Name of a GatewayClass; None for any other object."""
    if manifest.get("kind") != "GatewayClass":
        return None
    return str(mapping(manifest.get("metadata")).get("name", "")) or None
