"""From config to the plan: derive, render, read as facts, judge, count. Pure and linear in the number of services."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from components import node_pools
from components.config import AwsCluster, Environment
from components.derive import service as derive
from components.derive import startup
from components.derive.spec import EngineSpec, ServiceSpec
from components.derive.unread import unread
from components.manifests import ray, releases, surroundings, vllm
from components.manifests.subnets import divide
from components.plan import counting, memory
from components.plan.result import SCHEMA_VERSION, EnginePlan, GroupPlan, Plan, PoolPlan, Range, ServicePlan, Totals
from policies import rules
from policies.facts import AwsResource, Budget, NodePool, Object, Release, Stack, Versions, Workload, scalers
from policies.facts import aws as aws_facts
from policies.facts import objects as object_facts
from policies.facts import ray as ray_facts
from policies.facts import vllm as vllm_facts
from policies.finding import Finding
from policies.fit import engine as fit_engine
from serve_apps import APPS, App


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
    stack = _stack(env, specs, manifests, pools, asked)
    findings = tuple(sorted([*rules.check(stack, env.policy), *_app_args(specs, stack)]))
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


def _stack(
    env: Environment,
    specs: tuple[ServiceSpec, ...],
    manifests: Mapping[str, list[dict[str, Any]]],
    pools: tuple[NodePool, ...],
    asked: Mapping[str, list[counting.Demand]],
) -> Stack:
    installed = releases.releases(env, pools)
    software = _software(installed)
    made = tuple(thing for spec in specs for thing in _objects(spec, manifests[spec.name]))
    return Stack(
        workloads=tuple(scalers.apply([_workload(spec, manifests[spec.name]) for spec in specs], made)),
        pools=pools,
        queues=releases.queues_facts(env, pools),
        releases=installed,
        objects=made,
        versions=_versions(env, software),
        budget=Budget(usd_per_hour=env.budget.usd_per_hour, gpus=env.budget.gpus, vcpus=env.budget.vcpus),
        uses=tuple(use for spec in specs for use in counting.uses(spec, asked[spec.name])),
        batch_scheduler=env.software.batch_scheduler,
        gpu_sharing_enabled=_gpu_sharing(software.get("kai-scheduler")),
        autoscaler=_autoscaler(env, software),
        gateway_class=env.software.gateway.class_name,
        aws=_aws(env),
        cluster=env.cluster.kind,
        cluster_made=isinstance(env.cluster, AwsCluster) and env.cluster.create,
        zones=node_pools.cluster_zones(env),
        complete=True,
        fresh=env.cluster.kind == "aws" and env.cluster.create,
        present=releases.present(env),
        models=env.models,
        unread=tuple(each for spec in specs for each in unread(spec)),
    )


def _objects(spec: ServiceSpec, made: list[dict[str, Any]]) -> Iterator[Object]:
    """What a service has beside its workload, as the pack would see it; places begin with the service."""
    for manifest in made[1:]:
        thing = object_facts.read(manifest)
        yield replace(thing, where=f"{spec.where}: {thing.kind} {thing.name}")


def _aws(env: Environment) -> tuple[AwsResource, ...]:
    """The EKS cluster and the subnets that are to be made, as far as the rules on AWS resources read them."""
    cluster = env.cluster
    if not isinstance(cluster, AwsCluster) or not cluster.create:
        return ()
    cidrs = list(cluster.public_endpoint_cidrs)
    vpc = {"endpointPublicAccess": bool(cidrs), "publicAccessCidrs": cidrs}
    found = [AwsResource(type=aws_facts.CLUSTER, name="", where="cluster", props={"vpcConfig": vpc})]
    if cluster.network.vpc_id is None:
        for zone in divide(cluster.network.cidr, node_pools.cluster_zones(env)):
            props = {"cidrBlock": zone.private, "availabilityZone": zone.zone}
            found.append(AwsResource(type=aws_facts.SUBNET, name=zone.zone, where="cluster.network", props=props))
    return tuple(found)


def _workload(spec: ServiceSpec, objects: list[dict[str, Any]]) -> Workload:
    versions = {"python": spec.python_version, "vllm": spec.vllm_version, "cuda": spec.cuda_version}
    groups = {f"{engine.name}/{engine.role}": engine.group for engine in spec.engines}
    timeout = startup.ready_timeout(spec)
    if spec.config.kind == "vllm":
        return vllm_facts.read(objects[0], where=spec.where, versions=versions, ready_timeout_seconds=timeout)
    return ray_facts.read(
        objects[0], where=spec.where, engine_groups=groups, versions=versions, ready_timeout_seconds=timeout
    )


def _software(installed: tuple[Release, ...]) -> dict[str, Release]:
    return {release.chart.rsplit("/", 1)[-1]: release for release in installed}


def _version(installed: Mapping[str, Release], chart: str) -> str | None:
    release = installed.get(chart)
    return release.version.removeprefix("v") if release and release.version else None


def _gpu_sharing(kai: Release | None) -> bool | None:
    if kai is None:
        return None
    return (kai.values.get("global") or {}).get("gpuSharing") is True


def _autoscaler(env: Environment, installed: Mapping[str, Release]) -> str | None:
    if env.software.autoscaler.kind is not None:
        return env.software.autoscaler.kind
    if "karpenter" in installed:
        return "karpenter"
    if "cluster-autoscaler" in installed:
        return "cluster_autoscaler"
    return "none" if env.cluster.kind == "aws" else None  # another team's cluster may bring its own


def _app_args(specs: tuple[ServiceSpec, ...], stack: Stack) -> Iterator[Finding]:
    """What the app's own types refuse. Judged as written into the manifest, patches included."""
    for spec, workload in zip(specs, stack.workloads, strict=True):
        app = APPS[spec.config.app]
        if spec.config.kind == "ray_job" and app.kind == "job":
            count = len(spec.config.models)
            if count != 1 and workload.job_args is not None and "llm_config" not in workload.job_args:
                message = f"app '{spec.config.app}' runs exactly one model, and {count} are given"
                yield Finding(spec.where, "error", "serve-app-args", message, "give it one entry in models")
            elif workload.job_args is not None:
                yield from _refused(spec, app, workload.job_args)
        for served in workload.apps:
            if spec.config.kind == "ray_service" and served.import_path == app.import_path:
                yield from _refused(spec, app, served.args)


