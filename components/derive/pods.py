"""Worker pods of a service: which GPUs of a replica are in one pod, how many pods a group has, and what of a node each gets.

Not for: engines on them (service.py, engines.py), or nodes (components/node_pools.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from components.config import Environment, Model, Replicas, Service
from components.derive import nvlink
from components.derive.packing import gpus_for
from components.derive.spec import GroupSpec
from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool
from policies.fit import engine as fit_engine

# Daemon sets on a GPU node: VPC CNI, kube-proxy, CSI, device plugin, GFD, DCGM exporter, NFD (their charts' requests add up
# to about this); kept free on every node beside what the kubelet reserves.
DAEMONS_CPU = 0.5
DAEMONS_MEMORY_GIB = 1.0


def ranks_together(config: Service, model: Model, name: str, env: Environment) -> int:
    """Data-parallel ranks that belong into one pod as far as it holds them: those of a plain pod are processes of it, and those
    that share experts exchange tokens in each layer. NCCL takes every pod for a host of its own (getHostHash, src/misc/utils.cc),
    and between hosts it uses the network, not NVLink. Ranks of a dense model have nothing to do with each other (v1/engine/core.py)."""
    if config.kind == "vllm" or model.parallel.expert:
        return model.parallel.data
    row = fit_engine.find(model.model or name, env.models)
    return model.parallel.data if row is None or row.moe is not None else 1


def shape_of(
    config: Service, model: Model, pool_name: str | None, pool: NodePool | None, together: int = 1
) -> tuple[Any, ...]:
    """Models of one shape share a worker group: (pool, device, GPUs a pod, hosts, shared by Ray, KAI/vGPU fraction, MIG profile)."""
    if model.device == "cpu":
        return (pool_name, "cpu", 0, 1, False, None, None)
    strategy = pool.sharing.strategy if pool else "none"
    share = model.gpu.share
    mig = (model.gpu.mig or pool.sharing.mig_profile) if pool and strategy == "mig" else None
    fraction = share if share is not None and share < 1 and strategy in ("kai", "volcano_vgpu") else None
    by_ray = share is not None and share < 1 and strategy == "none"
    if by_ray:
        # the ranks of one tensor-parallel stage lie on the GPUs of one pod, each with its share of one of them
        return (pool_name, "gpu", config.worker.gpus_per_pod or model.parallel.tensor, 1, True, None, None)
    if fraction or mig or strategy in ("time_slicing", "mps"):
        return (pool_name, "gpu", config.worker.gpus_per_pod or 1, 1, False, fraction, mig)
    gpus_per_pod, hosts = pod_gpus(model.parallel.tensor, model.parallel.pipeline, pool.gpus_per_node if pool else 0)
    if config.worker.gpus_per_pod:
        gpus_per_pod = config.worker.gpus_per_pod
        hosts = math.ceil(model.parallel.tensor * model.parallel.pipeline / gpus_per_pod)
    elif hosts == 1:
        most = min(together, pool.gpus_per_node // gpus_per_pod) if pool and pool.gpus_per_node else together
        gpus_per_pod *= max(ranks for ranks in range(1, max(1, most) + 1) if together % ranks == 0)
    return (pool_name, "gpu", gpus_per_pod, config.worker.hosts or hosts, False, None, None)


def pod_gpus(tensor: int, pipeline: int, gpus_per_node: int) -> tuple[int, int]:
    """(GPUs of a pod, pods of a replica): the whole replica in one pod where a node holds it, else whole pipeline stages."""
    world = tensor * pipeline
    if not gpus_per_node or world <= gpus_per_node:
        return world, 1
    stages = gpus_per_node // tensor
    per_pod = stages * tensor if stages else gpus_per_node
    return per_pod, math.ceil(world / per_pod)


def group_names(shapes: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], str]:
    by_pool: dict[Any, int] = {}
    for shape in shapes:
        by_pool[shape[0]] = by_pool.get(shape[0], 0) + 1
    names: dict[tuple[Any, ...], str] = {}
    for shape in shapes:
        pool_name, _, gpus_per_pod, hosts, shared, fraction, mig = shape
        base = pool_name or "workers"
        if by_pool[pool_name] > 1:
            base += f"-{gpus_per_pod}x{hosts}"
            base += "-shared" if shared else ""
            base += f"-{round(fraction * 100)}" if fraction else ""
            base += f"-{mig.replace('.', '-').replace('+', '-')}" if mig else ""
        names[shape] = base.lower()
    return names


def group(
    name: str,
    config: Service,
    shape: tuple[Any, ...],
    pools: Mapping[str, NodePool],
    members: list[tuple[str, str, Model, Replicas, str]],
    joined: int,
) -> GroupSpec:
    pool_name, device, gpus_per_pod, hosts, shared, fraction, mig = shape
    pool = pools.get(pool_name) if pool_name else None
    worker = config.worker

    def count(which: str) -> int:
        pods = 0
        shares: list[tuple[float, int]] = []
        for _, _, model, replicas, _ in members:
            replicas_now = getattr(replicas, which)
            if which == "max" and device == "gpu":
                # in an in-place change the new replicas need GPUs beside the old ones
                replicas_now += math.ceil(replicas_now * replicas.surge_percent / 100)
            ranks = replicas_now * model.parallel.data
            if shared:
                # stages of all replicas, packed into pods: a stage takes its share of each of the pod's GPUs
                per_pod = max(1, gpus_per_pod // model.parallel.tensor)
                shares.append(((model.gpu.share or 1.0) / per_pod, ranks * model.parallel.pipeline))
            elif device == "cpu":
                pods += ranks
            else:
                world = model.parallel.tensor * model.parallel.pipeline
                # pods of one group replica are `hosts`; a pod may hold several small engines when it was set by hand
                per = gpus_per_pod * hosts
                pods += math.ceil(ranks * world / per) if per else ranks
        return pods + gpus_for(shares)

    minimum = worker.min if worker.min is not None else count("min")
    maximum = worker.max if worker.max is not None else max(count("max"), minimum)
    replicas = worker.replicas if worker.replicas is not None else minimum
    physical, per_node = _physical(pool, gpus_per_pod, fraction, mig, device)
    # `hosts` counts for groups without engines of ours as well: apps of others bring them.
    whole = device == "gpu" and not shared and (pool is None or pool.sharing.strategy == "none")
    spans_pods = hosts > 1 or (whole and joined > gpus_per_pod)
    channel = nvlink.claims_channel(worker.compute_domain, pool, device=device, spans_pods=spans_pods)
    if channel:
        per_node = 1  # a node has one channel
    cpu, memory = _pod_size(config, pool, per_node)
    return GroupSpec(
        name=name,
        pool=pool,
        pool_name=pool_name,
        device=device,
        gpus_per_pod=gpus_per_pod,
        hosts=hosts,
        shared=shared,
        gpu_fraction=fraction,
        mig_profile=mig,
        spans_pods=spans_pods,
        compute_domain=channel,
        min=minimum,
        replicas=replicas,
        max=maximum,
        physical_gpus=physical,
        pods_per_node=per_node,
        cpu=cpu,
        memory_gib=memory,
    )


def _physical(
    pool: NodePool | None, gpus_per_pod: int, fraction: float | None, mig: str | None, device: str
) -> tuple[float, int]:
    """(physical GPUs one pod takes, pods that one node holds)."""
    if device == "cpu" or pool is None:
        return (0.0 if device == "cpu" else float(gpus_per_pod)), 1
    node = pool.gpus_per_node
    sharing = pool.sharing
    if fraction:
        return fraction, max(1, int(1 / fraction + 1e-9)) * max(1, node)
    if mig:
        slices = _mig_slices(pool, mig)
        return gpus_per_pod / slices, max(1, node * slices // gpus_per_pod)
    if sharing.strategy in ("time_slicing", "mps") and sharing.replicas:
        return gpus_per_pod / sharing.replicas, max(1, node * sharing.replicas // gpus_per_pod)
    return float(gpus_per_pod), max(1, node // gpus_per_pod) if gpus_per_pod else 1


def _mig_slices(pool: NodePool, profile: str) -> int:
    try:
        return max(1, gpus.get(pool.gpu or "").mig_profile(profile).max_instances)
    except UnknownRow:
        return 1


def _pod_size(config: Service, pool: NodePool | None, pods_per_node: int) -> tuple[float | None, float | None]:
    """CPU cores and GiB of a worker pod: its part of the node, in halves of a core and whole GiB, unless stated."""
    cpu, memory = config.worker.cpu, config.worker.memory_gib
    if pool is not None and cpu is None and pool.cpu_milli is not None:
        part = (pool.cpu_milli / 1000 - DAEMONS_CPU) / pods_per_node
        cpu = max(0.5, math.floor(part * 2) / 2)
    if pool is not None and memory is None and pool.memory_mib is not None:
        memory = float(max(1, math.floor((pool.memory_mib / 1024 - DAEMONS_MEMORY_GIB) / pods_per_node)))
    return cpu, memory
