"""Reader of Helm releases and charts: helm.v3.Release, helm.v4.Chart, and the chart that helm.v3.Chart's children name.

Not for: what a chart renders, or its default values (the rules know the defaults they judge).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from .quantities import items, mapping, whole
from .records.stack import Object, Release
from .records.values import Values
from .wire import Resource

RELEASE = "kubernetes:helm.sh/v3:Release"
CHARTS = ("kubernetes:helm.sh/v4:Chart", "kubernetes:helm.sh/v3:Chart", "kubernetes:helm.sh/v2:Chart")
JUDGED = ("chart", "version", "name", "namespace", "repositoryOpts", "values", "valueYamlFiles", "atomic", "timeout")
"""Properties that the rules read; what is unknown among them is worth telling."""
CHART_LABEL = "helm.sh/chart"
_NAME_AND_VERSION = re.compile(r"(?P<name>.+?)-(?P<version>v?\d+\.\d+\.\d+.*)")


def read(resource: Resource) -> Release | None:
    """The release; None for another type, and where the values as a whole are not known: defaults in their place would lie.

    Chart resources register no inputs with the engine, so of those `rendered` sees what there is to see.
    """
    if resource.type != RELEASE and resource.type not in CHARTS:
        return None
    props = resource.props
    values = _values(props)
    if not props.get("chart") or values is None or "values" in resource.unknown:
        return None
    repository = mapping(props.get("repositoryOpts")).get("repo")
    release = resource.type == RELEASE
    return Release(
        name=str(props.get("name") or resource.name),
        where=where(resource),
        chart=str(props["chart"]),
        version=str(props["version"]) if props.get("version") else None,
        repository=str(repository) if repository else None,
        namespace=str(props["namespace"]) if props.get("namespace") else None,
        values=values,
        kind="release" if release else "chart",
        atomic=props.get("atomic") is True if release else None,
        timeout_seconds=whole(props.get("timeout")) if release else None,
    )


def of_cluster_policy(item: Object) -> Release | None:
    """GPU Operator's ClusterPolicy as a release of its chart, whose values it is made from; None for any other object."""
    if item.kind != "ClusterPolicy" or not item.api_version.startswith("nvidia.com/"):
        return None
    return Release(
        name=item.name,
        where=item.where,
        chart="gpu-operator",
        version=None,
        repository=None,
        namespace=None,
        values=item.spec,
        kind="manifests",
    )


def _values(props: Values) -> dict[str, Any] | None:
    """valueYamlFiles in their order, then values over them; None when a file cannot be read from here."""
    merged: dict[str, Any] = {}
    for asset in map(mapping, items(props.get("valueYamlFiles"))):
        try:
            text = asset["text"] if "text" in asset else Path(str(asset["path"])).read_text(encoding="utf-8")
            merged = _merged(merged, mapping(yaml.safe_load(text)))
        except (KeyError, OSError, yaml.YAMLError):
            return None
    return _merged(merged, mapping(props.get("values")))


def _merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Maps into maps, all else replaced: Helm's own way (chartutil.CoalesceTables)."""
    result = dict(low)
    for key, value in high.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merged(result[key], value) if both else value
    return result


def where(resource: Resource) -> str:
    """The place in a message, by Pulumi's name: Helm's own may be generated."""
    return f"Helm {'release' if resource.type == RELEASE else 'chart'} '{resource.name}'"


def rendered(chart: Resource, children: Iterable[Values]) -> list[Release]:
    """What a Chart resource rendered, by the labels of its objects: chart and version, and no values."""
    return [
        Release(
            name=chart.name,
            where=where(chart),
            chart=name,
            version=version,
            repository=None,
            namespace=None,
            values={},
            values_known=False,
            kind="chart",
        )
        for name, version in sorted(charts_by_label(children).items())
    ]


def charts_by_label(manifests: Iterable[Values]) -> dict[str, str]:
    """Chart -> version, from the label that nearly every chart puts on its objects: what rendered YAML tells of its source."""
    found: dict[str, str] = {}
    for manifest in manifests:
        label = mapping(mapping(manifest.get("metadata")).get("labels")).get(CHART_LABEL)
        match = _NAME_AND_VERSION.fullmatch(str(label)) if label else None
        if match:
            found.setdefault(match["name"], match["version"].replace("_", "+"))
    return found
