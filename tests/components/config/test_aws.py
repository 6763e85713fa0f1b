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
        ({"admin_role_arns": ["admin"]}, "text of the form ^arn:"),
        ({"admin_role_arns": ["arn:aws:iam::123456789012:role/a"] * 2}, "is named twice"),
        ({"log_types": ["kubelet"]}, "allowed: api, audit, "),
        ({"support": "forever"}, "allowed: standard, extended"),
        ({"region": "Frankfurt"}, "e.g. us-east-1"),
        ({"region": "us-est-1"}, "an area, a direction and a number"),
        (
            {"network": {"zones": ["us-east-1a", "us-east-1b", "us-east-1-dfw-2a"]}},
            "us-east-1-dfw-2a, which is no zone of the region itself",
        ),
        ({"network": {"zones": ["us-west-2a", "us-west-2b"]}}, "and region is us-east-1; zones of it are us-east-1a"),
        ({"network": {"zones": ["us-east-1a", "us-east-1b", "us-east-1a"]}}, "us-east-1a is named twice"),
        ({"kubernetes_version": "1.35.2"}, "takes a Kubernetes minor"),
        ({"kubernetes_version": "v1.35"}, "takes a Kubernetes minor"),
        ({"public_endpoint_cidrs": ["10.0.0.0/8"]}, "10.0.0.0/8 is a private range"),
        ({"log_retention_days": 31}, "30, 60, 90"),
        ({"addon_versions": {"core-dns": "v1.12.4-eksbuild.1"}}, "did you mean 'coredns'?"),
        ({"addon_versions": {"coredns": "1.12"}}, "like v1.12.4-eksbuild.1"),
        ({"tags": {"aws:team": "a"}}, "the prefix aws: belongs to AWS"),
        ({"tags": {f"k{n}": "a" for n in range(45)}}, "45 tags; AWS takes 50 a resource"),
    ],
)
def test_a_cluster_that_aws_would_not_take_is_refused_with_what_it_takes(cluster: dict[str, Any], says: str) -> None:
    assert says in problem(**cluster)


def test_a_tag_that_karpenter_sets_itself_is_refused_where_it_runs() -> None:
    def config(tag: str, kind: str) -> dict[str, Any]:
        pools = {"gpu": {"kind": kind, "instance_types": ["g6.2xlarge"]}}
        return {"cluster": {"kind": "aws", "region": "us-east-1", "tags": {tag: "a"}}, "node_pools": pools}

    with pytest.raises(ConfigError) as caught:
        parse(config("kubernetes.io/cluster/prod", "karpenter"))
    (sentence,) = caught.value.problems
    assert (
        "cluster.tags has 'kubernetes.io/cluster/prod', which Karpenter sets itself, and node pool 'gpu' is Karpenter's"
        in sentence
    )
    for tag, kind in (
        ("kubernetes.io/cluster/prod", "managed"),
        ("karpenter.sh/nodepools", "karpenter"),
        ("team", "karpenter"),
    ):
        parse(config(tag, kind))


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
        {"region": "ap-southeast-7", "public_endpoint_cidrs": ["0.0.0.0/0", "2001:db8::/32"]},
        {
            "network": {
                "vpc_id": "vpc-0a",
                "private_subnet_ids": [*SUBNETS, "subnet-0c"],
                "zones": ["us-east-1a", "us-east-1b", "us-east-1a"],
            }
        },
        {"addon_versions": {"coredns": "v1.12.4-eksbuild.1"}, "log_retention_days": 365, "kubernetes_version": "1.36"},
    ],
)
def test_a_cluster_that_aws_takes_is_taken(cluster: dict[str, Any]) -> None:
    parse({"cluster": {"kind": "aws", "region": "us-east-1", **cluster}})


def pool_problem(**pool: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse({"node_pools": {"gpu": {"instance_types": ["g6.2xlarge"], **pool}}})
    (sentence,) = caught.value.problems
    return sentence


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        ({"instance_types": ["g6.2xlarge", "g6.2xlarge"]}, "g6.2xlarge is named twice"),
        ({"instance_types": [f"m7i.{n}xlarge" for n in range(21)]}, "EKS takes 20 instance types and 21 are given"),
        ({"zones": []}, "zones: [] was given"),
        ({"zones": "us-east-1a"}, "a list is wanted, e.g. [us-east-1a]"),
        ({"taints": ["nvidia.com/gpu=present:NoSchedule"]}, "a mapping of keys is wanted, of key, value, effect"),
        ({"limits": {"nvidia.com/gpu": 4}}, "limits are Karpenter's"),
        ({"kind": "karpenter", "desired": 1}, "desired belongs to managed node groups"),
        ({"ami_id": "ami-0a", "ami_release": "1.35.2-20261101"}, "leave one out"),
        ({"driver_version": "595"}, "driver_version is a statement about an image"),
        ({"placement_group": "theirs"}, "placement_group 'theirs' lies in one zone, and zones names 0"),
        ({"placement_group": "theirs", "zones": ["us-east-1a", "us-east-1b"]}, "and zones names 2"),
        ({"max_unavailable": 101}, "at most 100 is wanted"),
        ({"hop_limit": 65}, "at most 64 is wanted"),
        ({"labels": {"team name": "a"}}, "label key 'team name' is none that Kubernetes takes"),
        ({"labels": {"Team.io/a": "a"}}, "label key 'Team.io/a'"),
        ({"labels": {"team": "a b"}}, "label team has value 'a b'"),
        ({"taints": [{"key": "a/b/c"}]}, "taint key 'a/b/c'"),
        ({"taints": [{"key": "a", "value": "-"}]}, "taint a has value '-'"),
        ({"taints": [{"key": "a", "value": "x"}, {"key": "a", "value": "y"}]}, "is given twice"),
    ],
)
def test_a_pool_that_contradicts_itself_is_refused_by_name(pool: dict[str, Any], says: str) -> None:
    sentence = pool_problem(**pool)
    assert sentence.startswith("node pool 'gpu': ")
    assert says in sentence


@pytest.mark.parametrize(
    "pool",
    [
        {"kind": "karpenter", "limits": {"nvidia.com/gpu": 4}, "instance_types": [f"m7i.{n}xlarge" for n in range(40)]},
        {"ami_id": "ami-0a", "driver_version": "595.71"},
        {"ami_release": "1.33.1-20250701", "driver_version": "570"},
        {"placement_group": "theirs", "zones": ["us-east-1a"]},
        {"labels": {"node-role.example.com/gpu": "", "Team_1.a": "A-b_c.d"}},
        {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]},
        {"root_disk_gib": 20000, "hop_limit": 2, "max_unavailable": 100},
    ],
)
def test_an_unusual_pool_is_read(pool: dict[str, Any]) -> None:
    parse({"node_pools": {"gpu": {"instance_types": ["g6.2xlarge"], **pool}}})
