"""From resources to facts: each resource to its reader, and what readers cannot see alone joined here.

`read` gives the facts that rules judge. `reading` also tells which resource each fact came from, and what is not known yet.
Not for: judging, or the order in which resources are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import aws, helm, karpenter, node_groups, objects, queues, scalers, sharing
from .quantities import items, mapping
from .records.nodes import NodePool
from .records.stack import AwsResource, Object, Queue, Release, Stack, Versions
from .records.values import Values
from .records.workloads import Workload
from .wire import Guess, Resource

EMPTY = Stack()
_MANIFEST = ("spec", "metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations")
_CLASS = tuple(
    f"spec.{key}"
    for key in (
        "amiSelectorTerms",
        "amiFamily",
        "blockDeviceMappings",
        "metadataOptions",
        "instanceStorePolicy",
        "networkInterfaces",
    )
)
_JUDGED_KINDS = frozenset(
    {
        "ComputeDomain",
        "Service",
        "Ingress",
        "HTTPRoute",
        "TCPRoute",
        "VirtualService",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "Pod",
        "Gateway",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodMonitor",
        "ReferenceGrant",
        "ScaledObject",
        "SecurityPolicy",
        "ServiceMonitor",
    }
)
"""Kinds of plain objects whose spec the rules read."""
_SCHEDULERS = {"kai-scheduler": "kai", "": "none"}  # names of batchScheduler.name that differ from ours
_TAG = re.compile(r":v?(\d+\.\d+\.\d+[^@/]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKnown:
    """Values of one resource that rules would read and that cannot be known yet."""

    where: str
    urn: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Facts, and where they came from. origins: place of a fact -> URN."""

    stack: Stack
    origins: Mapping[str, str] = field(default_factory=dict)
    not_known: tuple[NotKnown, ...] = ()

    def origin(self, place: str) -> str:
        """URN of the resource a finding is about; "" where it is about none alone."""
        while place:
            if place in self.origins:
                return self.origins[place]
            place = place.rpartition(": ")[0]
        return ""


def read(resources: Iterable[Resource], known: Stack = EMPTY) -> Stack:
    """Facts of the resources. `known` is what else there is: pools, queues, versions of other stacks."""
    return reading(resources, known).stack


def reading(resources: Iterable[Resource], known: Stack = EMPTY, guess: Guess = None) -> Reading:
    """Facts with their origins. With `guess`, unknown values are taken to be that (see wire.GUESSES), else they are left out."""
    # By URN: a program registers in any order, and the facts must be the same each time.
    ordered = sorted(resources, key=lambda each: each.urn)
    given = [each.guessed(guess) if guess is not None else each for each in ordered]
    reader = _Reader(given)
    for each in given:
        reader.take(each)
    return reader.finish(known)


