from __future__ import annotations

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from components.manifests.karpenter import capacity_type, node_class, node_pool
from tests.components.aws_stacks import STACKS
from tests.components.manifests.pools import pool_and_config

POOLS = {
    f"{stack}-{name}": fields
    for stack, document in sorted(STACKS.items())
    for name, fields in document["node_pools"].items()
    if fields.get("kind") == "karpenter" and stack != "long_names"
}


def manifests(fields):
    pool, config = pool_and_config("pool", **fields)
    made = node_class(
        pool,
        config,
        role="node-role",
        subnet_ids=["subnet-0a"],
        security_group_ids=["sg-0a"],
        placement_group="group" if pool.efa else None,
        tags={"managed-by": "llm-serving"},
    )
    return made, node_pool(pool, config)


@pytest.mark.parametrize("name", sorted(POOLS))
def test_the_objects_of_a_karpenter_pool_are_as_reviewed(name: str, snapshot: SnapshotAssertion) -> None:
    assert yaml.safe_dump_all(manifests(POOLS[name]), sort_keys=True) == snapshot


def test_the_pool_names_its_class_and_its_limits_hold_all_its_nodes() -> None:
    made, pool = manifests({"kind": "karpenter", "instance_types": ["g6e.2xlarge"], "max": 3})
    assert pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] == made["metadata"]["name"]
    assert pool["spec"]["limits"] == {"cpu": "24", "memory": "192Gi", "nvidia.com/gpu": 3}


def test_a_node_that_serves_a_model_is_not_taken_to_save_money() -> None:
    _, gpu = manifests({"kind": "karpenter", "instance_types": ["g6e.2xlarge"]})
    assert gpu["spec"]["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert gpu["spec"]["template"]["spec"]["expireAfter"] == "Never"
    _, cpu = manifests({"kind": "karpenter", "instance_types": ["m7i.large"]})
    assert cpu["spec"]["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"


def test_a_pinned_image_is_an_alias_with_its_release_and_a_custom_one_names_its_family() -> None:
    pinned, _ = manifests({"kind": "karpenter", "instance_types": ["g6.xlarge"], "ami_release": "v20261101"})
    assert pinned["spec"]["amiSelectorTerms"] == [{"alias": "al2023@v20261101"}]
    custom, _ = manifests({"kind": "karpenter", "instance_types": ["g6.xlarge"], "ami_id": "ami-0a"})
    assert (custom["spec"]["amiFamily"], custom["spec"]["amiSelectorTerms"]) == ("AL2023", [{"id": "ami-0a"}])


def test_the_capacity_type_is_spot_on_demand_or_reserved() -> None:
    def of(**fields):
        return capacity_type(pool_and_config("pool", kind="karpenter", instance_types=["p5.48xlarge"], **fields)[0])

    assert of() == "on-demand"
    assert of(capacity="spot") == "spot"
    assert of(reservation={"id": "cr-0a", "kind": "on_demand"}) == "reserved"
