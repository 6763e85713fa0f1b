"""What our own components declare, read back as facts, is what the plan knew; other teams' stacks are joined the same way."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace

from components import node_pools
from policies.facts import NodePool, Stack, Versions
from policies.facts.stack import Reading, read, reading
from policies.facts.wire import manifests, resource
from policies.judgement import judge
from tests.policies.programs import aws_resources, every_pool

from .manifests import KUBERAY_SAMPLE, PRODUCTION_STACK, load, resources

# What AWS's resources cannot say: config-only knowledge, and labels that Karpenter adds by itself.
_NOT_ON_THE_WIRE = ("sharing", "zones_declared", "desired", "labels", "zones")
_KARPENTER_DIFFERS = ("cpu_milli", "memory_mib", "efa", "efa_declared_interfaces", "reservation_kind")


@functools.cache
def read_back(preview: bool) -> Reading:
    return reading(aws_resources(every_pool(), preview=preview))


def comparable(pools: Iterable[NodePool]) -> dict[str, NodePool]:
    blank = NodePool(name="", where="", kind="")
    found = {}
    for pool in pools:
        fields = _NOT_ON_THE_WIRE + (_KARPENTER_DIFFERS if pool.kind == "karpenter" else ())
        same = replace(pool, **{field: getattr(blank, field) for field in fields})
        # An own image's driver is stated in config only; local disks of a type without any are none either way.
        driver = None if pool.ami_type == "CUSTOM" else same.driver_version
        found[pool.name] = replace(same, driver_version=driver, nvme_gb=same.nvme_gb or None)
    return found


def test_pools_that_our_components_make_are_read_back_as_the_plan_knew_them() -> None:
    ours = comparable(node_pools.resolve(every_pool()))
    assert len(ours) > 12
    assert comparable(read_back(preview=False).stack.pools) == ours


def test_a_first_preview_knows_all_of_a_managed_pool_that_rules_read() -> None:
    preview, update = (
        comparable(pool for pool in read_back(preview=each).stack.pools if pool.kind == "managed")
        for each in (True, False)
    )
    assert preview.pop("custom-ami-blackwell").nvme_gb is None  # its user data names the endpoint of a cluster to be
    del update["custom-ami-blackwell"]
    assert preview == update


def test_a_first_preview_knows_all_that_rules_read_of_karpenters_pools() -> None:
    assert read_back(preview=True).not_known == ()
    preview, update = (
        comparable(pool for pool in read_back(preview=each).stack.pools if pool.kind == "karpenter")
        for each in (True, False)
    )
    assert len(preview) > 3
    assert preview == update


def test_sharing_of_the_system_itself_is_read_back_too() -> None:
    pools = {pool.name: pool.sharing for pool in read_back(preview=False).stack.pools}
    assert (pools["bottlerocket-l4"].strategy, pools["bottlerocket-l4"].replicas) == ("time_slicing", 4)
    assert (pools["karpenter-bottlerocket-l4"].strategy, pools["karpenter-bottlerocket-l4"].replicas) == ("mps", 2)


def test_a_place_leads_to_the_resource_it_came_from() -> None:
    found = [replace(each, urn=f"urn:{each.name}") for each in resources(KUBERAY_SAMPLE, PRODUCTION_STACK)]
    got = reading(found)
    assert got.origin("RayService default/ray-serve-llm") == "urn:ray-serve-llm"
    assert got.origin("RayService default/ray-serve-llm: worker group 'gpu-group'") == "urn:ray-serve-llm"
    assert got.origin("RayService default/ray-serve-llm: model 'a': prefill") == "urn:ray-serve-llm"
    assert got.origin("budget") == ""


def test_what_is_known_beyond_the_resources_is_joined_with_what_they_say() -> None:
    known = Stack(
        pools=(NodePool(name="elsewhere", where="node pool 'elsewhere'", kind="existing"),),
        versions=Versions(kubernetes="1.34", kuberay="1.6.0"),
        batch_scheduler="kai",
        autoscaler="karpenter",
    )
    kuberay = resource("kubernetes:helm.sh/v3:Release", "k", {"chart": "kuberay-operator", "version": "1.7.0"})
    group = resource("aws:eks/nodeGroup:NodeGroup", "gpu", {"scalingConfig": {}})
    got = read([kuberay, group], known)
    assert [pool.name for pool in got.pools] == ["elsewhere", "gpu"]
    assert (got.versions.kubernetes, got.versions.kuberay) == ("1.34", "1.7.0")
    assert (got.batch_scheduler, got.autoscaler) == ("kai", "karpenter")
    assert got.complete is False


def test_unknown_values_are_told_where_rules_would_read_them_and_nowhere_else() -> None:
    unknown = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
    manifest = load(KUBERAY_SAMPLE)
    manifest["spec"]["serveConfigV2"] = unknown
    manifest["metadata"]["uid"] = unknown
    manifest["status"] = {"serviceStatus": unknown}
    got = reading(manifests([manifest]))
    assert [(each.where, each.paths) for each in got.not_known] == [
        ("RayService default/ray-serve-llm", ("spec.serveConfigV2",))
    ]
    assert got.stack.workloads[0].engines == ()
    assert got.stack.workloads[0].groups[0].gpus == 4


def test_an_autoscaler_is_known_from_its_chart_or_from_its_pools() -> None:
    chart = {"chart": "cluster-autoscaler", "version": "9.50.0"}
    assert read([resource("kubernetes:helm.sh/v3:Release", "a", chart)]).autoscaler == "cluster_autoscaler"
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": {}}
    assert read(manifests([pool])).autoscaler == "karpenter"
    assert read(()).autoscaler is None


def test_provider_versions_are_known_from_the_resources_that_use_them() -> None:
    got = read([resource("aws:ec2/vpc:Vpc", "v", {}, provider_version="6.50.0")])
    assert (got.versions.pulumi_aws, got.versions.pulumi_kubernetes) == ("6.50.0", None)


def test_the_same_resources_give_the_same_facts_in_any_order() -> None:
    group = {"scalingConfig": {}, "instanceTypes": ["g6.xlarge"]}
    given = [resource("aws:eks/nodeGroup:NodeGroup", "gpu", group, urn=f"urn:{n}") for n in range(4)]
    assert read(given) == read(given[::-1])


def test_an_error_that_hangs_on_an_unknown_value_is_never_certain() -> None:
    def found(role: dict[str, str]) -> list[str]:
        spec = {"amiSelectorTerms": [{"alias": "al2023@v20261101"}], **role}
        node_class = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "gpu"}}
        return [each.finding.message for each in judge(manifests([{**node_class, "spec": spec}])).findings]

    unsure, sure = found({"role": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"}), found({})
    assert len(sure) == len(unsure) + 1
    assert "role" in "".join(set(sure) - set(unsure))
