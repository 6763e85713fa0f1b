"""Cluster software against the cluster's Kubernetes, and custom resources against the KubeRay or Karpenter that reads them.

Not for: Karpenter's own Kubernetes versions (karpenter.py), or versions inside the images (versions.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from policies.catalog.versions import (
    CHECKED_ON,
    EKS_FIRST,
    EKS_LAST,
    EKS_STANDARD_UNTIL,
    KARPENTER_FIELDS,
    KUBERAY_CLUSTER_FIELDS,
    KUBERAY_GATES,
    KUBERAY_OWN_FIELDS,
    numbers,
    support,
)
from policies.facts import Stack, Values, Workload
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import before, chart_name, dig, listed, releases

_SOON = timedelta(days=90)
_CLUSTER_SPEC = {"RayCluster": None, "RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}


def kubernetes(stack: Stack) -> Iterator[Problem]:
    cluster = numbers(stack.versions.kubernetes or "")[:2]
    if not cluster:
        return
    for release in stack.releases:
        name = chart_name(release)
        row = support(name, release.version or "")
        if row is None or name == "karpenter":
            continue
        if not numbers(row.first) <= cluster <= numbers(row.last):
            yield warning(
                release.where,
                f"{name} {release.version} is validated for Kubernetes {row.first} to {row.last}, and the cluster has {stack.versions.kubernetes}",
                f"use a version of {name} for it, or another Kubernetes",
            )


def eks(stack: Stack) -> Iterator[Problem]:
    minor = numbers(stack.versions.kubernetes or "")[:2]
    if not minor or stack.cluster != "aws" or (stack.complete and not stack.cluster_made):
        return
    if minor < numbers(EKS_FIRST):
        yield error(
            "cluster",
            f"EKS makes no cluster of Kubernetes {stack.versions.kubernetes} any more: {EKS_FIRST} is the oldest in extended support",
            f"use {EKS_FIRST} to {EKS_LAST}",
        )
    elif minor > numbers(EKS_LAST):
        yield warning(
            "cluster",
            f"Kubernetes {stack.versions.kubernetes} is newer than what EKS was known to offer on {CHECKED_ON} ({EKS_LAST})",
            "see `aws eks describe-cluster-versions`, which `make preflight` asks as well",
        )
    else:
        yield from _standard_support(".".join(map(str, minor)))


def _standard_support(minor: str) -> Iterator[Problem]:
    """By the catalog's date and not by the clock: the same config has the same findings until the catalog is looked through again."""
    end, today = date.fromisoformat(EKS_STANDARD_UNTIL[minor]), date.fromisoformat(CHECKED_ON)
    later = [each for each, until in EKS_STANDARD_UNTIL.items() if date.fromisoformat(until) - today > _SOON]
    use = f"set kubernetes_version to {' or '.join(later)}; a cluster that is there goes up one minor at a time"
    if end <= today:
        yield warning(
            "cluster",
            f"EKS' standard support of Kubernetes {minor} ended on {end}: the control plane costs six times as much, or EKS upgrades it by itself",
            use,
        )
    elif end - today <= _SOON:
        yield warning(
            "cluster",
            f"EKS' standard support of Kubernetes {minor} ends on {end}: from then on the control plane costs six times as much, or EKS upgrades it by itself",
            use,
        )


def fields(stack: Stack) -> Iterator[Problem]:
    kuberay = stack.versions.kuberay
    if kuberay is None:
        return
    for workload in stack.workloads:
        found = list(_newer(workload, kuberay))
        if found:
            names = listed([name for name, _ in found])
            least = max((minor for _, minor in found), key=numbers)
            yield error(
                workload.where,
                f"KubeRay {kuberay} does not know {names}: the API server drops what a CRD has no field for, without a word",
                f"use KubeRay {least} or newer (software.kuberay.version), or leave it out",
            )


def _newer(workload: Workload, kuberay: str) -> Iterator[tuple[str, str]]:
    """(path in the custom resource, first minor) of every field that is set and unknown to this KubeRay."""
    if workload.kind not in _CLUSTER_SPEC:
        return
    inside = _CLUSTER_SPEC[workload.kind]
    cluster = mapping(workload.spec.get(inside)) if inside else workload.spec
    own = KUBERAY_OWN_FIELDS.get(workload.kind, {})
    for prefix, spec, table in (
        (f"{inside}." if inside else "", cluster, KUBERAY_CLUSTER_FIELDS),
        ("", workload.spec, own),
    ):
        for minor, paths in table.items():
            if before(kuberay, minor):
                yield from ((f"spec.{prefix}{path}", minor) for path in paths if _is_set(spec, path))


