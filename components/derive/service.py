"""From what a person states to what every layer gets: one statement, every layer in step.

Not for: judging. Where something cannot be derived (an unknown pool, a model that no catalog has), the field stays empty and a
rule speaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components import versions
from components.config import Environment, Head, Model, Replicas, Service
from components.derive import engines as engine_args
from components.derive import observability, pods, request_path, startup
from components.derive.spec import DEFAULT_CPU, EngineSpec, GroupSpec, HeadSpec, ServiceSpec
from components.images import serve_image_tag
from policies.facts import NodePool
from policies.fit import engine as fit_engine

HEAD_CPU = 2.0
HEAD_MEMORY_GIB = 8.0


def service(name: str, config: Service, env: Environment, pools: Mapping[str, NodePool]) -> ServiceSpec:
    """Derive one service."""
    where = f"service '{name}'"
    default_pool = _only_pool(config, pools, "gpu")
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


def _only_pool(config: Service, pools: Mapping[str, NodePool], device: str) -> str | None:
    """The stated pool, else the only one with GPUs, or for an engine on CPU the only one without (with, where all have them)."""
    having, without = (
        [name for name, pool in pools.items() if bool(pool.gpus_per_node) is gpus] for gpus in (True, False)
    )
    names = having if device == "gpu" else without or having
    return config.pool or (names[0] if len(names) == 1 else None)


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
        own = default_pool if model.device == "gpu" else _only_pool(config, pools, model.device)
        pool_name = model.pool or own
        pool = pools.get(pool_name) if pool_name else None
        for role, replicas in _roles(model, config.kind):
            sized = _sized(stated, role)
            together = pods.ranks_together(config, sized, name, env)
            shape = pods.shape_of(config, sized, pool_name, pool, together)
            shapes.setdefault(shape, []).append((name, role, sized, replicas, f"{where}: model '{name}'"))
            joined[shape] = max(joined.get(shape, 0), sized.parallel.tensor * sized.parallel.pipeline * together)
    if not shapes and config.kind in ("ray_cluster", "ray_job"):
        # No engine is declared: the job or the apps of others bring them; the group takes its shape from `worker`.
        pool = pools.get(default_pool) if default_pool else None
        shapes[
            pods.shape_of(config, Model(device="gpu" if pool and pool.gpus_per_node else "cpu"), default_pool, pool)
        ] = []
    names = pods.group_names(list(shapes))
    engines: list[EngineSpec] = []
    groups: list[GroupSpec] = []
    for shape, members in shapes.items():
        group = pods.group(names[shape], config, shape, pools, members, joined.get(shape, 0))
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
    workers = model.parallel.tensor * model.parallel.pipeline * (model.parallel.data if config.kind == "vllm" else 1)
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
                    **engine_args.environment(
                        model, worker_gpu, group.device, cpus=group.cpu or DEFAULT_CPU, workers=workers
                    ),
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
