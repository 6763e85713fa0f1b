"""CRDs with a life of their own: applied ahead of the software that uses them, upgraded with it, never deleted.

Deleting a CRD deletes every object of its kind, other teams' too; so on destroy they stay, and a later `up` takes them over.
That needs a provider which may update what exists (pulumi-kubernetes >= 4.29: upsert_existing_objects), and server-side
apply, since KubeRay's are larger than client-side apply's annotation allows (256 KiB).
Not for: charts that upgrade their CRDs by a hook (GPU Operator, KAI, kube-prometheus-stack).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.versions import Chart


def from_files(name: str, addresses: Sequence[str], opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """CRDs from YAML files, by path or https address."""
    group: pulumi.Resource = k8s.yaml.v2.ConfigGroup(name, files=list(addresses), opts=_retained(opts))
    return group


def from_folder(name: str, folder: str, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """CRDs from a kustomization."""
    directory: pulumi.Resource = k8s.kustomize.v2.Directory(name, directory=folder, opts=_retained(opts))
    return directory


def from_chart(
    name: str, chart: Chart, version: str, values: Mapping[str, Any], opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    """CRDs from a chart made of nothing else. Not a Release: Helm keeps a release in one Secret, which holds 1 MiB."""
    made: pulumi.Resource = k8s.helm.v4.Chart(
        name,
        chart=f"{chart.repository}/{chart.name}",
        version=version,
        namespace=chart.namespace,
        values=dict(values),
        opts=_retained(opts),
    )
    return made


def _retained(opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(transforms=[retain]))


def retain(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Transform: what is created stays in the cluster when it leaves the stack."""
    if not args.custom:
        return None
    opts = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(retain_on_delete=True))
    return pulumi.ResourceTransformResult(props=args.props, opts=opts)
