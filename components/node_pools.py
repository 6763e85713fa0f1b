"""Node pools as the plan sees them: what the config says of a pool joined with what the catalogs say of its nodes.

For: the plan, the rules, the preflight checks and the components that make the pools, which all read the same records.
Not for: judging a pool. What cannot be known (an instance type that is in no catalog) is left None, and the rules say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from components.config import AwsCluster, AwsPool, Environment, ExistingPool
from components.config.pools import Pool
from policies.catalog import amis, gpus, instances
from policies.catalog.lookup import UnknownRow
from policies.facts.records import NodePool, Taint

POOL_LABEL = "llm-serving/pool"
"""Label that every node of a pool carries; its value is the pool's name."""
GPU_TAINT = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
"""Taint of GPU nodes: the key that GPU Operator and device plugin tolerate (NVIDIA/k8s-device-plugin#1934)."""
DEVICE_PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""Label with which a node picks its entry of the device plugin's ConfigMap; its value is the pool's name."""
MIG_CONFIG_LABEL = "nvidia.com/mig.config"
"""Label with which a node tells the MIG manager how to cut its GPUs; its value is a mig-parted configuration."""

GPU_ROOT_DISK_GIB = 100
"""Smallest root volume of a GPU node: system, driver and an unpacked engine image of 12 GiB, with room to replace it."""
CPU_ROOT_DISK_GIB = 50
"""Root volume of a node without GPU: the serving image (a Ray head runs it too), twice in an upgrade."""

_PLUGIN_CONFIGURED = frozenset({"time_slicing", "mps", "mig"})
_LIMIT_HEADROOM_GIB = 20


def resolve(env: Environment) -> tuple[NodePool, ...]:
    """All pools of the environment, sorted by name. Never raises: unknown types, GPUs and AMIs leave None."""
    return tuple(_resolve(name, pool, env) for name, pool in sorted(env.node_pools.items()))


def node_selector(pool: NodePool) -> Mapping[str, str]:
    """Labels that select the pool's nodes and no others: its own label, or what the config states of existing nodes."""
    if POOL_LABEL in pool.labels:
        return {POOL_LABEL: pool.name}
    return {key: str(value) for key, value in sorted(pool.labels.items())}


def cluster_zones(env: Environment) -> tuple[str, ...]:
    """Zones with private subnets: those stated, else a, b and c of the region; () where the network is not ours."""
    cluster = env.cluster
    if not isinstance(cluster, AwsCluster) or cluster.existing is not None or cluster.network.vpc_id is not None:
        return () if not isinstance(cluster, AwsCluster) else cluster.network.zones
    return cluster.network.zones or tuple(cluster.region + letter for letter in "abc")


def mig_config(profile: str) -> str:
    """The mig-parted configuration for a profile: "1g.10gb" -> "all-1g.10gb"; a configuration's own name stays."""
    return f"all-{profile}" if profile[:1].isdigit() else profile


def _resolve(name: str, pool: Pool, env: Environment) -> NodePool:
    return _existing(name, pool) if isinstance(pool, ExistingPool) else _aws(name, pool, env)


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


def _aws(name: str, pool: AwsPool, env: Environment) -> NodePool:
    rows = [row for row in (_row(instances.get, each) for each in pool.instance_types) if row is not None]
    # Whatever node comes must do: the least of the types for room, the dearest for cost.
    first = rows[0] if rows else None
    gpu = _row(gpus.get, first.gpu) if first else None
    ami_type = pool.ami or ("CUSTOM" if pool.ami_id else _default_ami(first))
    ami = _row(amis.get, ami_type)
    has_gpu = first is not None and first.gpus > 0
    return NodePool(
        name=name,
        where=f"node pool '{name}'",
        kind=pool.kind,
        instance_types=pool.instance_types,
        gpu=gpu.name if gpu else None,
        gpus_per_node=min((row.gpus for row in rows), default=0),
        gpu_mib=_gpu_mib(first) if gpu else None,
        cpu_milli=min((row.allocatable_cpu_millis for row in rows), default=None),
        memory_mib=min((row.allocatable_memory_mib for row in rows), default=None),
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
        driver_version=pool.driver_version or (str(ami.nvidia_driver) if ami and ami.nvidia_driver else None),
        efa=pool.efa,
        efa_declared_interfaces=_least(row.efa_interfaces for row in rows) if pool.efa else None,
        taints=_taints(pool.taints, has_gpu=has_gpu),
        labels=_labels(name, pool, ami),
        sharing=_sharing(pool.sharing),
        architecture=first.architecture if first else (ami.architecture if ami and ami.architecture else "x86_64"),
        root_disk_gib=pool.root_disk_gib or _root_disk_gib(name, has_gpu, env),
        nvme_gb=_least(row.nvme_gb for row in rows),
        hop_limit=pool.hop_limit,
        limits=_limits(pool, rows) if pool.kind == "karpenter" else {},
        price_usd_hour=_most(row.usd_per_hour for row in rows),
    )


def _row[Row](look_up: Callable[[str], Row], name: str | None) -> Row | None:
    if name is None:
        return None
    try:
        return look_up(name)
    except UnknownRow:
        return None
