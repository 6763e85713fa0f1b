"""Public reports about Helm and Pulumi, and about EKS nodes and capacity (classes K, L), each as a small config.

What only other people's programs can do (a Chart in place of a Release, no version) is judged over their resources' facts.
"""

from __future__ import annotations

from typing import Any

import pytest

from policies import rules
from policies.facts import NodePool, Release, Stack, Versions

from .small import EXISTING, KAI, Config, chat, cluster, found, model, planned, pool

KARPENTER = {  # nobody scales a node group beside it
    "node_pools": {"core": {"max": 2}, "l4": {"kind": "karpenter", "instance_types": ["g6.2xlarge", "g6.4xlarge"]}}
}


def release(**over: Any) -> set[tuple[str, str]]:
    """Findings about one release of somebody else's."""
    given: dict[str, Any] = {
        "name": "x",
        "where": "release 'x'",
        "chart": "kuberay-operator",
        "version": "1.7.0",
        "repository": "https://example.com",
        "namespace": "x",
        "values": {},
        "atomic": True,
        "timeout_seconds": 600,
    }
    return {(f.rule, f.severity) for f in rules.check(Stack(releases=(Release(**{**given, **over}),)))}


# K: Pulumi and Helm


def test_k2_crds_and_custom_resources_without_their_operator_are_refused() -> None:
    assert ("helm-operator", "error") in found({"software": {"kuberay": {"install": False}}})
    assert ("helm-one-scheduler", "error") in found(KAI, {"software": {"kai": {"install": False}}})


@pytest.mark.parametrize("chart", ["kai-scheduler", "volcano", "gpu-operator", "kube-prometheus-stack"])
def test_k5_charts_with_hooks_as_a_chart_are_a_warning(chart: str) -> None:
    assert ("helm-hooks", "warning") in release(chart=chart, kind="chart")
    assert ("helm-hooks", "warning") not in release(chart=chart)


def test_k6_a_release_that_does_not_roll_back_is_a_warning() -> None:
    assert ("helm-recovery", "warning") in release(atomic=None)
    assert release() == set()
    assert ("helm-recovery", "warning") in release(chart="kai-scheduler")  # its chart has no rollback
    assert release(chart="kai-scheduler", atomic=False) == set()
    ours = planned(KAI).stack.releases
    assert all(r.timeout_seconds and r.atomic is (r.name != "kai-scheduler") for r in ours)


def test_k8_replicas_are_not_fought_over() -> None:
    from policies.facts import ray

    manifest = planned(chat(kind="ray_cluster", fault_tolerance=None), model(replicas={"min": 2, "max": 4})).manifests[
        "chat"
    ][0]
    assert not any(f.rule == "replicas-one-owner" for f in rules.check(Stack(workloads=(ray.read(manifest),))))
    manifest["spec"]["workerGroupSpecs"][0]["replicas"] = 3
    assert any(f.rule == "replicas-one-owner" for f in rules.check(Stack(workloads=(ray.read(manifest),))))


def test_k9_a_desired_size_of_two_masters_is_a_warning() -> None:
    fixed = NodePool(name="x", where="node group 'x'", kind="managed", min=1, max=4, desired=2, ignores_desired=False)
    assert {f.rule for f in rules.check(Stack(pools=(fixed,)))} == {"pool-desired-ignored"}
    assert all(p.ignores_desired for p in planned().pools)


@pytest.mark.parametrize("version", [None, "", ">=1.0", "1.x", "*", "latest"])
def test_k12_a_chart_without_a_version_is_refused(version: str | None) -> None:
    assert ("helm-version", "error") in release(version=version)


# L: EKS nodes and capacity


def test_l1_the_operators_driver_on_amazon_linux_is_refused() -> None:
    driver = {"software": {"gpu_operator": {"values": {"driver": {"enabled": True}}}}}
    assert ("operator-host-software", "error") in found(driver)
    assert ("operator-host-software", "error") in found(driver, pool(ami="AL2023_x86_64_STANDARD"))


@pytest.mark.parametrize("ami", ["AL2023_x86_64_NVIDIA", "BOTTLEROCKET_x86_64_NVIDIA"])
def test_l2_the_operator_leaves_to_the_ami_what_it_has(ami: str) -> None:
    operator = next(r for r in planned(pool(ami=ami)).stack.releases if r.chart.endswith("gpu-operator"))
    assert operator.values["driver"]["enabled"] is False
    assert operator.values["toolkit"]["enabled"] is False
    assert {pair for pair in found(pool(ami=ami)) if pair[1] == "error"} == set()


@pytest.mark.parametrize("types", [["g6.2xlarge"], ["g5.2xlarge"]])
def test_l4_l5_gpus_on_the_standard_ami_are_refused(types: list[str]) -> None:
    assert ("pool-image", "error") in found(pool(instance_types=types, ami="AL2023_x86_64_STANDARD"))


def test_l7_a_provider_that_does_not_know_the_ami_type_is_refused() -> None:
    nvidia = NodePool(name="x", where="node group 'x'", kind="managed", ami_type="AL2023_x86_64_NVIDIA", max=1)
    old = Stack(pools=(nvidia,), versions=Versions(pulumi_aws="6.50.0"))
    assert {f.rule for f in rules.check(old)} == {"pool-image-provider"}


