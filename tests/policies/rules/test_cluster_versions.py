"""Cluster software, Kubernetes and KubeRay's fields and gates: what does not go together is said, what does is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.catalog import versions as table
from policies.facts import NodePool, Object, Release, Stack, Versions, Workload
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


EFA_POOL = NodePool(name="h100", where="node pool 'h100'", kind="karpenter", efa=True)
RESERVED = NodePool(name="h100", where="node pool 'h100'", kind="karpenter", reservation="cr-0a")
FIXED = NodePool(name="warm", where="node pool 'warm'", kind="karpenter", fixed=True, desired=2)


def node_class(**spec: Any) -> Object:
    manifest = {"kind": "EC2NodeClass", "spec": spec}
    return Object(
        api_version="karpenter.k8s.aws/v1",
        kind="EC2NodeClass",
        name="h100",
        namespace="default",
        where="EC2NodeClass h100",
        manifest=manifest,
    )


def karpenter(version: str | None, *pools: NodePool, **fields: Any) -> list[str]:
    return problems(Stack(pools=pools, versions=Versions(karpenter=version), **{"complete": True, **fields}))


def test_a_pool_that_an_old_karpenter_cannot_make_as_stated_is_refused() -> None:
    assert karpenter("1.10.2", EFA_POOL) == [
        "node pool 'h100': Karpenter 1.10.2 does not know 'spec.networkInterfaces', 'spec.placementGroupSelector' of EC2NodeClass: the API server drops what a "
        "CRD has no field for, and nodes start without it; use Karpenter 1.11 or newer (software.autoscaler.version), or do without what it is for "
        "[karpenter-fields]"
    ]


@pytest.mark.parametrize(
    ("version", "pool", "count"),
    [
        ("1.11.0", EFA_POOL, 0),
        ("1.14.1", EFA_POOL, 0),
        (None, EFA_POOL, 0),
        ("1.2.3", RESERVED, 1),
        ("1.3.0", RESERVED, 0),
        ("1.7.6", FIXED, 1),
        ("1.8.0", FIXED, 0),
        ("1.0.0", replace(EFA_POOL, efa=False), 0),
        ("1.0.0", replace(EFA_POOL, kind="managed"), 0),
    ],
)
def test_fields_of_pools_by_karpenter_s_version(version: str | None, pool: NodePool, count: int) -> None:
    assert len(karpenter(version, pool)) == count


def test_a_class_that_others_declare_is_read_as_it_stands() -> None:
    made = node_class(role="a", networkInterfaces=[{"networkCardIndex": 0}])
    (found,) = karpenter("1.10.0", EFA_POOL, objects=(made,), complete=False)
    assert found.startswith(
        "EC2NodeClass h100: Karpenter 1.10.0 does not know 'spec.networkInterfaces' of EC2NodeClass: "
    )
    parameter = node_class(amiSelectorTerms=[{"alias": "al2023@latest"}, {"ssmParameter": "/a"}])
    assert len(karpenter("1.3.8", objects=(parameter,))) == 1
    assert karpenter("1.4.0", objects=(parameter,)) == []


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
