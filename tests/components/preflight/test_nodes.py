from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from components import node_pools
from components.config import AwsPool, parse
from components.preflight import nodes
from components.preflight.check import Check, attempt

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")


def client(service: str) -> Any:
    return boto3.client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def pool(**fields: Any) -> tuple[Any, AwsPool]:
    env = parse({"cluster": {"kind": "aws", "region": "us-east-1"}, "node_pools": {"h100": fields}})
    config = env.node_pools["h100"]
    assert isinstance(config, AwsPool)
    return node_pools.resolve(env)[0], config


def offered(there: dict[str, list[str]], **fields: Any) -> list[Check]:
    ec2 = client("ec2")
    offerings = [
        {"InstanceType": type_, "Location": zone, "LocationType": "availability-zone"}
        for type_, zones in there.items()
        for zone in zones
    ]
    with Stubber(ec2) as stub:
        stub.add_response("describe_instance_type_offerings", {"InstanceTypeOfferings": offerings})
        return list(nodes.offered(ec2, pool(**fields)[0], ZONES))


def test_a_type_that_all_zones_offer_passes() -> None:
    (found,) = offered({"g6.2xlarge": list(ZONES)}, instance_types=["g6.2xlarge"])
    assert (found.status, found.place) == ("pass", "node pool 'h100'")


def test_a_type_that_no_zone_of_the_pool_offers_is_an_error_that_names_where_it_is() -> None:
    (found,) = offered({"p5.48xlarge": ["us-east-1d"]}, instance_types=["p5.48xlarge"])
    assert found.status == "error"
    assert found.message == (
        "p5.48xlarge is not offered in us-east-1a, us-east-1b, us-east-1c; the region has it in us-east-1d"
    )
    (nowhere,) = offered({}, instance_types=["p5.48xlarge"], zones=["us-east-1a"])
    assert nowhere.message.endswith("no zone of the region has it")


def test_a_zone_that_lacks_the_type_is_a_warning() -> None:
    (found,) = offered({"g6.2xlarge": ["us-east-1a", "us-east-1b"]}, instance_types=["g6.2xlarge"])
    assert found.status == "warning"
    assert "not offered in us-east-1c" in found.message


@pytest.mark.parametrize(
    ("made", "status", "fragment"),
    [
        ({"GroupName": "theirs", "Strategy": "cluster"}, "pass", "'theirs' is there"),
        ({"GroupName": "theirs", "Strategy": "spread"}, "warning", "keeps nodes apart"),
        (None, "error", "'theirs' is not in this account and region"),
    ],
)
def test_a_placement_group_that_is_named_is_there(made: dict[str, str] | None, status: str, fragment: str) -> None:
    ec2 = client("ec2")
    given = pool(instance_types=["p5.48xlarge"], placement_group="theirs", zones=["us-east-1a"])[0]
    with Stubber(ec2) as stub:
        if made is None:
            stub.add_client_error("describe_placement_groups", "InvalidPlacementGroup.Unknown")
        else:
            stub.add_response("describe_placement_groups", {"PlacementGroups": [{**made, "State": "available"}]})
        (found,) = nodes.placement_group(ec2, given, "theirs")
    assert (found.status, fragment in found.message) == (status, True)


def reserved(answer: dict[str, Any] | str, **fields: Any) -> list[Check]:
    ec2 = client("ec2")
    given = {
        "instance_types": ["p5.48xlarge"],
        "reservation": {"id": "cr-0a", "kind": "capacity_block"},
        "zones": ["us-east-1b"],
        "max": 2,
    } | fields
    with Stubber(ec2) as stub:
        if isinstance(answer, str):
            stub.add_client_error("describe_capacity_reservations", answer)
        else:
            stub.add_response("describe_capacity_reservations", {"CapacityReservations": [BLOCK | answer]})
        look = lambda: nodes.reservation(ec2, pool(**given)[0], NOW)  # noqa: E731
        return list(attempt("node pool 'h100'", "capacity reservation", look))


BLOCK: dict[str, Any] = {
    "CapacityReservationId": "cr-0a",
    "ReservationType": "capacity-block",
    "InstanceType": "p5.48xlarge",
    "AvailabilityZone": "us-east-1b",
    "TotalInstanceCount": 2,
    "State": "active",
    "EndDate": NOW + timedelta(days=5),
}


def test_a_live_block_of_the_pools_type_and_zone_passes() -> None:
    (found,) = reserved({})
    assert (found.status, found.message) == ("pass", "cr-0a is active until 2026-12-05 12:00 UTC")


