from __future__ import annotations

from typing import Any

import pytest

from components.config import ConfigError, parse


def problem(**cluster: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse({"cluster": {"kind": "aws", "region": "us-east-1", **cluster}})
    (sentence,) = caught.value.problems
    return sentence


SUBNETS = ["subnet-0a", "subnet-0b"]


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ({"network": {"vpc_id": "vpc-0a"}}, "vpc_id and private_subnet_ids go together"),
        (
            {"network": {"vpc_id": "vpc-0a", "private_subnet_ids": SUBNETS, "zones": ["us-east-1a"]}},
            "2 subnets, 1 zones",
        ),
        ({"network": {"zones": ["us-east-1a"]}}, "EKS takes subnets in at least two zones"),
        ({"create": False}, "create: false needs name, network.vpc_id"),
        ({"network": {"cidr": "10.0.0.0/27"}}, "takes a /16 to a /24"),
        ({"network": {"cidr": "10.0.0.1/16"}}, "has host bits set"),
        ({"public_endpoint_cidrs": ["anywhere"]}, "does not appear to be an IPv4 or IPv6 network"),
        ({"admin_role_arns": ["admin"]}, "should match pattern"),
        ({"log_types": ["kubelet"]}, "'audit'"),
        ({"support": "forever"}, "'standard' or 'extended'"),
        ({"region": "Frankfurt"}, "should match pattern"),
    ],
)
def test_a_cluster_that_aws_would_not_take_is_refused_with_what_it_takes(cluster: dict[str, Any], says: str) -> None:
    assert says in problem(**cluster)


@pytest.mark.parametrize(
    "cluster",
    [
        {},
        {"network": {"zones": ["us-east-1a", "us-east-1d"], "cidr": "192.168.0.0/20"}},
        {"network": {"vpc_id": "vpc-0a", "private_subnet_ids": SUBNETS, "zones": ["us-east-1a", "us-east-1b"]}},
        {
            "create": False,
            "name": "there",
            "network": {"vpc_id": "vpc-0a", "private_subnet_ids": ["subnet-0a"], "zones": ["us-east-1a"]},
        },
        {"public_endpoint_cidrs": ["203.0.113.0/24"], "log_types": [], "region": "us-gov-west-1"},
    ],
)
def test_a_cluster_that_aws_takes_is_taken(cluster: dict[str, Any]) -> None:
    parse({"cluster": {"kind": "aws", "region": "us-east-1", **cluster}})
