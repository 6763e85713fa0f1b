"""One GPU for several pods, seen from the pool: which ways of sharing exist, exclude each other, and can grow.

Not for: pods on such pools (shared_pods.py), KAI's annotations (kai.py), or the device plugin's configuration (device_plugin.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog import gpus, mig
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error

from ._values import a

GPU, SHARED, VGPU = "nvidia.com/gpu", "nvidia.com/gpu.shared", "volcano.sh/vgpu-number"
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
        elif sharing.rename_by_default and not sliced:
            yield error(
                pool.where,
                f"rename_by_default is time_slicing's and sharing is {sharing.strategy}: nothing is renamed",
                "leave rename_by_default out",
            )


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
)