def _refused(spec: ServiceSpec, app: App, args: Mapping[str, Any]) -> Iterator[Finding]:
    try:
        app.args().model_validate(args)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path = ".".join(map(str, detail["loc"])) or "arguments"
            message = f"app '{spec.config.app}' does not take its {path}: {detail['msg'].removeprefix('Value error, ')}"
            yield Finding(spec.where, "error", "serve-app-args", message, "see serve_apps/ for what the app takes")


def _versions(env: Environment, installed: Mapping[str, Release]) -> Versions:
    from components import versions

    return Versions(
        kubernetes=env.cluster.kubernetes_version or (versions.KUBERNETES if env.cluster.kind == "aws" else None),
        ray=env.versions.ray or versions.RAY,
        vllm=env.versions.vllm or versions.vllm_for(env.versions.ray or versions.RAY),
        python=env.versions.python or versions.PYTHON,
        cuda=env.versions.cuda or versions.CUDA,
        kuberay=_version(installed, "kuberay-operator"),
        kai=_version(installed, "kai-scheduler"),
        volcano=_version(installed, "volcano"),
        gpu_operator=_version(installed, "gpu-operator"),
        karpenter=_version(installed, "karpenter"),
    )


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
    facts = next((e for e in workload.engines if e.model_id == engine.name and e.role == engine.role), None)
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
        memory=memory.plan(facts, engine.pool, pods, stack.models) if facts else None,
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
