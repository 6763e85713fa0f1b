"""From config to the plan: derive, render, read as facts, judge, count. Pure and linear in the number of services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components import node_pools
from components.config import Environment
from components.derive import service as derive
from components.derive import startup
from components.derive.spec import EngineSpec, ServiceSpec
from components.manifests import ray, surroundings, vllm
from components.plan import counting, facts, memory
from components.plan.result import SCHEMA_VERSION, EnginePlan, GroupPlan, Plan, PoolPlan, Range, ServicePlan, Totals
from policies import rules
from policies.facts import NodePool, Stack, Workload
from policies.finding import Finding
from policies.fit import engine as fit_engine


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan and what it was made from: components render `specs` and `manifests`, tests look at `stack`."""

    plan: Plan
    specs: tuple[ServiceSpec, ...]
    manifests: Mapping[str, list[dict[str, Any]]]  # service -> objects, the workload first
    pools: tuple[NodePool, ...]
    stack: Stack


def assemble(env: Environment, environment: str = "") -> Planned:
    """Plan an environment. Raises nothing for a config that has been read: what is wrong is a finding."""
    pools = node_pools.resolve(env)
    by_name = {pool.name: pool for pool in pools}
    specs = tuple(derive.service(name, config, env, by_name) for name, config in sorted(env.services.items()))
    manifests = {spec.name: manifests_of(spec) for spec in specs}
    _service_accounts(specs, manifests)
    asked = {spec.name: counting.demands(spec) for spec in specs}
    stack = facts.stack(env, specs, manifests, pools, asked)
    findings = tuple(sorted([*rules.check(stack, env.policy), *facts.app_args(specs, stack)]))
    pool_plans = _pool_plans(pools, asked)
    services = tuple(
        _service(spec, workload, asked[spec.name], by_name, stack)
        for spec, workload in zip(specs, stack.workloads, strict=True)
    )
    plan = Plan(
        schema_version=SCHEMA_VERSION,
        environment=environment,
        services=services,
        pools=pool_plans,
        totals=_totals(pool_plans, services, asked, findings),
        findings=findings,
    )
    return Planned(plan, specs, manifests, pools, stack)


def manifests_of(spec: ServiceSpec) -> list[dict[str, Any]]:
    """Kubernetes objects of a service; the workload first."""
    workload = vllm.manifests(spec) if spec.config.kind == "vllm" else [ray.manifest(spec)]
    return [*workload, *surroundings.objects(spec)]


def _service_accounts(specs: tuple[ServiceSpec, ...], manifests: Mapping[str, list[dict[str, Any]]]) -> None:
    """Add the service accounts to make: each once, with the first service that names it."""
    made: set[tuple[str, str]] = set()
    for spec in specs:
        name, namespace = spec.config.service_account, spec.config.namespace
        if name and spec.config.create_service_account and (namespace, name) not in made:
            made.add((namespace, name))
            metadata = {"name": name, "namespace": namespace}
            manifests[spec.name].append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def _pool_plans(pools: tuple[NodePool, ...], asked: Mapping[str, list[counting.Demand]]) -> tuple[PoolPlan, ...]:
    by_pool: dict[str, list[counting.Demand]] = {pool.name: [] for pool in pools}
    for demands in asked.values():
        for demand in demands:
            by_pool[demand.pool].append(demand)
    return tuple(counting.pool_plan(pool, by_pool[pool.name]) for pool in pools)


def _service(
    spec: ServiceSpec,
    workload: Workload,
    asked: list[counting.Demand],
    pools: Mapping[str, NodePool],
    stack: Stack,
) -> ServicePlan:
    by_type: dict[str, Range] = {}
    for demand in asked:
        gpu = pools[demand.pool].gpu
        if gpu and demand.gpus:
            by_type[gpu] = _add(by_type.get(gpu), counting.scaled(demand.pods, demand.gpus))
    gpus = Range(min=0, max=0, upgrade=0)
    for figure in by_type.values():
        gpus = _add(gpus, figure)
    config = spec.config
    return ServicePlan(
        name=spec.name,
        kind=config.kind,
        namespace=config.namespace,
        image=spec.image,
        queue=config.queue,
        upgrade=config.upgrade.strategy,
        engines=tuple(_engine(engine, spec, workload, stack) for engine in spec.engines),
        groups=tuple(
            GroupPlan(
                name=group.name,
                pool=group.pool_name,
                gpus_per_pod=group.gpus_per_pod,
                hosts=group.hosts,
                physical_gpus_per_pod=round(group.physical_gpus, 4),
                cpu=group.cpu,
                memory_gib=group.memory_gib,
                pods=counting.group_pods(spec, group),
            )
            for group in spec.groups
        ),
        gpus=gpus,
        gpus_by_type=dict(sorted(by_type.items())),
        usd_per_hour=counting.service_cost(asked, pools),
        download_gib=startup.download_gib(spec, stack.models),
        ready_seconds=startup.ready_seconds(spec, stack.models),
    )