def test_l8_an_image_of_the_wrong_architecture_is_refused() -> None:
    assert ("pool-image", "error") in found(pool(instance_types=["g5g.2xlarge"], ami="AL2023_x86_64_NVIDIA"))
    assert ("pool-image", "error") in found(pool("core", instance_types=["m7g.2xlarge"], ami="AL2023_x86_64_STANDARD"))


def test_l10_daemon_sets_tolerate_the_taints_of_every_pool() -> None:
    own: Config = pool(taints=[{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}])
    assert {pair for pair in found(own) if pair[1] == "error"} == set()
    equal = {"daemonsets": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}]}}
    wrong = {
        "software": {"gpu_operator": {"values": equal}},
        **pool(taints=[{"key": "nvidia.com/gpu", "value": "true"}]),
    }
    assert ("operator-tolerations", "error") in found(wrong)


def test_l11_gpu_nodes_without_a_device_plugin_are_refused() -> None:
    assert ("operator-installed", "error") in found({"software": {"gpu_operator": {"install": False}}})
    assert found({"software": {"gpu_operator": {"install": False}}}, base=EXISTING) == set()


@pytest.mark.parametrize(
    "patch",
    [
        pool("p4", instance_types=["p4d.24xlarge"], zones=["us-east-1a"], max=1),
        pool(capacity="spot"),
        pool(kind="karpenter", instance_types=["g4dn.xlarge"]),
    ],
)
def test_l13_capacity_without_an_alternative_is_a_warning(patch: Config) -> None:
    assert ("pool-availability", "warning") in found(patch)


def test_l14_zones_without_subnets_are_refused() -> None:
    assert ("pool-zones", "error") in found(KARPENTER, pool(zones=["us-east-1f"]))
    assert "error" not in dict(found(KARPENTER, pool(zones=["us-east-1a", "us-east-1b"]))).values()


@pytest.mark.parametrize("types", [["p5.4xlarge"], ["g6f.xlarge"], ["g6f.2xlarge", "gr6f.4xlarge"]])
def test_l16_types_whose_gpu_karpenter_does_not_see_are_refused(types: list[str]) -> None:
    assert ("karpenter-gpu-count", "error") in found(pool(kind="karpenter", instance_types=types))
    assert not any(rule == "karpenter-gpu-count" for rule, _ in found(pool(instance_types=types)))


def test_l17_limits_below_what_pods_need_are_refused() -> None:
    assert ("karpenter-limits", "error") in found(KARPENTER, pool(limits={"nvidia.com/gpu": 1}))
    assert "error" not in dict(found(KARPENTER, pool(limits={"nvidia.com/gpu": 4}))).values()


def test_l19_a_root_disk_that_does_not_hold_image_and_weights_is_refused() -> None:
    no_nvme = {"node_pools": {"l4": {"instance_types": ["g5g.2xlarge"], "root_disk_gib": 20}}}
    assert ("pool-disk", "error") in found(no_nvme)
    assert ("pool-disk", "warning") in found(pool(root_disk_gib=20))
    assert not any(rule == "pool-disk" for rule, _ in found())


def test_l20_selectors_and_taints_come_from_one_source() -> None:
    group = cluster(pool(taints=[{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]))["workerGroupSpecs"][0]
    spec = group["template"]["spec"]
    assert spec["nodeSelector"] == {"llm-serving/pool": "l4"}
    assert {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"} in spec["tolerations"]
    assert ("placement-selector", "error") in found(chat(worker={"node_selector": {"gpu": "l4"}}))
    assert ("placement-taint", "error") in found(chat(worker={"tolerations": []}))


@pytest.mark.parametrize("patch", [chat(pool="l44"), chat(head={"pool": "cor"}), model(pool="l4x")])
def test_a_pool_that_is_not_declared_is_refused_by_name(patch: Config) -> None:
    sentences = [f.sentence() for f in planned(patch).plan.findings if f.rule == "placement-selector"]
    assert sentences
    assert all("does not exist" in s and "did you mean" in s for s in sentences)


@pytest.mark.parametrize(
    ("patch", "rule"),
    [
        (pool(instance_types=["g6.2xlarg"]), "pool-type"),
        (pool(min=3, max=2), "pool-size"),
        (pool(desired=9), "pool-size"),
        (pool(efa=True), "pool-efa"),
        (
            pool(reservation={"kind": "capacity_block", "id": "cr-1a"}, zones=["us-east-1a", "us-east-1b"]),
            "pool-reservation",
        ),
        (pool(instance_types=["m7i.2xlarge"]), "placement-gpu-pool"),
        (pool(instance_types=["g6.2xlarge", "m7i.2xlarge"]), "pool-types-together"),
        ({"budget": {"vcpus": {"G": 8}}}, "capacity-budget-vcpus"),
        ({"budget": {"usd_per_hour": 2}}, "capacity-budget-money"),
        (pool(max=1), "capacity-pool"),
    ],
)
def test_wrong_pools_are_refused_by_name(patch: Config, rule: str) -> None:
    assert (rule, "error") in found(patch)
