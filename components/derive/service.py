"""From what a person states to what every layer gets: one statement, every layer in step.

Not for: judging. Where something cannot be derived (an unknown pool, a model that no catalog has), the field stays empty and a
rule speaks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from components import versions
from components.config import Environment, Head, Model, Replicas, Service
from components.derive import engines as engine_args
from components.derive import nvlink, observability, request_path, startup
from components.derive.packing import gpus_for
from components.derive.spec import EngineSpec, GroupSpec, HeadSpec, ServiceSpec
from components.images import serve_image_tag
from policies.catalog import gpus
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool
from policies.fit import engine as fit_engine

# Daemon sets on a GPU node: VPC CNI, kube-proxy, CSI, device plugin, GFD, DCGM exporter, NFD (their charts' requests add up
# to about this); kept free on every node beside what the kubelet reserves.
DAEMONS_CPU = 0.5
DAEMONS_MEMORY_GIB = 1.0
HEAD_CPU = 2.0
HEAD_MEMORY_GIB = 8.0


def service(name: str, config: Service, env: Environment, pools: Mapping[str, NodePool]) -> ServiceSpec:
    """Derive one service."""
    where = f"service '{name}'"
    default_pool = config.pool or _only_gpu_pool(pools)
    engines, groups = _engines_and_groups(where, config, env, pools, default_pool)
    ray = config.ray_version or env.versions.ray or versions.RAY
    vllm = env.versions.vllm or versions.vllm_for(ray)
    python = env.versions.python or versions.PYTHON
    autoscaling = config.autoscaling.enabled
    if autoscaling is None:
        autoscaling = any(group.min != group.max for group in groups)
    return ServiceSpec(
        name=name,
        where=where,
        config=config,
        environment=env,
        engines=engines,
        groups=groups,
        head=_head(config.head, pools),
        image=_image(config, env, ray=ray, vllm=vllm, python=python),
        ray_version=ray,
        vllm_version=vllm,
        python_version=python,
        cuda_version=env.versions.cuda or versions.CUDA,
        autoscaling=autoscaling,
        ray_env=request_path.environment(config, engines, ray),
        batch_scheduler=env.software.batch_scheduler,
        gateway_class=config.upgrade.gateway_class or env.software.gateway.class_name,
    )


def _only_gpu_pool(pools: Mapping[str, NodePool]) -> str | None:
    names = [name for name, pool in pools.items() if pool.gpus_per_node]
    return names[0] if len(names) == 1 else None


def _image(config: Service, env: Environment, *, ray: str, vllm: str, python: str) -> str:
    repository = config.image.repository or env.image or "llm-serve"
    if config.image.digest:
        return f"{repository}@{config.image.digest}"
    return f"{repository}:{config.image.tag or serve_image_tag(ray=ray, vllm=vllm, python=python)}"


def _head(config: Head, pools: Mapping[str, NodePool]) -> HeadSpec:
    cpu, memory = config.cpu or HEAD_CPU, config.memory_gib or HEAD_MEMORY_GIB
    name = config.pool
    if name is None:
        # The smallest on-demand CPU pool on which it fits; else the first CPU pool, and a rule says that it does not fit.
        cpus = [pool for pool in pools.values() if not pool.gpus_per_node]
        fitting = [
            pool
            for pool in cpus
            if not pool.spot
            and (pool.cpu_milli is None or pool.cpu_milli >= cpu * 1000)
            and (pool.memory_mib is None or pool.memory_mib >= memory * 1024)
        ]
        ranked = sorted(fitting or cpus, key=lambda pool: (pool.memory_mib or 0, pool.name))
        name = ranked[0].name if ranked else None
    pool = pools.get(name) if name else None
    return HeadSpec(pool=pool, pool_name=name, cpu=cpu, memory_gib=memory)


def _engines_and_groups(
    where: str, config: Service, env: Environment, pools: Mapping[str, NodePool], default_pool: str | None
) -> tuple[tuple[EngineSpec, ...], tuple[GroupSpec, ...]]:
    shapes: dict[tuple[Any, ...], list[tuple[str, str, Model, Replicas, str]]] = {}
    joined: dict[tuple[Any, ...], int] = {}  # most GPUs of one replica whose workers exchange tensors
    for name, stated in sorted(config.models.items()):  # the engine hands config over as sorted maps
        model = _sized(stated)
        pool_name = model.pool or default_pool
        pool = pools.get(pool_name) if pool_name else None
        for role, replicas in _roles(model, config.kind):
            sized = _sized(stated, role)
            together = _ranks_together(config, sized, name, env)
            shape = _shape(config, sized, pool_name, pool, together)
            shapes.setdefault(shape, []).append((name, role, sized, replicas, f"{where}: model '{name}'"))
            joined[shape] = max(joined.get(shape, 0), sized.parallel.tensor * sized.parallel.pipeline * together)
    if not shapes and config.kind in ("ray_cluster", "ray_job"):
        # No engine is declared: the job or the apps of others bring them; the group takes its shape from `worker`.
        pool = pools.get(default_pool) if default_pool else None
        shapes[_shape(config, Model(device="gpu" if pool and pool.gpus_per_node else "cpu"), default_pool, pool)] = []
    names = _group_names(list(shapes))
    engines: list[EngineSpec] = []
    groups: list[GroupSpec] = []
    for shape, members in shapes.items():
        group = _group(names[shape], config, shape, pools, members, joined.get(shape, 0))
        groups.append(group)
        for name, role, model, replicas, place in members:
            engines.append(_engine(place, name, role, model, replicas, group, len(shapes) > 1, env, config))
    return tuple(sorted(engines, key=lambda e: (e.name, e.role))), tuple(groups)


def _sized(model: Model, role: str = "decode") -> Model:
    """The model with its parallel sizes as the engine of that role will have them: engine arguments given by hand count."""
    args = model.engine_args
    if role == "prefill" and model.disaggregation is not None:
        args = {**args, **model.disaggregation.prefill_engine_args}
    names = {"tensor": "tensor_parallel_size", "pipeline": "pipeline_parallel_size", "data": "data_parallel_size"}
    sizes = {field: args[key] for field, key in names.items() if isinstance(args.get(key), int) and args[key] >= 1}  # type: ignore[operator]
    return model.model_copy(update={"parallel": model.parallel.model_copy(update=sizes)}) if sizes else model


def _roles(model: Model, kind: str) -> list[tuple[str, Replicas]]:
    if model.disaggregation is not None:
        return [("decode", model.replicas), ("prefill", model.disaggregation.prefill_replicas)]
    if model.parallel.data > 1 and kind != "vllm":  # ranks of a plain pod are vLLM's own business
        return [("data_parallel", model.replicas)]
    return [("serve", model.replicas)]


def _ranks_together(config: Service, model: Model, name: str, env: Environment) -> int:
    """Data-parallel ranks that belong into one pod as far as it holds them: those of a plain pod are processes of it, and those
    that share experts exchange tokens in each layer. NCCL takes every pod for a host of its own (getHostHash, src/misc/utils.cc),
    and between hosts it uses the network, not NVLink. Ranks of a dense model have nothing to do with each other (v1/engine/core.py)."""
    if config.kind == "vllm" or model.parallel.expert:
        return model.parallel.data
    row = fit_engine.find(model.model or name, env.models)
    return model.parallel.data if row is None or row.moe is not None else 1


def _shape(
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


def _group_names(shapes: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], str]:
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


def _group(
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
    spans_pods = hosts > 1 or (device == "gpu" and not shared and joined > gpus_per_pod)
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


def _engine(
    where: str,
    name: str,
    role: str,
    model: Model,
    replicas: Replicas,
    group: GroupSpec,
    groups_differ: bool,
    env: Environment,
    config: Service,
) -> EngineSpec:
    share = model.gpu.share if model.gpu.share is not None else 1.0
    strategy = group.pool.sharing.strategy if group.pool else "none"
    if group.device == "cpu":
        worker_gpu, memory_share, shared = 0.0, 1.0, False
    elif group.shared:
        worker_gpu, memory_share, shared = share, share, True
    elif group.gpu_fraction:
        # KAI does not cap memory, so the engine is held to its share; HAMi shows the pod a device of the share's size.
        worker_gpu, memory_share, shared = 1.0, (share if strategy == "kai" else 1.0), strategy == "kai"
    elif strategy in ("time_slicing", "mps") and group.pool is not None:
        part = 1.0 / (group.pool.sharing.replicas or 1)
        worker_gpu, memory_share, shared = 1.0, min(share, part), part < 1
    else:
        worker_gpu, memory_share, shared = 1.0, 1.0, False
    utilization = engine_args.utilization(model, group.pool, memory_share, shared) if group.device == "gpu" else None
    catalog_id = model.model or name
    source = model.source or _hub_id(catalog_id, env)
    return EngineSpec(
        name=name,
        where=where if role in ("serve", "data_parallel") else f"{where}: {role}",
        config=model,
        role=role,
        catalog_id=catalog_id,
        source=source,
        pool=group.pool,
        pool_name=group.pool_name,
        group=group.name,
        groups_differ=groups_differ,
        worker_gpu=worker_gpu,
        memory_share=memory_share,
        shared=shared,
        utilization=utilization,
        min_replicas=replicas.min,
        max_replicas=replicas.max,
        cold_seconds=startup.cold_seconds(
            fit_engine.find(catalog_id, env.models),
            source=source,
            on_gpu=group.device == "gpu",
            image_gib=config.image.size_gib,
        ),
        engine_args=dict(
            sorted({**observability.arguments(config), **engine_args.derived(model, role, utilization)}.items())
        ),
        env=dict(
            sorted(
                {
                    **observability.environment(config, name),
                    **engine_args.environment(model, worker_gpu, group.device),
                }.items()
            )
        ),
    )


def _hub_id(name: str, env: Environment) -> str:
    """Where a model is fetched from: a bare name of the catalog (Llama-3.1-8B) is no repository of the hub, its row's id is."""
    if "/" in name or name in env.models:
        return name
    row = fit_engine.find(name, {})
    return row.name if row is not None else name