@pytest.mark.parametrize(
    ("answer", "status", "message", "mend"),
    [
        ({"State": "expired", "EndDate": NOW - timedelta(days=1)}, "error", "cr-0a is expired", "that is live"),
        ({"EndDate": NOW - timedelta(minutes=1)}, "error", "until 2026-11-30 11:59 UTC", "that is live"),
        ({"EndDate": NOW + timedelta(hours=3)}, "warning", "cr-0a ends 2026-11-30 15:00 UTC", "extend it"),
        (
            {"State": "scheduled", "StartDate": NOW + timedelta(days=1)},
            "warning",
            "is scheduled and starts 2026-12-01 12:00 UTC",
            "not before",
        ),
        ({"AvailabilityZone": "us-east-1c"}, "error", "lies in us-east-1c", "set zones: [us-east-1c]"),
        ({"InstanceType": "p5e.48xlarge"}, "error", "reserves p5e.48xlarge", "set instance_types: [p5e.48xlarge]"),
        ({"ReservationType": "default"}, "error", "is of kind on_demand", "set reservation.kind: on_demand"),
        ({"TotalInstanceCount": 1}, "warning", "has 1 instances, and the pool's max is 2", "lower max"),
    ],
)
def test_what_is_wrong_with_a_reservation_is_said(answer: Any, status: str, message: str, mend: str) -> None:
    found = [check for check in reserved(answer) if check.status != "pass"]
    assert [check.status for check in found] == [status]
    assert message in found[0].message
    assert mend in found[0].mend


def test_a_reservation_of_another_account_is_an_error_and_a_denied_look_is_not_a_pass() -> None:
    (missing,) = reserved("InvalidCapacityReservationId.NotFound")
    assert (missing.status, missing.message) == ("error", "cr-0a is not in this account and region")
    (denied,) = reserved("UnauthorizedOperation")
    assert denied.status == "unchecked"
    assert denied.message == ("could not be checked: DescribeCapacityReservations was denied (UnauthorizedOperation)")


@pytest.mark.parametrize(
    ("fields", "parameter"),
    [
        (
            {"instance_types": ["g6.2xlarge"]},
            "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
        ),
        (
            {"instance_types": ["m7g.large"]},
            "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/standard/recommended/image_id",
        ),
        (
            {"instance_types": ["g6.2xlarge"], "ami": "BOTTLEROCKET_x86_64_NVIDIA"},
            "/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/latest/image_id",
        ),
        (
            {"instance_types": ["g5g.xlarge"], "ami": "BOTTLEROCKET_ARM_64_NVIDIA_FIPS"},
            "/aws/service/bottlerocket/aws-k8s-1.35-nvidia-fips/arm64/latest/image_id",
        ),
        ({"instance_types": ["m5.large"], "ami": "AL2_x86_64"}, None),
    ],
)
def test_the_parameter_of_an_image_names_version_architecture_and_variant(fields: Any, parameter: str | None) -> None:
    assert nodes.image_parameter(pool(**fields)[0], "1.35") == parameter


def image(answers: dict[str, Any], **fields: Any) -> list[Check]:
    ssm, ec2 = client("ssm"), client("ec2")
    resolved, config = pool(**fields)
    with Stubber(ssm) as parameters, Stubber(ec2) as images:
        for operation, answer in answers.items():
            stub = parameters if operation == "get_parameter" else images
            if isinstance(answer, str):
                stub.add_client_error(operation, answer)
            else:
                stub.add_response(operation, answer)
        look = lambda: nodes.image(ssm, ec2, resolved, config, "1.29")  # noqa: E731
        return list(attempt("node pool 'h100'", "machine image", look))


def test_an_image_that_is_there_for_the_version_passes_and_one_that_is_not_is_an_error() -> None:
    (there,) = image({"get_parameter": {"Parameter": {"Value": "ami-0a"}}}, instance_types=["g6.2xlarge"])
    assert there.status == "pass"
    assert "ami-0a" in there.message
    (missing,) = image({"get_parameter": "ParameterNotFound"}, instance_types=["g6.2xlarge"])
    assert missing.status == "error"
    assert "there is no AL2023_x86_64_NVIDIA image for Kubernetes 1.29" in missing.message


OWN = {"instance_types": ["g7.2xlarge"], "ami_id": "ami-0a"}


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        ({"Images": [{"State": "available", "Architecture": "x86_64"}]}, "pass", "ami-0a is available"),
        ({"Images": [{"State": "pending", "Architecture": "x86_64"}]}, "error", "ami-0a is pending"),
        (
            {"Images": [{"State": "available", "Architecture": "arm64"}]},
            "error",
            "is for arm64, and g7.2xlarge is x86_64",
        ),
        ({"Images": []}, "error", "not there or not shared"),
        ("InvalidAMIID.NotFound", "error", "not there or not shared"),
    ],
)
def test_an_own_image_is_looked_up_by_its_id(answer: Any, status: str, message: str) -> None:
    (found,) = image({"describe_images": answer}, **OWN)
    assert found.status == status
    assert message in found.message
