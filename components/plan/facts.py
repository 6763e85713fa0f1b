"""The facts of an environment, as the rules see them: read back from the objects that would be applied, patches included.

Not for judging, but for what the app's own types refuse, which no rule can see (rules know no app).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from components import node_pools, versions
from components.config import AwsCluster, Environment
from components.derive import startup
from components.derive.spec import ServiceSpec
from components.derive.unread import unread
from components.manifests import releases
from components.manifests.subnets import divide
from components.plan import counting
from policies.facts import AwsResource, Budget, NodePool, Object, Release, Stack, Versions, Workload, scalers
from policies.facts import aws as aws_facts
from policies.facts import objects as object_facts
from policies.facts import ray as ray_facts
from policies.facts import vllm as vllm_facts
from policies.finding import Finding
from serve_apps import APPS, App


def stack(
    env: Environment,
    specs: tuple[ServiceSpec, ...],
    manifests: Mapping[str, list[dict[str, Any]]],
    pools: tuple[NodePool, ...],
    asked: Mapping[str, list[counting.Demand]],
) -> Stack:
    """Everything there is to judge."""
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
        namespaces=tuple(spec.config.namespace for spec in specs if spec.config.create_namespace),
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
    image = {"python": spec.python_version, "vllm": spec.vllm_version, "cuda": spec.cuda_version}
    groups = {f"{engine.name}/{engine.role}": engine.group for engine in spec.engines}
    timeout = startup.ready_timeout(spec)
    if spec.config.kind == "vllm":
        return vllm_facts.read(objects[0], where=spec.where, versions=image, ready_timeout_seconds=timeout)
    return ray_facts.read(
        objects[0], where=spec.where, engine_groups=groups, versions=image, ready_timeout_seconds=timeout
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


def app_args(specs: tuple[ServiceSpec, ...], judged: Stack) -> Iterator[Finding]:
    """What the app's own types refuse. Judged as written into the manifest, patches included."""
    for spec, workload in zip(specs, judged.workloads, strict=True):
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
