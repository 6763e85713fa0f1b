"""Cluster software, Kubernetes and KubeRay's fields and gates: what does not go together is said, what does is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.catalog import versions as table
from policies.facts import Release, Stack, Versions, Workload
from policies.rules.cluster_versions import RULES


def problems(stack: Stack) -> list[str]:
    return [finding.sentence() for rule in RULES for finding in rule.findings(stack)]


def release(chart: str, version: str, **values: Any) -> Release:
    return Release(
        name=chart,
        where=f"software.{chart}",
        chart=chart,
        version=version,
        repository=None,
        namespace=None,
        values=values,
    )


def stack_of(kind: str, spec: dict[str, Any], kuberay: str | None) -> Stack:
    workload = Workload(kind=kind, name="chat", namespace="default", where="service 'chat'", spec=spec)
    return Stack(workloads=(workload,), versions=Versions(kuberay=kuberay))


def test_volcano_on_a_kubernetes_newer_than_its_matrix_is_warned_of() -> None:
    stack = Stack(releases=(release("volcano", "1.15.1"),), versions=Versions(kubernetes="1.36"))
    assert problems(stack) == [
        "software.volcano: volcano 1.15.1 is validated for Kubernetes 1.23 to 1.35, and the cluster has 1.36; "
        "use a version of volcano for it, or another Kubernetes [versions-kubernetes]"
    ]


@pytest.mark.parametrize(
    ("chart", "version", "kubernetes"),
    [
        ("volcano", "1.15.1", "1.35"),
        ("oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler", "v0.17.0", "1.36"),
        ("oci://docker.io/envoyproxy/gateway-helm", "v1.9.0", "1.35.2"),
        ("gpu-operator", "v26.7.0", "1.40"),  # nothing is published for it
        ("karpenter", "1.6.0", "1.36"),  # karpenter's own rule speaks of it
        ("volcano", "0.1", "1.36"),  # older than the table
    ],
)
def test_what_is_validated_or_not_in_the_table_is_no_finding(chart: str, version: str, kubernetes: str) -> None:
    assert problems(Stack(releases=(release(chart, version),), versions=Versions(kubernetes=kubernetes))) == []


def eks(kubernetes: str, **fields: Any) -> list[str]:
    given = Stack(versions=Versions(kubernetes=kubernetes), **{"cluster": "aws", "cluster_made": True, **fields})
    return problems(given)


MEND = "set kubernetes_version to 1.35 or 1.36; a cluster that is there goes up one minor at a time [versions-eks]"


def test_a_minor_out_of_standard_support_costs_more() -> None:
    assert eks("1.33") == [
        "cluster: EKS' standard support of Kubernetes 1.33 ended on 2026-07-29: the control plane costs six times as much, or EKS "
        f"upgrades it by itself; {MEND}"
    ]


def test_a_minor_whose_standard_support_ends_soon_is_said() -> None:
    assert eks("1.34.1") == [
        "cluster: EKS' standard support of Kubernetes 1.34 ends on 2026-12-02: from then on the control plane costs six times as much, or EKS "
        f"upgrades it by itself; {MEND}"
    ]


def test_minors_in_standard_support_and_other_clusters_are_fine() -> None:
    assert [
        eks("1.35"),
        eks("1.36"),
        eks("1.33", cluster="existing"),
        eks("1.33", cluster_made=False, complete=True),
    ] == [[]] * 4


def test_the_dates_of_support_are_in_the_order_of_the_minors_that_eks_offers() -> None:
    minors, dates = list(table.EKS_STANDARD_UNTIL), list(table.EKS_STANDARD_UNTIL.values())
    assert (minors[0], minors[-1]) == (table.EKS_FIRST, table.EKS_LAST)
    assert dates == sorted(dates)


def test_without_a_known_kubernetes_nothing_is_said() -> None:
    assert problems(Stack(releases=(release("volcano", "1.10.0"),))) == []


ROCKSDB = {"rayClusterConfig": {"gcsFaultToleranceOptions": {"backend": "rocksdb", "storage": {"size": "10Gi"}}}}


def test_rocksdb_on_a_kuberay_without_the_fields_is_refused() -> None:
    assert problems(stack_of("RayService", ROCKSDB, "1.6.1")) == [
        "service 'chat': KubeRay 1.6.1 does not know 'spec.rayClusterConfig.gcsFaultToleranceOptions.backend', "
        "'spec.rayClusterConfig.gcsFaultToleranceOptions.storage': the API server drops what a CRD has no field for, without a "
        "word; use KubeRay 1.7 or newer (software.kuberay.version), or leave it out [kuberay-fields]"
    ]


def test_fields_inside_lists_are_found() -> None:
    spec = {"workerGroupSpecs": [{"groupName": "a"}, {"groupName": "b", "priority": 5}]}
    (problem,) = problems(stack_of("RayCluster", spec, "1.6.1"))
    assert "'spec.workerGroupSpecs[].priority'" in problem


@pytest.mark.parametrize(
    ("kind", "spec", "kuberay"),
    [
        ("RayService", ROCKSDB, "1.7.0"),
        ("RayService", {"rayClusterConfig": {"gcsFaultToleranceOptions": {"redisAddress": "r:6379"}}}, "1.6.1"),
        ("RayService", {"upgradeStrategy": {"type": "None"}, "excludeHeadPodFromServeSvc": True}, "1.6.1"),
        ("RayJob", {"rayClusterSpec": {"authOptions": {"mode": "token"}}}, "1.6.1"),
        ("RayCluster", {"workerGroupSpecs": [{"groupName": "a", "priority": None}]}, "1.6.1"),
        ("RayService", ROCKSDB, None),
        ("Deployment", {"suspend": True}, "1.2.0"),
    ],
)
def test_fields_that_the_operator_knows_are_no_finding(kind: str, spec: dict[str, Any], kuberay: str | None) -> None:
    assert problems(stack_of(kind, spec, kuberay)) == []


def test_a_gate_that_is_newer_than_the_operator_is_refused() -> None:
    gated = release(
        "kuberay-operator", "1.6.1", featureGates=[{"name": "GCSFaultToleranceEmbeddedStorage", "enabled": True}]
    )
    (problem,) = problems(Stack(releases=(gated,)))
    assert problem.startswith(
        "software.kuberay-operator: feature gate GCSFaultToleranceEmbeddedStorage came with KubeRay 1.7, and the operator 1.6.1 ends"
    )
    assert problems(Stack(releases=(replace(gated, version="1.7.0"),))) == []


def test_rows_of_a_component_rise_with_its_version() -> None:
    for component in {row.component for row in table.COMPATIBILITY}:
        rows = [row for row in table.COMPATIBILITY if row.component == component]
        order = sorted(rows, key=lambda row: table.numbers(row.since))
        assert rows == order
        assert [table.numbers(row.last) for row in rows] == sorted(table.numbers(row.last) for row in rows)


@pytest.mark.parametrize(
    ("text", "found"), [("v1.15.1", (1, 15, 1)), ("1.36", (1, 36)), ("0.16.5-rc1", (0, 16, 5)), ("x", ())]
)
def test_versions_are_read(text: str, found: tuple[int, ...]) -> None:
    assert table.numbers(text) == found
