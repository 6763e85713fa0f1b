"""Tags that tell cluster-autoscaler what a node of an empty node group will be like. Pure.

Without them it cannot scale up from zero for a GPU, a label or a taint that it has never seen. Source: kubernetes/autoscaler,
cluster-autoscaler/cloudprovider/aws/README.md ("Auto-discovery setup", node-template tags) and aws_manager.go.
Karpenter needs none of this.
"""

from __future__ import annotations

from components.manifests.user_data import has_local_disks
from components.node_resources import GPU_RESOURCE, VGPU_MEMORY, extended_resources
from policies.facts import NodePool

PREFIX = "k8s.io/cluster-autoscaler/node-template"


def scale_from_zero_tags(pool: NodePool) -> dict[str, str]:
    """Tag key to value, sorted: labels, taints, and what pods can have on one node (CPU, memory, disk, GPUs, EFA)."""
    tags = {f"{PREFIX}/label/{key}": str(value) for key, value in pool.labels.items()}
    tags |= {f"{PREFIX}/taint/{taint.key}": f"{taint.value}:{taint.effect}" for taint in pool.taints}
    # The autoscaler takes capacity for allocatable: what the node keeps for itself must already be off.
    resources = {key: str(count) for key, count in extended_resources(pool).items()}
    if resources and pool.gpus_per_node:
        # What it knows of the instance type is whole GPUs, which a node that is cut or shared under another name has none of.
        resources.setdefault(GPU_RESOURCE, "0")
    if pool.sharing.strategy == "volcano_vgpu" and pool.gpu_mib:
        resources[VGPU_MEMORY] = str(pool.gpus_per_node * pool.gpu_mib)
    if pool.cpu_milli is not None:
        resources["cpu"] = f"{pool.cpu_milli}m"
    if pool.memory_mib is not None:
        resources["memory"] = f"{pool.memory_mib}Mi"
    disk = _disk(pool)
    if disk is not None:
        resources["ephemeral-storage"] = disk
    tags |= {f"{PREFIX}/resources/{key}": value for key, value in resources.items()}
    return dict(sorted(tags.items()))


def _disk(pool: NodePool) -> str | None:
    """Disk for images and pods, less the tenth that kubelet's hard eviction keeps (nodefs.available < 10 %)."""
    if has_local_disks(pool):
        return f"{int(pool.nvme_gb * 0.9)}G" if pool.nvme_gb else None
    return f"{int(pool.root_disk_gib * 0.9)}Gi" if pool.root_disk_gib else None
