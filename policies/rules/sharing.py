"""One GPU for several pods, seen from the pool: which ways of sharing exist, exclude each other, and can grow.

Not for: pods on such pools (shared_pods.py), KAI's annotations (kai.py), or the device plugin's configuration (device_plugin.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog import gpus, mig
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._values import a

GPU, SHARED, VGPU = "nvidia.com/gpu", "nvidia.com/gpu.shared", "volcano.sh/vgpu-number"
ACCELERATOR = "k8s.amazonaws.com/accelerator"
STRATEGIES = ("none", "mig", "time_slicing", "mps", "kai", "volcano_vgpu")
# mig-parted names of configurations that are no single profile (MIG manager's generated config).
MIG_CONFIGS = ("all-balanced", "all-disabled", "all-enabled")
# Clients of one MPS server on Volta and newer (docs.nvidia.com/deploy/mps).
MPS_CLIENTS = 48


def profile_name(name: str) -> str:
    """ "all-1g.10gb", "nvidia.com/mig-1g.10gb" and "1g.10gb" are the profile "1g.10gb"."""
    return name.removeprefix("nvidia.com/mig-").removeprefix("all-")


def fields(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        sharing = pool.sharing
        if sharing.strategy not in STRATEGIES:
            yield error(
                pool.where,
                f"sharing '{sharing.strategy}' is unknown; allowed: {', '.join(STRATEGIES)}",
                "use one of them",
            )
            continue
        if sharing.strategy != "none" and not pool.gpus_per_node and pool.gpu is None and pool.cpu_milli is not None:
            yield error(pool.where, f"sharing is {sharing.strategy} and its nodes have no GPU", "leave sharing out")
            continue
        sliced = sharing.strategy in ("time_slicing", "mps")
        if sliced and (sharing.replicas or 0) < 2:
            yield error(
                pool.where,
                f"sharing {sharing.strategy} with replicas {sharing.replicas} shares nothing",
                "set sharing.replicas to 2 or more",
            )
        elif sharing.strategy == "mps" and (sharing.replicas or 0) > MPS_CLIENTS:
            yield error(
                pool.where,
                f"an MPS server takes {MPS_CLIENTS} clients and replicas is {sharing.replicas}",
                f"set sharing.replicas to at most {MPS_CLIENTS}",
            )
        if sharing.replicas and not sliced and sharing.strategy != "volcano_vgpu":
            yield error(
                pool.where,
                f"sharing.replicas {sharing.replicas} belongs to time_slicing or mps and sharing is {sharing.strategy}",
                "leave replicas out, or choose time_slicing or mps: a GPU is shared in one way only",
            )
        if sharing.mig_profile and sharing.strategy != "mig":
            yield error(
                pool.where,
                f"mig_profile '{sharing.mig_profile}' is given and sharing is {sharing.strategy}",
                "set sharing.strategy: mig, or leave mig_profile out: a GPU is shared in one way only",
            )
        if sharing.rename_by_default and sharing.strategy == "mps":
            yield error(pool.where, "MPS advertises nvidia.com/gpu and cannot rename it", "leave rename_by_default out")


def mig_profile(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        sharing = pool.sharing
        if sharing.strategy != "mig" or pool.gpu is None:
            continue
        try:
            gpu = gpus.get(pool.gpu)
        except UnknownRow:
            continue
        if gpu.name in mig.UNTRACED:
            continue
        if not gpu.mig_capable:
            yield error(
                pool.where,
                f"its {gpu.name} GPUs cannot be cut by MIG",
                "use time_slicing, mps or kai, or GPUs with MIG (A30, A100, H100, H200, B200, B300, GB200, RTX PRO 6000)",
            )
        elif sharing.mig_profile is None:
            yield error(
                pool.where, "sharing is mig and no profile is given", f"set sharing.mig_profile: {_profiles(gpu)}"
            )
        elif sharing.mig_profile in MIG_CONFIGS and (pool.ami_type or "").startswith("BOTTLEROCKET"):
            yield error(
                pool.where,
                f"'{sharing.mig_profile}' is a configuration of the GPU Operator's MIG manager, and Bottlerocket cuts GPUs by its own, into one profile",
                f"set sharing.mig_profile: {_profiles(gpu)}",
            )
        elif sharing.mig_profile in MIG_CONFIGS:
            if sharing.mig_profile == "all-balanced" and sharing.mig_strategy == "single":
                yield error(
                    pool.where,
                    "all-balanced makes slices of several sizes and mig_strategy single allows one: the device plugin advertises no GPU",
                    "set sharing.mig_strategy: mixed, or a single profile",
                )
        else:
            try:
                gpu.mig_profile(profile_name(sharing.mig_profile))
            except UnknownRow:
                yield error(
                    pool.where,
                    f"{a(gpu.name)} has no MIG profile '{sharing.mig_profile}'",
                    f"use one of {_profiles(gpu)}",
                )


def _profiles(gpu: gpus.Gpu) -> str:
    return ", ".join(profile.name for profile in gpu.mig_profiles)


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


def advertised(pool: NodePool) -> tuple[str, ...]:
    """Resource names of the pool's GPUs; () where that cannot be known (mixed MIG of several sizes)."""
    sharing = pool.sharing
    if sharing.strategy == "mig":
        if sharing.mig_strategy == "single":
            return (GPU,)
        name = profile_name(sharing.mig_profile or "")
        return (f"nvidia.com/mig-{name}",) if name and name not in ("balanced", "disabled", "enabled") else ()
    if sharing.strategy == "time_slicing":
        return (SHARED,) if sharing.rename_by_default else (GPU,)
    if sharing.strategy == "volcano_vgpu":
        return (VGPU,)
    return (GPU,)


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
        id="sharing-fields",
        title="A pool's GPUs are shared in one way",
        why=(
            "MIG, time-slicing, MPS, KAI fractions and Volcano vGPU exclude each other on one GPU: the device plugin takes time-slicing or MPS, not "
            "both, and counts of one say nothing to the other."
        ),
        check=fields,
        sources=("https://github.com/NVIDIA/k8s-device-plugin/tree/v0.20.0#shared-access-to-gpus",),
    ),
    Rule(
        id="sharing-mig-profile",
        title="The GPU can be cut into the profile",
        why=(
            "Profiles are a property of the GPU: an A100 40 GB has 1g.5gb, an H100 1g.10gb, an L4 none. With strategy single all slices of a node must be equal."
        ),
        check=mig_profile,
        sources=(
            "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html",
            "gpu-operator#518",
        ),
    ),
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
