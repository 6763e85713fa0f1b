"""Node pools as the plan sees them: what the config says of a pool joined with what the catalogs say of its nodes.

For: the plan, the rules, the preflight checks and the components that make the pools, which all read the same records.
Not for: judging a pool. What cannot be known (an instance type that is in no catalog) is left None, and the rules say so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from components.config import AwsCluster, AwsPool, Environment, ExistingPool, GpuSharing
from components.config import Taint as ConfigTaint
from components.config.pools import POOL_LABEL, Pool
from components.node_disks import DiskNeeds, disk_needs, root_disk_gib
from components.node_resources import GPU_RESOURCE, extended_resources
from policies.catalog import amis, gpus
from policies.catalog.instances import Instance
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Sharing, Taint, nodes

Row = TypeVar("Row")

GPU_TAINT = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
"""Taint of GPU nodes: the key that GPU Operator and device plugin tolerate (NVIDIA/k8s-device-plugin#1934)."""
DEVICE_PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""Label with which a node picks its entry of the device plugin's ConfigMap; its value is the pool's name."""
MIG_CONFIG_LABEL = "nvidia.com/mig.config"
"""Label with which a node tells the MIG manager how to cut its GPUs; its value is a mig-parted configuration."""
DEPLOY_DEVICE_PLUGIN_LABEL = "nvidia.com/gpu.deploy.device-plugin"
DEPLOY_MIG_MANAGER_LABEL = "nvidia.com/gpu.deploy.mig-manager"
"""Labels that keep the GPU Operator's own device plugin and MIG manager off a node when they are "false" (gpu-operator v26.7.0:
controllers/state_manager.go adds the missing ones as "true" and leaves the others alone)."""
ACCELERATOR_LABEL = "k8s.amazonaws.com/accelerator"
"""Label by which cluster-autoscaler knows a node that will have nvidia.com/gpu and whose device plugin is not up yet; without it,
it adds another node (kubernetes/autoscaler, cloudprovider/aws: GPULabel)."""

_PLUGIN_CONFIGURED = frozenset({"time_slicing", "mps", "mig"})


def resolve(env: Environment) -> tuple[NodePool, ...]:
    """All pools of the environment, sorted by name. Never raises: unknown types, GPUs and AMIs leave None."""
    needs = disk_needs(env)
    return tuple(_resolve(name, pool, env, needs) for name, pool in sorted(env.node_pools.items()))


def node_selector(pool: NodePool) -> Mapping[str, str]:
    """Labels that select the pool's nodes and no others: its own label, or what the config states of existing nodes."""
    if POOL_LABEL in pool.labels:
        return {POOL_LABEL: pool.name}
    return {key: str(value) for key, value in sorted(pool.labels.items())}


def cluster_zones(env: Environment) -> tuple[str, ...]:
    """Zones with private subnets: those stated, else a, b and c of the region; () outside AWS."""
    cluster = env.cluster
    if not isinstance(cluster, AwsCluster):
        return ()
    if cluster.network.vpc_id is not None:
        return tuple(dict.fromkeys(cluster.network.zones))
    return cluster.network.zones or tuple(cluster.region + letter for letter in "abc")


def node_autoscaler(env: Environment) -> str:
    """none, karpenter or cluster_autoscaler: as stated; else Karpenter for a pool of its own, else the other if one may grow."""
    stated = env.software.autoscaler.kind
    if stated is not None:
        return stated
    pools = [pool for pool in env.node_pools.values() if isinstance(pool, AwsPool)]
    if any(pool.kind == "karpenter" for pool in pools):
        return "karpenter"
    grows = isinstance(env.cluster, AwsCluster) and any(pool.max > pool.min for pool in pools)
    return "cluster_autoscaler" if grows else "none"


def mig_config(profile: str) -> str:
    """The mig-parted configuration for a profile: "1g.10gb" -> "all-1g.10gb"; a configuration's own name stays."""
    return f"all-{profile}" if profile[:1].isdigit() else profile


def _resolve(name: str, pool: Pool, env: Environment, needs: DiskNeeds) -> NodePool:
    return _existing(name, pool) if isinstance(pool, ExistingPool) else _aws(name, pool, env, needs)


def _existing(name: str, pool: ExistingPool) -> NodePool:
    gpu = _row(gpus.get, pool.gpu)
    selector = pool.node_selector if pool.node_selector is not None else {POOL_LABEL: name}
    return NodePool(
        name=name,
        where=f"node pool '{name}'",
        kind="existing",
        gpu=gpu.name if gpu else pool.gpu,
        gpus_per_node=pool.gpus_per_node,
        gpu_mib=gpu.memory_mib if gpu else None,
        cpu_milli=round(pool.cpu * 1000),
        memory_mib=math.floor(pool.memory_gib * 1024),
        min=pool.min,
        max=pool.max,
        spot=pool.spot,
        driver_version=pool.driver_version,
        efa=pool.efa,
        taints=_taints(pool.taints, has_gpu=pool.gpus_per_node > 0),
        labels=dict(sorted({**pool.labels, **selector}.items())),
        sharing=_sharing(pool.sharing),
        architecture=pool.architecture,
        price_usd_hour=pool.price_usd_hour,
    )


