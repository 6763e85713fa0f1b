"""Against moto where it has the service, else against stubs whose shapes botocore judges."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from components import node_pools
from components.config import AwsCluster, Environment, parse
from components.preflight import cluster

REGION = "us-east-1"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def moto_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "testing")
    with mock_aws():
        yield


def config(**fields: Any) -> AwsCluster:
    found = parse({"cluster": {"kind": "aws", "region": REGION, **fields}}).cluster
    assert isinstance(found, AwsCluster)
    return found


def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)


def versions(answer: list[dict[str, Any]], **fields: Any) -> Any:
    eks = client("eks")
    with Stubber(eks) as stub:
        stub.add_response("describe_cluster_versions", {"clusterVersions": answer})
        stub.add_response(
            "describe_cluster_versions",
            {"clusterVersions": [{"clusterVersion": "1.36"}, {"clusterVersion": "1.35"}]},
        )
        (found,) = cluster.version(eks, config(**fields), "1.35", NOW)
    return found


def test_a_version_in_standard_support_passes_and_one_that_ends_soon_is_a_warning() -> None:
    row = {"clusterVersion": "1.35", "versionStatus": "STANDARD_SUPPORT"}
    found = versions([row | {"endOfStandardSupportDate": datetime(2027, 3, 27, tzinfo=UTC)}])
    assert (found.status, found.message) == ("pass", "1.35: standard support until 2027-03-27")
    soon = versions([row | {"endOfStandardSupportDate": datetime(2026, 12, 2, tzinfo=UTC)}])
    assert (soon.status, soon.mend) == ("warning", "plan the upgrade")


def test_a_version_that_eks_does_not_have_is_an_error_with_those_it_has() -> None:
    found = versions([])
    assert found.status == "error"
    assert found.mend == "set kubernetes_version to one of 1.35, 1.36"
    assert versions([{"clusterVersion": "1.35", "versionStatus": "UNSUPPORTED"}]).status == "error"


def test_extended_support_is_a_warning_that_says_what_happens() -> None:
    row = {"clusterVersion": "1.35", "versionStatus": "EXTENDED_SUPPORT"}
    assert "EKS does it by itself" in versions([row]).mend
    assert versions([row], support="extended").mend == "upgrade"


def _eks_cluster(name: str, tags: dict[str, str]) -> None:
    role = client("iam").create_role(RoleName=f"role-{name}", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    client("eks").create_cluster(name=name, roleArn=role, resourcesVpcConfig={}, tags=tags)


def names(**fields: Any) -> list[tuple[str, str, str]]:
    found = cluster.names(client("eks"), client("logs"), config(**fields), "prod")
    return [(check.name, check.status, check.message) for check in found]


def test_free_names_pass() -> None:
    assert names() == [
        ("name", "pass", "'prod' is free"),
        ("log group", "pass", "/aws/eks/prod/cluster is free"),
    ]


def test_a_log_group_that_an_old_cluster_left_behind_is_an_error() -> None:
    client("logs").create_log_group(logGroupName="/aws/eks/prod/cluster")
    assert names()[1][:2] == ("log group", "error")


def test_a_cluster_of_another_owner_is_an_error_and_our_own_passes() -> None:
    _eks_cluster("prod", {"managed-by": "somebody"})
    assert names() == [("name", "error", "another EKS cluster is called 'prod'")]


def test_our_own_cluster_passes() -> None:
    _eks_cluster("prod", {"managed-by": "llm-serving"})
    assert names() == [("name", "pass", "'prod' is this project's and there already")]


EXISTING = {
    "create": False,
    "name": "prod",
    "network": {"vpc_id": "vpc-0a", "private_subnet_ids": ["subnet-0a"], "zones": ["us-east-1a"]},
}


def test_an_existing_cluster_must_be_there() -> None:
    assert names(**EXISTING) == [("name", "error", "there is no EKS cluster 'prod'")]
    _eks_cluster("prod", {})
    ((_, status, message),) = names(**EXISTING)
    assert (status, message.startswith("'prod' is there")) == ("pass", True)


def test_zones_that_the_account_does_not_have_are_named_with_those_it_has() -> None:
    (found,) = cluster.zones(client("ec2"), ("us-east-1a", "us-east-1z"))
    assert found.status == "error"
    assert "us-east-1z is not open to this account" in found.message
    assert "us-east-1b" in found.mend
    (fine,) = cluster.zones(client("ec2"), ("us-east-1a", "us-east-1b"))
    assert fine.status == "pass"


def test_a_zone_that_takes_no_control_plane_is_found_by_its_id() -> None:
    ec2 = client("ec2")
    named = {zone["ZoneId"]: zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]}
    without = named["use1-az3"]
    (found,) = cluster.zones(ec2, (without, "us-east-1b"))
    assert (found.status, found.message) == (
        "error",
        f"EKS makes no control plane in {without} (use1-az3 in this account)",
    )
    assert without not in found.mend
    (nodes_only,) = cluster.zones(ec2, (without,), control_plane=False)
    assert nodes_only.status == "pass"


def network(*cidrs: str, **pools: dict[str, Any]) -> tuple[AwsCluster, Environment]:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    zones = ["us-east-1a", "us-east-1b"][: len(cidrs)]
    ids = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for cidr, zone in zip(cidrs, zones, strict=True)
    ]
    given = {"vpc_id": vpc, "private_subnet_ids": ids, "zones": zones}
    env = parse({"cluster": {"kind": "aws", "region": REGION, "network": given}, "node_pools": pools})
    assert isinstance(env.cluster, AwsCluster)
    return env.cluster, env


def test_subnets_with_room_for_the_pools_at_their_max_pass() -> None:
    found, env = network("10.0.0.0/20", "10.0.16.0/20", l4={"instance_types": ["g5.2xlarge"], "max": 4})
    checks = list(cluster.subnets(client("ec2"), found, node_pools.resolve(env)))
    assert [check.status for check in checks] == ["pass", "pass"]
    assert checks[0].message == "4091 free addresses in the subnets of us-east-1a; up to 120 are needed"


def test_subnets_without_room_are_a_warning_for_their_zone_alone() -> None:
    pool = {"instance_types": ["g5.2xlarge"], "max": 4, "zones": ["us-east-1a"]}
    found, env = network("10.0.0.0/27", "10.0.1.0/27", l4=pool)
    checks = list(cluster.subnets(client("ec2"), found, node_pools.resolve(env)))
    assert [check.status for check in checks] == ["warning", "pass"]
    assert "27 free addresses in the subnets of us-east-1a; the pools at their max take up to 120" in checks[0].message


def test_a_subnet_of_another_zone_or_vpc_is_an_error() -> None:
    found, env = network("10.0.0.0/20", "10.0.16.0/20")
    swapped = found.network.model_copy(update={"zones": ("us-east-1b", "us-east-1a"), "vpc_id": "vpc-0b"})
    wrong = found.model_copy(update={"network": swapped})
    checks = [
        check for check in cluster.subnets(client("ec2"), wrong, node_pools.resolve(env)) if check.status == "error"
    ]
    assert sorted(check.name for check in checks) == ["VPC", "VPC", "zone", "zone"]


def test_a_subnet_that_is_not_there_is_an_error() -> None:
    given = config(
        network={
            "vpc_id": "vpc-0a",
            "private_subnet_ids": ["subnet-0a", "subnet-0b"],
            "zones": ["us-east-1a", "us-east-1b"],
        }
    )
    (found,) = cluster.subnets(client("ec2"), given, ())
    assert (found.status, found.mend) == ("error", "correct private_subnet_ids")


def test_roles_that_get_cluster_admin_are_there_under_their_whole_arn() -> None:
    iam = client("iam")
    iam.create_role(RoleName="platform", AssumeRolePolicyDocument="{}", Path="/teams/")
    arns = [
        "arn:aws:iam::123456789012:role/teams/platform",
        "arn:aws:iam::123456789012:role/platform",
        "arn:aws:iam::123456789012:role/gone",
        "arn:aws:iam::210987654321:role/theirs",
    ]
    found = list(cluster.admins(iam, "123456789012", config(admin_role_arns=arns)))
    assert [(each.status, each.message) for each in found] == [
        ("pass", "'platform' is there"),
        ("error", f"role 'platform' is {arns[0]}, and {arns[1]} is given"),
        ("error", "there is no role 'gone' in this account"),
    ]