def _is_set(values: Values, path: str) -> bool:
    key, _, rest = path.partition(".")
    value: Any = values.get(key.removesuffix("[]"))
    if value is None:
        return False
    if not rest:
        return True
    inner = items(value) if key.endswith("[]") else [value]
    return any(isinstance(each, Mapping) and _is_set(each, rest) for each in inner)


def karpenter_fields(stack: Stack) -> Iterator[Problem]:
    karpenter = stack.versions.karpenter
    if karpenter is None:
        return
    for where, kind, spec in _karpenter_objects(stack):
        newer = [
            (f"spec.{path}", minor)
            for minor, paths in KARPENTER_FIELDS[kind].items()
            if before(karpenter, minor)
            for path in paths
            if _is_set(spec, path)
        ]
        if newer:
            names, least = listed([name for name, _ in newer]), max((minor for _, minor in newer), key=numbers)
            yield error(
                where,
                f"Karpenter {karpenter} does not know {names} of {kind}: the API server drops what a CRD has no field for, and nodes start without it",
                f"use Karpenter {least} or newer (software.autoscaler.version), or do without what it is for",
            )


def _karpenter_objects(stack: Stack) -> Iterator[tuple[str, str, Values]]:
    """(where, kind, spec): the objects that are declared; of pools whose objects come later, what these will have."""
    classes = stack.of_kind("EC2NodeClass")
    for each in classes:
        yield each.where, each.kind, each.spec
    for pool in stack.pools:
        if pool.kind != "karpenter":
            continue
        if pool.fixed:
            yield pool.where, "NodePool", {"replicas": pool.desired or pool.min}
        if stack.complete and not classes:
            spec: dict[str, Any] = {}
            if pool.efa:  # one interface for each network card, in a cluster placement group
                spec = {"networkInterfaces": [{}], "placementGroupSelector": {}}
            if pool.reservation is not None:
                spec["capacityReservationSelectorTerms"] = [{"id": pool.reservation}]
            yield pool.where, "EC2NodeClass", spec


def gates(stack: Stack) -> Iterator[Problem]:
    for release in releases(stack, "kuberay-operator"):
        named = [str(mapping(gate).get("name")) for gate in items(dig(release.values, "featureGates"))]
        for name in named:
            first = KUBERAY_GATES.get(name)
            if first is not None and before(release.version, first):
                yield error(
                    release.where,
                    f"feature gate {name} came with KubeRay {first}, and the operator {release.version} ends at a gate that it does not know",
                    f"use KubeRay {first} or newer, or do without what needs the gate",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="versions-kubernetes",
        title="Cluster software is validated for the cluster's Kubernetes",
        why=(
            "Schedulers and gateways are built against one Kubernetes client and tested on a range of versions. Outside of it they often work, until an API "
            "they watch is gone."
        ),
        check=kubernetes,
        sources=("KAI-Scheduler: SUPPORT.md", "volcano: README.md", "envoyproxy/gateway: releases/matrix.md"),
    ),
    Rule(
        id="versions-eks",
        title="EKS offers the Kubernetes version, and supports it for a while",
        why=(
            "EKS supports a minor for 14 months and for 12 more at six times the price, then upgrades the cluster by itself and makes no new one. What it does "
            "not offer is refused when the control plane is created, after the network was made."
        ),
        check=eks,
        sources=(
            "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html",
            "aws-samples/sample-aws-genai-ops-demos#84",
        ),
    ),
    Rule(
        id="kuberay-fields",
        title="Every field is known to the KubeRay that reads it",
        why=(
            "Unknown fields of a custom resource are pruned by the API server. Fault tolerance by rocksdb on KubeRay 1.6 is then no fault tolerance, and nothing says so."
        ),
        check=fields,
        sources=("kuberay: CRDs of v1.2.2 to v1.7.0 compared",),
    ),
    Rule(
        id="karpenter-fields",
        title="Every field of a Karpenter pool is known to the Karpenter that reads it",
        why=(
            "Unknown fields of a custom resource are pruned by the API server. On an older Karpenter a pool of EFA nodes gets nodes with one interface and outside of "
            "the placement group, and a reservation is paid for and not used; nothing says so."
        ),
        check=karpenter_fields,
        sources=("karpenter-provider-aws: pkg/apis/crds of v1.0.0 to v1.14.1 compared",),
    ),
    Rule(
        id="kuberay-gate-version",
        title="Every feature gate is known to the KubeRay that gets it",
        why="The operator parses its gates at start and exits on one that it does not know; all Ray resources of the cluster then stand still.",
        check=gates,
        sources=("kuberay: ray-operator/main.go, pkg/features/features.go",),
    ),
)
