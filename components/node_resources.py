"""What a node advertises to the scheduler beside CPU and memory: GPUs as its pool shares them, and EFA interfaces. Pure.

For: scale-from-zero tags, simulated nodes, capacity. Not for: what a pod asks (the plan derives that).
"""

from __future__ import annotations

from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool

GPU_RESOURCE = "nvidia.com/gpu"
EFA_RESOURCE = "vpc.amazonaws.com/efa"
VGPU_RESOURCE = "volcano.sh/vgpu-number"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_PER_GPU = 10
"""Pods that may share a GPU under Volcano's device plugin when the pool does not say (its --device-split-count default)."""


def extended_resources(pool: NodePool) -> dict[str, int]:
    """Resource name to count on one node: {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}.

    A MIG configuration that is no single profile of the GPU (such as all-balanced) is left out: what it advertises depends
    on the GPU's own table in the MIG manager.
    """
    found = {}
    resource, count = _gpu_resource(pool)
    if resource is not None and count:
        found[resource] = count
    if pool.efa and pool.efa_declared_interfaces:
        found[EFA_RESOURCE] = pool.efa_declared_interfaces
    return found


def _gpu_resource(pool: NodePool) -> tuple[str | None, int]:
    sharing = pool.sharing
    match sharing.strategy:
        case "time_slicing" | "mps":
            name = GPU_RESOURCE + ".shared" if sharing.rename_by_default else GPU_RESOURCE
            return name, pool.gpus_per_node * (sharing.replicas or 1)
        case "volcano_vgpu":
            return VGPU_RESOURCE, pool.gpus_per_node * (sharing.replicas or VGPU_PER_GPU)
        case "mig":
            try:
                profile = gpus.get(pool.gpu or "").mig_profile((sharing.mig_profile or "").removeprefix("all-"))
            except UnknownRow:
                return None, 0
            name = GPU_RESOURCE if sharing.mig_strategy == "single" else f"nvidia.com/mig-{profile.name}"
            return name, pool.gpus_per_node * profile.max_instances
        case _:  # whole GPUs; KAI divides them itself
            return GPU_RESOURCE, pool.gpus_per_node
