"""CRDs with a life of their own: applied ahead of the software that uses them, upgraded with it, never deleted.

Deleting a CRD deletes every object of its kind, other teams' too; so on destroy they stay, and a later `up` takes them over.
Not for: charts that upgrade their CRDs by a hook (GPU Operator, KAI, kube-prometheus-stack).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import yaml

from components.versions import Chart

# The annotation makes Helm leave the CRDs on uninstall. Not in a crds/ folder, which Helm never upgrades.
_TEMPLATE = """\
{{- range $path, $_ := .Files.Glob "files/*.yaml" }}
{{- $crd := $.Files.Get $path | fromYaml }}
{{- $_ := set $crd.metadata.annotations "helm.sh/resource-policy" "keep" }}
---
{{ toYaml $crd }}
{{- end }}
"""


def from_files(name: str, addresses: Sequence[str], opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """CRDs from YAML files at https addresses, by server-side apply: KubeRay's are larger than client-side apply's annotation
    allows (256 KiB). `opts` name a provider that may update what exists (pulumi-kubernetes >= 4.29 refuses otherwise)."""
    group: pulumi.Resource = k8s.yaml.v2.ConfigGroup(name, files=list(addresses), opts=_retained(opts))
    return group


def from_chart(
    name: str, chart: Chart, version: str, values: Mapping[str, Any], opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    """CRDs from a chart made of nothing else. Not a Release: Helm keeps a release in one Secret, which holds 1 MiB, and
    deletes what is in it. `opts` as for `from_files`."""
    made: pulumi.Resource = k8s.helm.v4.Chart(
        name,
        chart=f"{chart.repository}/{chart.name}",
        version=version,
        namespace=chart.namespace,
        values=dict(values),
        opts=_retained(opts),
    )
    return made


def from_folder(
    name: str, files: Sequence[Path], version: str, target: Path, opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    """CRDs from files on this machine, wrapped in a chart at `target`.

    As resources of the engine, KubeRay's four cost 20 seconds of CPU in every `up`; a release is one small resource.
    """
    write_chart(name, files, version, target)
    release: pulumi.Resource = k8s.helm.v3.Release(
        name,
        name=name,
        namespace="kube-system",
        chart=str(target),
        version=version,
        atomic=True,
        take_ownership=True,
        opts=opts,
    )
    return release


def write_chart(name: str, files: Sequence[Path], version: str, target: Path) -> None:
    """A chart of CRDs: the files as they are, and one template that adds the annotation."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "templates").mkdir(parents=True)
    (target / "files").mkdir()
    metadata = {"apiVersion": "v2", "name": name, "version": version, "description": f"CRDs of release {version}"}
    (target / "Chart.yaml").write_text(yaml.safe_dump(metadata, sort_keys=True), encoding="utf-8")
    (target / "templates" / "crds.yaml").write_text(_TEMPLATE, encoding="utf-8")
    for file in files:
        shutil.copyfile(file, target / "files" / file.name)


def _retained(opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    """The objects inside inherit it from their group."""
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(retain_on_delete=True))