def _aws(name: str, pool: AwsPool, env: Environment, needs: DiskNeeds) -> NodePool:
    rows = nodes.rows(pool.instance_types)
    gpu, gpu_mib = nodes.smallest_gpu(rows)
    architecture = rows[0].architecture if rows else _architecture(pool.instance_types[0])
    ami_type = pool.ami or ("CUSTOM" if pool.ami_id else nodes.ami_name("al2023", rows) or _plain_ami(architecture))
    ami = _row(amis.get, ami_type)
    has_gpu = bool(rows) and rows[0].gpus > 0
    nvme = nodes.nvme_gb(rows)
    facts = nodes.hardware(rows, efa=pool.efa) | {
        "gpu": gpu,
        "gpu_mib": gpu_mib,
        "architecture": architecture or (ami.architecture if ami and ami.architecture else "x86_64"),
    }
    found = NodePool(
        name=name,
        where=f"node pool '{name}'",
        kind=pool.kind,
        instance_types=pool.instance_types,
        min=pool.min,
        max=pool.max,
        desired=pool.desired if pool.desired is not None else pool.min,
        spot=pool.capacity == "spot",
        reservation=pool.reservation.id if pool.reservation else None,
        reservation_kind=pool.reservation.kind if pool.reservation else None,
        zones=_zones(pool, env),
        zones_declared=pool.zones is not None,
        ami_type=ami_type,
        ami_id=pool.ami_id,
        ami_release=pool.ami_release,
        driver_version=pool.driver_version or nodes.driver(ami_type),
        efa=pool.efa,
        taints=_taints(pool.taints, has_gpu=has_gpu),
        labels=_labels(name, pool, ami, gpu),
        sharing=_sharing(pool.sharing),
        root_disk_gib=pool.root_disk_gib or root_disk_gib(name, needs, gpu=has_gpu, local_disks=bool(nvme)),
        nvme_gb=nvme,
        hop_limit=pool.hop_limit,
        limits=_limits(pool, rows) if pool.kind == "karpenter" else {},
        **facts,
    )
    tagged = pool.kind == "managed" and node_autoscaler(env) == "cluster_autoscaler"
    return replace(found, announced=tuple(sorted(extended_resources(found)))) if tagged else found


def _row(look_up: Callable[[str], Row], name: str | None) -> Row | None:
    if name is None:
        return None
    try:
        return look_up(name)
    except UnknownRow:
        return None


def _architecture(instance_type: str) -> str | None:
    """Of a type that is in no catalog: EC2 marks Graviton by a g after the generation (m9g, c8gn). None for accelerated ones."""
    if re.match(r"(g|gr|p|inf|trn|dl|vt)\d", instance_type):
        return None
    return "arm64" if re.match(r"[a-z]+\d+g", instance_type) else "x86_64"


def _plain_ami(architecture: str | None) -> str | None:
    """Image of a type that is in no catalog, by its architecture; None where not even that is known."""
    return f"AL2023_{'ARM_64' if architecture == 'arm64' else 'x86_64'}_STANDARD" if architecture else None


def _zones(pool: AwsPool, env: Environment) -> tuple[str, ...]:
    if pool.zones is not None:
        return pool.zones
    # A cluster placement group lies in one zone; the first is as good as another. A reservation has a zone of its own,
    # which only the account knows: it must be stated, and until then it is unknown.
    return cluster_zones(env)[:1] if pool.efa and pool.reservation is None else ()


def _taints(given: tuple[ConfigTaint, ...] | None, *, has_gpu: bool) -> tuple[Taint, ...]:
    if given is None:
        return (GPU_TAINT,) if has_gpu else ()
    return tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in given)


def _labels(name: str, pool: AwsPool, ami: amis.AmiType | None, gpu: str | None) -> dict[str, str]:
    labels = {**pool.labels, POOL_LABEL: name}
    if gpu and pool.kind == "managed" and _advertises_gpus(pool.sharing):
        labels.setdefault(ACCELERATOR_LABEL, f"nvidia-{gpu.lower()}")
    own_plugin = bool(ami and ami.device_plugin)
    if gpu and (own_plugin or pool.sharing.strategy == "volcano_vgpu"):
        # Another device plugin serves these nodes; beside nodes that need the operator's, its own must stay away.
        labels.setdefault(DEPLOY_DEVICE_PLUGIN_LABEL, "false")
    if gpu and own_plugin:
        labels.setdefault(DEPLOY_MIG_MANAGER_LABEL, "false")
    # Bottlerocket has the device plugin and the MIG manager in the operating system, set by its own user data.
    if pool.sharing.strategy in _PLUGIN_CONFIGURED and not own_plugin:
        labels.setdefault(DEVICE_PLUGIN_CONFIG_LABEL, name)
        if pool.sharing.strategy == "mig" and pool.sharing.mig_profile:
            labels.setdefault(MIG_CONFIG_LABEL, mig_config(pool.sharing.mig_profile))
    return dict(sorted(labels.items()))


def _advertises_gpus(sharing: GpuSharing) -> bool:
    """Whether nodes have nvidia.com/gpu. A labelled node that has none is unready to cluster-autoscaler for ever, and
    many of them stop it (processors/customresources/gpu_processor.go; --max-total-unready-percentage)."""
    match sharing.strategy:
        case "mig":
            return sharing.mig_strategy == "single"
        case "time_slicing":
            return not sharing.rename_by_default
        case other:
            return other != "volcano_vgpu"


def _sharing(given: GpuSharing) -> Sharing:
    return Sharing(
        strategy=given.strategy,
        replicas=given.replicas,
        mig_strategy=given.mig_strategy,
        mig_profile=given.mig_profile,
        rename_by_default=given.rename_by_default,
        fail_requests_greater_than_one=given.fail_requests_greater_than_one,
    )


def _limits(pool: AwsPool, rows: Sequence[Instance]) -> dict[str, object]:
    if pool.limits or not rows:
        return dict(pool.limits)
    limits: dict[str, object] = {
        "cpu": str(pool.max * max(row.vcpu for row in rows)),
        "memory": f"{math.ceil(pool.max * max(row.memory_gib for row in rows))}Gi",
    }
    most = max(row.gpus for row in rows)
    return limits | ({GPU_RESOURCE: pool.max * most} if most else {})