def _add(left: Range | None, right: Range) -> Range:
    if left is None:
        return right
    return Range(min=left.min + right.min, max=left.max + right.max, upgrade=left.upgrade + right.upgrade)


def _engine(engine: EngineSpec, spec: ServiceSpec, workload: Workload, stack: Stack) -> EnginePlan:
    parallel = engine.config.parallel
    group = next(group for group in spec.groups if group.name == engine.group)
    share = engine.worker_gpu if group.shared else group.physical_gpus / max(1, group.gpus_per_pod)
    row = fit_engine.find(engine.catalog_id, stack.models)
    # as the rules see it: read back from the manifest, patches included
    found = next((e for e in workload.engines if e.model_id == engine.name and e.role == engine.role), None)
    pods = next((g for g in workload.groups if g.name in (engine.group, workload.name)), None)
    return EnginePlan(
        name=engine.name,
        model=engine.catalog_id,
        known=row is not None,
        role=engine.role,
        device=engine.config.device,
        pool=engine.pool_name,
        group=engine.group,
        gpu=engine.pool.gpu if engine.pool else None,
        tensor_parallel=parallel.tensor,
        pipeline_parallel=parallel.pipeline,
        data_parallel=parallel.data,
        gpu_share=round(share, 4) if engine.config.device == "gpu" else 0.0,
        gpus_per_replica=round(share * engine.ranks, 4) if engine.config.device == "gpu" else 0.0,
        replicas_min=engine.min_replicas,
        replicas_max=engine.max_replicas,
        parameters=row.parameters if row else None,
        memory=memory.plan(found, engine.pool, pods, stack.models) if found else None,
    )


def _totals(
    pools: tuple[PoolPlan, ...],
    services: tuple[ServicePlan, ...],
    asked: Mapping[str, list[counting.Demand]],
    findings: tuple[Finding, ...],
) -> Totals:
    """Sums over the pools. In an upgrade: full load and the dearest upgrade of one service, over all pools it uses."""
    gpus_low = sum(pool.gpus.min for pool in pools)
    gpus_high = sum(pool.gpus.max for pool in pools)
    gpus_extra = max((service.gpus.upgrade - service.gpus.max for service in services), default=0)
    gpu_pools = [pool for pool in pools if pool.gpus_per_node and pool.price_usd_hour and pool.nodes.min]
    paid = sum(pool.nodes.min * (pool.price_usd_hour or 0) for pool in gpu_pools)
    used = sum(pool.gpus.min / pool.gpus_per_node * (pool.price_usd_hour or 0) for pool in gpu_pools)
    return Totals(
        gpus=Range(min=round(gpus_low, 4), max=round(gpus_high, 4), upgrade=round(gpus_high + gpus_extra, 4)),
        usd_per_hour=_cost(pools, asked),
        idle_share=round(1 - used / paid, 4) if paid else None,
        errors=sum(f.severity == "error" for f in findings),
        warnings=sum(f.severity == "warning" for f in findings),
    )


def _cost(pools: tuple[PoolPlan, ...], asked: Mapping[str, list[counting.Demand]]) -> Range | None:
    """None where the price of a pool that has nodes is not known."""
    prices = {pool.name: pool.price_usd_hour for pool in pools if pool.nodes.upgrade}
    if not prices or any(price is None for price in prices.values()):
        return None
    low = sum(pool.nodes.min * (pool.price_usd_hour or 0) for pool in pools)
    high = sum(pool.nodes.max * (pool.price_usd_hour or 0) for pool in pools)
    extra = 0.0
    for demands in asked.values():
        by_pool: dict[str, list[counting.Demand]] = {}
        for demand in demands:
            by_pool.setdefault(demand.pool, []).append(demand)
        added = sum(sum(counting.upgrade_nodes(d).values()) * (prices.get(pool) or 0) for pool, d in by_pool.items())
        extra = max(extra, added)
    return Range(min=round(low, 4), max=round(high, 4), upgrade=round(high + extra, 4))