class _Reader:
    """One pass over the resources; what needs a second look is done in finish()."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self.found = aws.Found(resources)
        self.resources = resources
        self.classes = {
            str(mapping(m.get("metadata")).get("name", "")): m
            for m in (each.manifest for each in resources)
            if m is not None and karpenter.is_class(m)
        }
        self.children: dict[str, list[Values]] = {}
        for each in resources:
            if each.parent and each.manifest is not None:
                self.children.setdefault(each.parent, []).append(each.manifest)
        self.workloads: list[Workload] = []
        self.pools: list[NodePool] = []
        self.queues: list[Queue] = []
        self.releases: list[Release] = []
        self.objects: list[Object] = []
        self.aws: list[AwsResource] = []
        self.gateway_class: str | None = None
        self.origins: dict[str, str] = {}
        self.not_known: list[NotKnown] = []

    def take(self, resource: Resource) -> None:
        """Hand the resource to its reader."""
        manifest = resource.manifest
        if manifest is not None:
            self._object(resource, manifest)
        elif resource.type.startswith("aws:"):
            self._aws(resource)
        elif resource.type == helm.RELEASE or resource.type in helm.CHARTS:
            release = helm.read(resource)
            if release is not None:
                self.releases.append(release)
            elif resource.type in helm.CHARTS and resource.urn:
                self.releases.extend(helm.rendered(resource, self.children.get(resource.urn, ())))
            self._from(resource, helm.where(resource), helm.JUDGED)

    def _object(self, resource: Resource, manifest: Values) -> None:
        queue = queues.read(manifest)
        fields: tuple[str, ...] = _MANIFEST
        if queue is not None:
            self.queues.append(queue)
            self.objects.append(replace(objects.read(manifest), where=queue.where))
            place = queue.where
        elif objects.is_workload(manifest):
            workload = objects.workload(manifest)
            self.workloads.append(workload)
            place = workload.where
        elif karpenter.is_pool(manifest):
            pool = self._unique(karpenter.read(manifest, self.classes))
            self.pools.append(pool)
            self.objects.append(objects.read(manifest))
            place = pool.where
        else:
            self.gateway_class = self.gateway_class or queues.gateway_class(manifest)
            thing = objects.read(manifest)
            if policy := helm.of_cluster_policy(thing):
                self.releases.append(policy)
            self.objects.append(thing)
            place = thing.where
            fields = _CLASS if karpenter.is_class(manifest) else _MANIFEST if thing.kind in _JUDGED_KINDS else ()
        self._from(resource, place, fields)

    def _aws(self, resource: Resource) -> None:
        thing = aws.anything(resource, self.found)
        self.aws.append(thing)
        pool = None
        if resource.type == aws.NODE_GROUP:
            pool = node_groups.managed(resource, self.found)
        elif resource.type == aws.AUTO_SCALING_GROUP:
            pool = node_groups.self_managed(resource, self.found)
        if pool is not None:
            pool = self._unique(pool)
            self.pools.append(pool)
            self.origins.setdefault(pool.where, resource.urn)
        self.origins.setdefault(thing.where, resource.urn)
        self._from(resource, pool.where if pool else thing.where, aws.JUDGED.get(resource.type, ()))

    def _unique(self, pool: NodePool) -> NodePool:
        """Two pools of one name, of two clusters say, are told apart by a number."""
        taken = {each.name for each in self.pools}
        if pool.name not in taken:
            return pool
        name = next(f"{pool.name}-{n}" for n in range(2, len(taken) + 3) if f"{pool.name}-{n}" not in taken)
        return replace(pool, name=name, where=f"node pool '{name}'")

    def _from(self, resource: Resource, place: str, fields: Sequence[str]) -> None:
        self.origins.setdefault(place, resource.urn)
        paths = tuple(path for path in resource.unknown if any(_touches(path, each) for each in fields))
        if paths:
            self.not_known.append(NotKnown(where=place, urn=resource.urn, paths=paths))

    def finish(self, known: Stack) -> Reading:
        """Join: sharing from device plugins into pools, versions and switches from releases."""
        releases = (*known.releases, *self.releases)
        charts = {release.chart.rstrip("/").rsplit("/", 1)[-1]: release for release in releases}
        seen = {name: release for name, release in charts.items() if release.values_known}
        operator = next((o for o in self.objects if o.kind == "Deployment" and o.name == "kuberay-operator"), None)
        pools = sharing.apply((*known.pools, *self.pools), releases, self.objects)
        kai = seen.get("kai-scheduler")
        stack = replace(
            known,
            workloads=(*known.workloads, *scalers.apply(self.workloads, self.objects)),
            pools=pools,
            queues=(*known.queues, *self.queues),
            releases=releases,
            objects=(*known.objects, *self.objects),
            aws=(*known.aws, *self.aws),
            versions=self._versions(known.versions, charts, operator),
            batch_scheduler=known.batch_scheduler or _batch_scheduler(seen.get("kuberay-operator"), operator),
            gpu_sharing_enabled=(
                mapping(kai.values.get("global")).get("gpuSharing") is True if kai else known.gpu_sharing_enabled
            ),
            gpu_sharing=sharing.by_default(releases, self.objects),
            autoscaler=known.autoscaler or self._autoscaler(charts),
            gateway_class=self.gateway_class or known.gateway_class,
            cluster="aws" if self.found.of_type(aws.CLUSTER) else known.cluster,
            zones=aws.private_zones(self.resources) or known.zones,
        )
        return Reading(stack=stack, origins=self.origins, not_known=tuple(self.not_known))

    def _autoscaler(self, charts: Mapping[str, Release]) -> str | None:
        if "karpenter" in charts or any(pool.kind == "karpenter" for pool in self.pools):
            return "karpenter"
        return "cluster_autoscaler" if "cluster-autoscaler" in charts else None

    def _versions(self, known: Versions, charts: Mapping[str, Release], operator: Object | None) -> Versions:
        labels = helm.charts_by_label(each.manifest for each in self.objects)

        def version(chart: str) -> str | None:
            release = charts.get(chart)
            given = (release.version if release else None) or labels.get(chart)
            return given.removeprefix("v") if given else None

        kuberay = version("kuberay-operator") or (_image_version(operator) if operator else None)
        providers = {each.type.split(":")[0]: each.provider_version for each in self.resources if each.provider_version}
        return Versions(
            kubernetes=aws.kubernetes_version(self.resources) or known.kubernetes,
            ray=known.ray,
            vllm=known.vllm,
            python=known.python,
            cuda=known.cuda,
            kuberay=kuberay or known.kuberay,
            kai=version("kai-scheduler") or known.kai,
            volcano=version("volcano") or known.volcano,
            gpu_operator=version("gpu-operator") or known.gpu_operator,
            karpenter=version("karpenter") or known.karpenter,
            pulumi_kubernetes=providers.get("kubernetes") or known.pulumi_kubernetes,
            pulumi_aws=providers.get("aws") or known.pulumi_aws,
        )


def _touches(path: str, judged: str) -> bool:
    """Whether an unknown path is, holds or lies in a judged one."""
    return (
        path == judged or path.startswith((judged + ".", judged + "[")) or judged.startswith((path + ".", path + "["))
    )


def _main_container(deployment: Object) -> Values:
    pod = mapping(mapping(deployment.spec.get("template")).get("spec"))
    return mapping(next(iter(items(pod.get("containers"))), {}))


def _image_version(deployment: Object) -> str | None:
    match = _TAG.search(str(_main_container(deployment).get("image", "")))
    return match[1] if match else None


def _batch_scheduler(release: Release | None, operator: Object | None) -> str | None:
    """The scheduler that KubeRay hands pods to, from its chart's values or its command line; None without an operator to see."""
    if release is not None:
        settings = mapping(release.values.get("batchScheduler"))
        name = str(settings.get("name") or ("volcano" if settings.get("enabled") is True else ""))
        return _SCHEDULERS.get(name, name)
    if operator is None:
        return None
    main = _main_container(operator)
    words = [str(word) for word in (*items(main.get("command")), *items(main.get("args")))]
    named = next((word.partition("=")[2] for word in words if word.lstrip("-").startswith("batch-scheduler=")), "")
    if not named and any(word.lstrip("-").startswith("enable-batch-scheduler") for word in words):
        named = "volcano"
    return _SCHEDULERS.get(named, named)
