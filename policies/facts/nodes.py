"""What the catalogs say of a pool's instance types, whoever declared the pool.

Whatever node comes must do: the least of the types for room, the dearest for cost, and a GPU only where all have the same.
Not for: judging types (policies/rules/pool_types.py), or what a config derives beside them (components/node_pools.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from policies.catalog import amis, gpus, instances
from policies.catalog.instances import Instance
from policies.catalog.lookup import UnknownRow

from .records.nodes import NodePool

Number = TypeVar("Number", int, float)


def rows(names: Iterable[str]) -> tuple[Instance, ...]:
    """Catalog rows; unknown names are left out."""
    found = []
    for name in names:
        try:
            found.append(instances.get(name))
        except UnknownRow:
            continue
    return tuple(found)


def hardware(types: Sequence[Instance], *, efa: bool = False) -> dict[str, Any]:
    """Fields of NodePool that follow from the types: gpu, gpus_per_node, gpu_mib, cpu_milli, memory_mib, architecture, ..."""
    if not types:
        return {}
    names = {row.gpu for row in types}
    gpu = next(iter(names)) if len(names) == 1 else None
    return {
        "gpu": gpu,
        "gpus_per_node": min(row.gpus for row in types),
        "gpu_mib": smallest_gpu(types)[1] if gpu else None,
        "cpu_milli": min(row.allocatable_cpu_millis for row in types),
        "memory_mib": min(row.allocatable_memory_mib for row in types),
        "architecture": types[0].architecture,
        "price_usd_hour": _most(row.usd_per_hour for row in types),
        "efa_declared_interfaces": _least(row.efa_interfaces for row in types) if efa else None,
    }


def smallest_gpu(types: Sequence[Instance]) -> tuple[str | None, int | None]:
    """Name and MiB of the GPU with the least memory among the types: what an engine must do with whichever comes."""
    sizes = [(_gpu_mib(row), row.gpu) for row in types if row.gpu]
    if not sizes:
        return None, None
    mib, name = min(sizes)
    return name, mib


def nvlink_between_nodes(pool: NodePool) -> bool:
    """Whether NVLink joins the pool's nodes to one another (GB200 NVL72), not only the GPUs of each."""
    try:
        return pool.gpus_per_node > 0 and gpus.get(pool.gpu or "").multi_node_nvlink
    except UnknownRow:
        return False


def nvme_gb(types: Sequence[Instance]) -> int | None:
    """Local NVMe storage of the type that has least; None where it is not traced."""
    return _least(row.nvme_gb for row in types)


def driver(ami_type: str | None) -> str | None:
    """Major version of the driver in an AMI type, as text."""
    if ami_type is None:
        return None
    try:
        row = amis.get(ami_type)
    except UnknownRow:
        return None
    return str(row.nvidia_driver) if row.nvidia_driver else None


def ami_name(system: str, types: Sequence[Instance]) -> str | None:
    """AMI type that Karpenter's alias or EKS's default means for the types: "al2023" -> AL2023_x86_64_NVIDIA for a GPU."""
    if not types:
        return None
    arm, gpu = types[0].architecture == "arm64", any(row.gpus for row in types)
    architecture = "ARM_64" if arm else "x86_64"
    if system == "al2023":
        return f"AL2023_{architecture}_{'NVIDIA' if gpu else 'STANDARD'}"
    if system == "bottlerocket":
        return f"BOTTLEROCKET_{architecture}{'_NVIDIA' if gpu else ''}"
    if system == "al2":
        return "AL2_x86_64_GPU" if gpu and not arm else f"AL2_{architecture}"
    return None


def _gpu_mib(row: Instance) -> int:
    """MiB of one GPU as its driver reports it; of a g6f or gr6f the part of the L4 that the node has."""
    gpu = gpus.get(row.gpu or "")
    whole = max(each.ec2_gpu_memory_mib for each in instances.gpu_instances(gpu.name))
    return gpu.memory_mib * row.ec2_gpu_memory_mib // whole


def _least(values: Iterable[Number | None]) -> Number | None:
    return min((value for value in values if value is not None), default=None)


def _most(values: Iterable[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)
