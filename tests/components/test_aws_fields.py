"""Every field that a person may write about AWS is read: vary it, and some resource changes (or the plan's facts, or preflight)."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from components import aws, node_pools
from components.config import AwsCluster, AwsPool, Network, deep_merge, parse
from tests.components.program import run

BASE: dict[str, Any] = {
    "cluster": {"kind": "aws", "region": "us-east-1"},
    "node_pools": {
        "core": {"instance_types": ["m7i.large"], "min": 2, "max": 4},
        "gpu": {"instance_types": ["p5.48xlarge"], "max": 2},
        "kar": {"kind": "karpenter", "instance_types": ["g6.2xlarge"], "max": 2},
    },
}
GIVEN_NETWORK = {
    "vpc_id": "vpc-0a",
    "private_subnet_ids": ["subnet-0a", "subnet-0b"],
    "zones": ["us-east-1a", "us-east-1b"],
}
CLUSTER: dict[str, dict[str, Any]] = {
    "region": {"region": "eu-west-1"},
    "name": {"name": "other"},
    "create": {"create": False, "name": "there", "network": GIVEN_NETWORK},
    "kubernetes_version": {"kubernetes_version": "1.36"},
    "support": {"support": "extended"},
    "addon_versions": {"addon_versions": {"coredns": "v1.0.0-eksbuild.1"}},
    "network": {"network": {"cidr": "10.1.0.0/16"}},
    "public_endpoint_cidrs": {"public_endpoint_cidrs": ["203.0.113.0/24"]},
    "admin_role_arns": {"admin_role_arns": ["arn:aws:iam::123456789012:role/admin"]},
    "log_types": {"log_types": ["api"]},
    "log_retention_days": {"log_retention_days": 7},
    "weights_bucket": {"weights_bucket": False},
    "tags": {"tags": {"team": "a"}},
}
NETWORK: dict[str, dict[str, Any]] = {
    "cidr": {"cidr": "10.1.0.0/16"},
    "zones": {"zones": ["us-east-1c", "us-east-1d"]},
    "nat": {"nat": "per_zone"},
    "interface_endpoints": {"interface_endpoints": False},
    "vpc_id": GIVEN_NETWORK,
    "private_subnet_ids": GIVEN_NETWORK,
}
POOL: dict[str, dict[str, Any]] = {
    "kind": {"kind": "karpenter"},
    "sharing": {"sharing": {"strategy": "mig", "mig_profile": "1g.10gb"}},
    "labels": {"labels": {"a": "b"}},
    "taints": {"taints": []},
    "min": {"min": 1},
    "max": {"max": 3},
    "instance_types": {"instance_types": ["p5en.48xlarge"]},
    "capacity": {"capacity": "spot"},
    "reservation": {"reservation": {"id": "cr-0a", "kind": "on_demand"}},
    "ami": {"ami": "BOTTLEROCKET_x86_64_NVIDIA"},
    "ami_id": {"ami_id": "ami-0a"},
    "ami_release": {"ami_release": "1.35.2-20261101"},
    "desired": {"desired": 1},
    "zones": {"zones": ["us-east-1a"]},
    "efa": {"efa": True},
    "placement_group": {"placement_group": "theirs", "zones": ["us-east-1a"]},
    "root_disk_gib": {"root_disk_gib": 333},
    "max_unavailable": {"max_unavailable": 2},
    "node_repair": {"node_repair": False},
    "hop_limit": {"hop_limit": 2},
}
KARPENTER: dict[str, dict[str, Any]] = {"limits": {"limits": {"cpu": "8"}}}
FACTS_ONLY = {"driver_version"}  # judged against the image's CUDA; no resource says it


@functools.cache
def _base() -> dict[str, Any]:
    return resources({})


def resources(change: dict[str, Any]) -> dict[str, Any]:
    env = parse(deep_merge(BASE, change))
    pools = node_pools.resolve(env)

    def body() -> None:
        aws.karpenter_pools(env, pools, aws.build(env, pools), after=())

    return {f"{each.type} {each.name}": each.inputs for each in run(body).resources}


def _cases() -> list[Any]:
    cases = [({"cluster": value}, f"cluster.{field}") for field, value in CLUSTER.items()]
    cases += [({"cluster": {"network": value}}, f"network.{field}") for field, value in NETWORK.items()]
    cases += [({"node_pools": {"gpu": value}}, f"pool.{field}") for field, value in POOL.items()]
    cases += [({"node_pools": {"kar": value}}, f"pool.{field}") for field, value in KARPENTER.items()]
    return [pytest.param(change, id=name) for change, name in cases]


@pytest.mark.parametrize("change", _cases())
def test_a_field_that_is_varied_changes_a_resource(change: dict[str, Any]) -> None:
    assert resources(change) != _base()


def test_no_field_is_left_out_of_this_test() -> None:
    assert set(CLUSTER) | {"kind"} == set(AwsCluster.model_fields)
    assert set(NETWORK) == set(Network.model_fields)
    assert set(POOL) | set(KARPENTER) | FACTS_ONLY == set(AwsPool.model_fields)
