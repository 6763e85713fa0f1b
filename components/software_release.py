"""One piece of cluster software: its CRDs, its Helm release, and the objects that make it useful (a GatewayClass, dashboards).

Not for deciding what is installed or with which values (manifests/releases.py), nor for the order (cluster_software.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components import crds
from components.config import deep_merge
from components.versions import Chart
from policies.facts import Release


class SoftwareRelease(pulumi.ComponentResource):
    """`ready`: what a later step waits for; everything this component makes.

    release: the fact that the plan judged; it is created as it stands.
    cluster_values: values that only the cluster knows (its name, a queue); they never override a derived or stated one.
    crd_chart: CRDs that are published as a chart of their own, with the values of that chart.
    objects: manifests applied after the release, a parent before its children.
    after: what must be there first; each resource inside says so itself, or on destroy nothing would know the order.
    settled: an object of the release to wait for, with its condition, where the chart's own workloads come up later.
    """

    ready: tuple[pulumi.Resource, ...]

    def __init__(
        self,
        name: str,
        *,
        release: Release,
        chart: Chart,
        cluster_values: Mapping[str, Any],
        crd_chart: tuple[Chart, Mapping[str, Any]] | None = None,
        objects: Sequence[Mapping[str, Any]] = (),
        settled: tuple[Mapping[str, Any], str] | None = None,
        after: Sequence[pulumi.Resource],
        crd_provider: Callable[[], k8s.Provider],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__(f"llm-serving:software:{_camel(name)}", name, {}, opts)
        steps: list[pulumi.Resource] = self._crds(name, release, chart, crd_chart, after, crd_provider)
        own_crds = bool(steps)
        installed = k8s.helm.v3.Release(
            name,
            name=release.name,
            namespace=release.namespace,
            create_namespace=True,
            chart=release.chart,
            version=release.version,
            repository_opts=(
                k8s.helm.v3.RepositoryOptsArgs(repo=release.repository) if release.repository is not None else None
            ),
            values=deep_merge(dict(cluster_values), dict(release.values)),
            atomic=release.atomic,
            cleanup_on_fail=release.atomic,
            timeout=release.timeout_seconds,
            skip_crds=own_crds,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*after, *steps]),
        )
        steps.append(installed)
        if settled is not None:
            steps.append(self._settled(name, *settled, after=installed))
        self.ready = (*steps, *apply_all(name, objects, steps, self))
        self.register_outputs({})

    def _crds(
        self,
        name: str,
        release: Release,
        chart: Chart,
        crd_chart: tuple[Chart, Mapping[str, Any]] | None,
        after: Sequence[pulumi.Resource],
        provider: Callable[[], k8s.Provider],
    ) -> list[pulumi.Resource]:
        if not chart.crds and crd_chart is None:
            return []
        opts = pulumi.ResourceOptions(parent=self, provider=provider(), depends_on=list(after))
        version = (release.version or chart.version).removeprefix("v")
        made: list[pulumi.Resource] = []
        if chart.crds:
            made.append(crds.from_files(f"{name}-crds", [each.format(version=version) for each in chart.crds], opts))
        if crd_chart is not None:
            their, values = crd_chart
            # Both are released together: a stated version of one is the version of the other.
            wanted = release.version or their.version
            made.append(crds.from_chart(f"{name}-crds", their, wanted, values, opts))
        return made

    def _settled(
        self, name: str, target: Mapping[str, Any], condition: str, *, after: pulumi.Resource
    ) -> pulumi.Resource:
        metadata = {**target["metadata"], "annotations": {"pulumi.com/waitFor": f"condition={condition}"}}
        patch: pulumi.Resource = k8s.apiextensions.CustomResourcePatch(
            f"{name}-settled",
            api_version=target["apiVersion"],
            kind=target["kind"],
            metadata=metadata,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[after], retain_on_delete=True),
        )
        return patch


def apply_all(
    prefix: str, manifests: Sequence[Mapping[str, Any]], after: Sequence[pulumi.Resource], parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """Apply objects, each after the one it names; those that name none at once (hundreds of queues in a row take minutes)."""
    made: dict[str, pulumi.Resource] = {}
    for manifest in manifests:
        named = made.get(_named(manifest) or "")
        opts = pulumi.ResourceOptions(parent=parent, depends_on=[*after, *([named] if named is not None else [])])
        made[manifest["metadata"]["name"]] = apply(prefix, manifest, opts)
    return list(made.values())


def apply(prefix: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Apply one object as it stands."""
    metadata = manifest["metadata"]
    kind = manifest["kind"].lower()
    name = f"{prefix}-{metadata['name']}" if prefix == kind else f"{prefix}-{kind}-{metadata['name']}"
    made: pulumi.Resource
    if manifest["kind"] == "ConfigMap":
        made = k8s.core.v1.ConfigMap(name, metadata=metadata, data=manifest["data"], opts=opts)
    else:
        made = k8s.apiextensions.CustomResource(
            name,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata=metadata,
            spec=manifest["spec"],
            opts=opts,
        )
    return made


def _named(manifest: Mapping[str, Any]) -> str | None:
    """The object that must be there before this one: a queue's parent (KAI, Volcano), a GatewayClass' parameters."""
    spec = manifest.get("spec", {})
    found = spec.get("parentQueue") or spec.get("parent") or spec.get("parametersRef", {}).get("name")
    return found if isinstance(found, str) else None


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))
