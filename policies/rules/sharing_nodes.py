"""Sharing of GPUs against what places pods and makes nodes: the batch scheduler that does it, and the autoscaler that must know of it.

Not for: which ways of sharing exist and exclude each other (sharing.py), or KAI's annotations (kai.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from .sharing import GPU, advertised

ACCELERATOR = "k8s.amazonaws.com/accelerator"


def scheduler(stack: Stack) -> Iterator[Problem]:
    chosen = stack.batch_scheduler
    if chosen is None:
        return
    for pool in stack.pools:
        strategy = pool.sharing.strategy
        if strategy == "kai" and chosen != "kai":
            yield error(
                pool.where,
                f"sharing kai is done by the KAI scheduler and the batch scheduler is {chosen}",
                "set software.batch_scheduler: kai, or share by mig, time_slicing or mps",
            )
        elif strategy == "volcano_vgpu" and chosen != "volcano":
            yield error(
                pool.where,
                f"sharing volcano_vgpu is done by Volcano's deviceshare plugin and the batch scheduler is {chosen}",
                "set software.batch_scheduler: volcano, or share by mig, time_slicing or mps",
            )
        elif strategy == "volcano_vgpu" and (pool.ami_type or "").startswith("BOTTLEROCKET"):
            yield error(
                pool.where,
                "Bottlerocket runs NVIDIA's device plugin itself, beside Volcano's: each hands out the same GPUs without knowing of the other",
                "use an AL2023 AMI type, or share by mig, time_slicing or mps",
            )
        elif strategy in ("time_slicing", "mps") and chosen == "kai":
            yield warning(
                pool.where,
                f"KAI counts nvidia.com/gpu as whole devices and knows nothing of {strategy} replicas: queues are charged "
                f"{pool.sharing.replicas or 1} times the GPUs",
                "use sharing kai on this pool, or place its services by the default scheduler",
            )


def autoscaled(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        sharing = pool.sharing
        grows = pool.kind in ("managed", "karpenter") and stack.autoscaler in (None, "karpenter", "cluster_autoscaler")
        if sharing.strategy == "mig" and sharing.mig_strategy == "mixed" and pool.kind == "karpenter":
            yield error(
                pool.where,
                "Karpenter knows GPUs as nvidia.com/gpu and starts no node for nvidia.com/mig-*",
                "use mig_strategy single, or a managed node group with min nodes",
            )
        elif sharing.strategy == "mig" and grows and pool.min == 0 and pool.max != 0 and not _announced(stack, pool):
            yield warning(
                pool.where,
                "it scales from zero and its GPUs become MIG slices after a node is up: the node autoscaler plans with whole GPUs and may start "
                "too many nodes, or none",
                "set min: 1"
                if pool.kind == "karpenter" or not advertised(pool)
                else f"set min: 1, or tag its Auto Scaling group k8s.io/cluster-autoscaler/node-template/resources/{advertised(pool)[0]}",
            )
        elif sharing.strategy in ("time_slicing", "mps") and pool.kind == "karpenter":
            yield warning(
                pool.where,
                f"Karpenter plans with {pool.gpus_per_node or 'the'} physical GPUs a node and knows nothing of {sharing.replicas} {sharing.strategy.replace('_', '-')} "
                "replicas: it starts more nodes than are needed",
                "use a managed node group for shared GPUs",
            )
        elif sharing.strategy == "volcano_vgpu" and pool.kind == "karpenter":
            yield error(
                pool.where,
                "Karpenter knows GPUs as nvidia.com/gpu and starts no node for volcano.sh/vgpu-number",
                "use a managed node group",
            )
        if pool.kind == "managed" and stack.autoscaler == "cluster_autoscaler" and ACCELERATOR in pool.labels:
            yield from _never_ready(pool)


def _announced(stack: Stack, pool: NodePool) -> bool:
    """Whether tags tell cluster-autoscaler what a node will advertise; what they say replaces what it knows of the instance type
    (cloudprovider/aws/aws_manager.go buildNodeFromTemplate)."""
    names = advertised(pool)
    return pool.kind == "managed" and bool(names) and set(names) <= set(pool.announced)


def _never_ready(pool: NodePool) -> Iterator[Problem]:
    names = advertised(pool)
    if names and GPU not in names:
        yield error(
            pool.where,
            f"its nodes carry {ACCELERATOR} and advertise {', '.join(names)} instead of {GPU}: cluster-autoscaler takes them for nodes whose driver is not up yet, "
            "for ever",
            f"leave the label {ACCELERATOR} out",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="sharing-scheduler",
        title="Sharing by a scheduler needs that scheduler",
        why=(
            "KAI reads fractions from annotations and Volcano vGPU from its own resources; the default scheduler knows neither. The reverse holds too: KAI "
            "counts nvidia.com/gpu as whole devices."
        ),
        check=scheduler,
        sources=(
            "KAI-Scheduler v0.17.0: pkg/scheduler (no handling of replicas)",
            "https://github.com/Project-HAMi/volcano-vgpu-device-plugin",
        ),
    ),
    Rule(
        id="sharing-autoscaler",
        title="The node autoscaler knows the shared resource",
        why=(
            "An autoscaler simulates a node that does not exist yet. It knows the instance's physical GPUs, not what the device plugin or the MIG manager makes "
            "of them minutes later, unless tags of the Auto Scaling group tell it (which this stack writes for managed pools)."
        ),
        check=autoscaled,
        sources=(
            "gpu-operator#693",
            "gpu-operator#1602",
            "k8s-device-plugin#1690",
            "autoscaler: cluster-autoscaler/cloudprovider/aws/aws_manager.go, processors/customresources/gpu_processor.go",
        ),
    ),
)
