"""The cluster software of an environment, in order: what others need first, workloads' needs last.

monitoring (its CRDs let others be scraped) -> GPU Operator, DRA driver, EFA, load balancers, node autoscaler and Karpenter's pools ->
batch scheduler and its queues -> Gateway -> KubeRay. On destroy the same in reverse, after the workloads are gone.
Not for deciding what is installed (manifests/releases.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components import versions
from components.cluster import Cluster
from components.config import AwsCluster, Environment
from components.kuberay_manifests import KubeRayManifests
from components.manifests import autoscaler, aws_addons, dashboards, gateway, releases
from components.manifests.releases import Part
from components.queues import Queues
from components.software_release import SoftwareRelease
from policies.facts import NodePool, Release

# Chart -> charts that must be there before it, where they are installed.
AFTER: Mapping[str, tuple[str, ...]] = {
    "aws-efa-k8s-device-plugin": (),
    "aws-load-balancer-controller": ("kube-prometheus-stack",),
    "cluster-autoscaler": ("kube-prometheus-stack",),
    # The operator's feature discovery gives nodes the labels by which the driver knows them (nvidia.com/gpu.clique).
    "dra-driver-nvidia-gpu": ("gpu-operator",),
    # Its webhook and reservation pods name the RuntimeClass that the GPU Operator makes (KAI-Scheduler#340).
    "kai-scheduler": ("gpu-operator",),
    "gateway-helm": (),
    "gpu-operator": ("kube-prometheus-stack",),
    "karpenter": ("kube-prometheus-stack",),
    "keda": ("kube-prometheus-stack",),
    "kube-prometheus-stack": (),
    # It watches PodGroups from its start, and ends when their CRD is not there.
    "kuberay-operator": ("kube-prometheus-stack", "kai-scheduler", "volcano", "queues", "gateway-helm"),
    "volcano": (),
    "volcano-vgpu-device-plugin": ("gpu-operator", "volcano"),
}
SCHEDULERS: Mapping[str, str] = {"kai": "kai-scheduler", "volcano": "volcano"}
"""Batch schedulers with queues of their own -> their chart."""
# Components that only exist once an operator has made them: without the wait, the first queue meets a webhook without pods.
SETTLED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "kai-scheduler": (
        {"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "kai-config"}},
        "Available",
    )
}


@dataclass(frozen=True, kw_only=True)
class ClusterSoftware:
    """ready: everything; workloads wait for it. by_chart: the same by chart, for whoever needs one of them."""

    ready: tuple[pulumi.Resource, ...]
    by_chart: Mapping[str, tuple[pulumi.Resource, ...]]


def build(env: Environment, pools: Sequence[NodePool], cluster: Cluster) -> ClusterSoftware:
    """Install everything that the environment needs on `cluster`."""
    made: dict[str, tuple[pulumi.Resource, ...]] = {}
    installed = releases.installed(env, pools)
    scheduler = SCHEDULERS.get(env.software.batch_scheduler)
    if scheduler is not None and scheduler not in {part.chart.name for part, _ in installed}:
        made["queues"] = _queues(env, pools, cluster, cluster.ready)
    for part, release in installed:
        name = part.chart.name
        after = [*cluster.ready, *(resource for chart in AFTER[name] for resource in made.get(chart, ()))]
        opts = pulumi.ResourceOptions(provider=cluster.provider)
        if release.kind == "manifests":
            made[name] = KubeRayManifests(name, env=env, after=after, opts=opts).ready
            continue
        made[name] = SoftwareRelease(
            name,
            release=release,
            chart=part.chart,
            cluster_values=_cluster_values(name, cluster),
            crd_chart=_crd_chart(part, env, pools),
            objects=_objects(part, release, env),
            settled=SETTLED.get(name),
            after=after,
            crd_provider=lambda: cluster.crd_provider,
            opts=opts,
        ).ready
        if name == scheduler:
            made["queues"] = _queues(env, pools, cluster, made[name])
    if isinstance(env.cluster, AwsCluster):
        from components import aws

        made["karpenter-pools"] = aws.karpenter_pools(env, pools, cluster, made.get("karpenter", ()))
    everything = [*cluster.ready, *(resource for resources in made.values() for resource in resources)]
    return ClusterSoftware(ready=tuple(everything), by_chart=made)


def _queues(
    env: Environment, pools: Sequence[NodePool], cluster: Cluster, after: Sequence[pulumi.Resource]
) -> tuple[pulumi.Resource, ...]:
    opts = pulumi.ResourceOptions(provider=cluster.provider)
    return Queues("queues", manifests=releases.queues(env, pools), after=after, opts=opts).ready


def _cluster_values(chart: str, cluster: Cluster) -> dict[str, Any]:
    """Values that only a made cluster knows."""
    if chart not in ("karpenter", "cluster-autoscaler", "aws-load-balancer-controller"):
        return {}
    from components.aws import EksEnvironment

    if not isinstance(cluster, EksEnvironment):
        return {}
    match chart:
        case "karpenter":
            queue = cluster.karpenter.queue_name if cluster.karpenter else None
            return autoscaler.karpenter_for_cluster(cluster.eks.name, queue)
        case "cluster-autoscaler":
            return autoscaler.cluster_autoscaler_for_cluster(cluster.eks.name)
        case _:
            return aws_addons.load_balancer_controller_for_cluster(cluster.eks.name, cluster.subnets.vpc_id)


def _crd_chart(
    part: Part, env: Environment, pools: Sequence[NodePool]
) -> tuple[versions.Chart, Mapping[str, Any]] | None:
    match part.chart.name:
        case "karpenter":
            return versions.KARPENTER_CRDS, {}
        case "gateway-helm":
            return versions.GATEWAY_CRDS, gateway.crd_values(env, pools)
        case _:
            return None


def _objects(part: Part, release: Release, env: Environment) -> list[dict[str, Any]]:
    match part.chart.name:
        case "gateway-helm":
            return gateway.objects(env, release.namespace or part.chart.namespace)
        case "kube-prometheus-stack":
            return dashboards.config_maps(release.namespace or part.chart.namespace)
        case _:
            return []
