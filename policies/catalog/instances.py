"""EC2 instance types that node pools can use: look-up by name, and the GPU memory that an engine really gets.

For: pools, packing, price, quotas. Not for: what a GPU computes with (see gpus.py), or AMIs (see amis.py).
"""

from policies.catalog import gpus
from policies.catalog.ec2_cpu_types import CPU_TYPES
from policies.catalog.ec2_gpu_types import GPU_TYPES
from policies.catalog.instance_row import Instance
from policies.catalog.lookup import lookup

__all__ = ["INSTANCES", "NAMES", "Instance", "get", "gpu_instances", "gpu_of", "usable_gpu_memory_mib"]

INSTANCES: tuple[Instance, ...] = (*GPU_TYPES, *CPU_TYPES)
_BY_NAME = {row.name: row for row in INSTANCES}
NAMES: tuple[str, ...] = tuple(_BY_NAME)


def get(name: str) -> Instance:
    """The instance type called `name`, exactly as EC2 spells it in lower case; UnknownRow with close names otherwise."""
    return lookup("instance type", name, _BY_NAME, NAMES)


def gpu_instances(gpu: str | None = None) -> tuple[Instance, ...]:
    """Types that have GPUs (of the catalog's GPU name `gpu` if given), in the catalog's order."""
    return tuple(row for row in GPU_TYPES if gpu is None or row.gpu == gpu)


def gpu_of(instance: Instance) -> gpus.Gpu | None:
    """The GPU row of an instance type, None for a type without GPU."""
    return None if instance.gpu is None else gpus.get(instance.gpu)


def usable_gpu_memory_mib(instance: Instance) -> int:
    """MiB that a process sees on one GPU of `instance` (0 for a type without GPU).

    A whole GPU: cuda_memory_mib of its row. A part of one (g6f, gr6f): that part of it, by EC2's own ratio.
    """
    gpu = gpu_of(instance)
    if gpu is None:
        return 0
    whole = max(row.ec2_gpu_memory_mib for row in GPU_TYPES if row.gpu == gpu.name)
    return gpu.cuda_memory_mib * instance.ec2_gpu_memory_mib // whole
