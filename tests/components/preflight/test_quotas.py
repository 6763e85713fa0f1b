from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from components import node_pools
from components.config import parse
from components.preflight.check import Check, attempt
from components.preflight.quotas import ADDRESSES, STANDARD, VPCS, Demand, check, demands, network, quota_class

CLUSTER = "llm-serving-dev"


def pools(**given: dict[str, Any]) -> tuple[Any, ...]:
    return node_pools.resolve(parse({"cluster": {"kind": "aws", "region": "us-east-1"}, "node_pools": given}))


def client(service: str) -> Any:
    return boto3.client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def instance(
    type_: str, cores: int, lifecycle: str | None = None, tags: dict[str, str] | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {"InstanceType": type_, "CpuOptions": {"CoreCount": cores, "ThreadsPerCore": 2}}
    if lifecycle:
        found["InstanceLifecycle"] = lifecycle
    return found | {"Tags": [{"Key": key, "Value": value} for key, value in (tags or {}).items()]}


def run(
    found: tuple[Any, ...], peak: dict[str, int], quota: dict[str, float], running: list[dict[str, Any]]
) -> list[Check]:
    """The checks with stubbed answers, whose shapes botocore judges. Quotas are asked in the order of their class."""
    quotas, ec2 = client("service-quotas"), client("ec2")
    with Stubber(quotas) as asked, Stubber(ec2) as described:
        described.add_response("describe_instances", {"Reservations": [{"Instances": running}]})
        for code, value in quota.items():
            expected = {"ServiceCode": "ec2", "QuotaCode": code}
            asked.add_response("get_service_quota", {"Quota": {"QuotaCode": code, "Value": value}}, expected)
        checks = list(attempt("node pools", "vCPU quota", lambda: check(quotas, ec2, CLUSTER, found, peak)))
        asked.assert_no_pending_responses()
    return checks


@pytest.mark.parametrize(
    ("type_", "spot", "expected"),
    [
        ("g6.2xlarge", False, "G and VT"),
        ("gr6.4xlarge", True, "G and VT"),
        ("p5.48xlarge", False, "P"),
        ("p6-b200.48xlarge", False, "P"),
        ("p5en.48xlarge", True, "P5"),
        ("p4d.24xlarge", True, "P4, P3 and P2"),
        ("p6-b200.48xlarge", True, "P6-B200"),
        ("m7i.large", False, STANDARD),
        ("m7i.large", True, STANDARD),
    ],
)
def test_a_type_is_counted_in_the_class_that_aws_counts_it_in(type_: str, spot: bool, expected: str) -> None:
    assert quota_class(type_, spot) == expected


def test_demand_is_the_largest_type_times_the_nodes_and_blocks_do_not_count() -> None:
    found = demands(
        pools(
            l4={"instance_types": ["g6.2xlarge", "g6.4xlarge"], "max": 3},
            l40s={"instance_types": ["g6e.2xlarge"], "max": 2},
            block={
                "instance_types": ["p5.48xlarge"],
                "reservation": {"id": "cr-0a", "kind": "capacity_block"},
                "max": 4,
            },
            here={"kind": "existing", "cpu": 4, "memory_gib": 8},
        ),
        {"l4": 2, "l40s": 1},
    )
    assert found == {
        ("G and VT", False): Demand(peak=2 * 16 + 8, most=3 * 16 + 2 * 8, pools=("l4", "l40s")),
    }


def test_a_quota_below_the_plans_peak_is_an_error_with_the_number_to_ask_for() -> None:
    (found,) = run(pools(l4={"instance_types": ["g6.2xlarge"], "max": 2}), {"l4": 2}, {"L-DB2E81BA": 8.0}, [])
    assert found.status == "error"
    assert found.place == "node pool l4"
    assert found.message == "on-demand G and VT instances: quota 8 vCPUs (L-DB2E81BA); the plan's peak needs 16"
    assert found.mend == "ask for at least 16 vCPUs in Service Quotas, or lower max"


def test_what_others_run_is_taken_off_the_quota_and_our_own_nodes_are_not() -> None:
    running = [
        instance("g5.4xlarge", 8),
        instance("g6.2xlarge", 4, tags={f"kubernetes.io/cluster/{CLUSTER}": "owned"}),
        instance("g6.2xlarge", 4, lifecycle="spot"),
        instance("p5.48xlarge", 96, lifecycle="capacity-block"),
    ]
    (found,) = run(pools(l4={"instance_types": ["g6.2xlarge"], "max": 2}), {"l4": 2}, {"L-DB2E81BA": 24.0}, running)
    assert (found.status, found.mend) == ("error", "ask for at least 32 vCPUs in Service Quotas, or lower max")
    assert "16 in use by others" in found.message


def test_a_quota_that_holds_the_plan_but_not_every_pool_at_its_max_is_a_warning() -> None:
    (found,) = run(pools(l4={"instance_types": ["g6.2xlarge"], "max": 4}), {"l4": 1}, {"L-DB2E81BA": 16.0}, [])
    assert found.status == "warning"
    assert found.message.endswith("the pools at their max need 32")


def test_spot_and_on_demand_have_quotas_of_their_own() -> None:
    found = run(
        pools(
            core={"instance_types": ["m7i.large"], "max": 2},
            spot={"instance_types": ["g6.2xlarge"], "capacity": "spot", "max": 2},
        ),
        {"core": 2, "spot": 2},
        {"L-3819A6DF": 64.0, "L-1216C47A": 1152.0},
        [],
    )
    assert [check.status for check in found] == ["pass", "pass"]


def test_a_class_without_a_known_quota_is_not_called_a_pass() -> None:
    (found,) = run(pools(b={"instance_types": ["p6-b200.48xlarge"], "capacity": "spot"}), {"b": 1}, {}, [])
    assert found.status == "unchecked"
    assert found.message == "could not be checked: no quota is known for spot P6-B200 instances"


def test_an_account_that_never_touched_a_quota_has_awss_default() -> None:
    quotas, ec2 = client("service-quotas"), client("ec2")
    with Stubber(quotas) as asked, Stubber(ec2) as described:
        described.add_response("describe_instances", {"Reservations": []})
        asked.add_client_error("get_service_quota", "NoSuchResourceException")
        asked.add_response("get_aws_default_service_quota", {"Quota": {"Value": 0.0}})
        (found,) = check(quotas, ec2, CLUSTER, pools(h={"instance_types": ["p5.48xlarge"]}), {"h": 1})
    assert (found.status, found.message) == (
        "error",
        "on-demand P instances: quota 0 vCPUs (L-417A185B); the plan's peak needs 192",
    )


@pytest.mark.parametrize(
    ("vpcs", "addresses", "statuses"),
    [
        (["", "a", "b", "c"], ["a"], ["pass", "pass"]),
        (["", "a", "b", "c", "d"], ["a"], ["error", "pass"]),
        (["", "a", "b", "c", CLUSTER], ["a"], ["pass", "pass"]),  # its own is there already
        ([""], ["a", "b", "c"], ["pass", "error"]),
        ([""], ["a", "b", f"{CLUSTER}-nat-us-east-1a", f"{CLUSTER}-nat-us-east-1b"], ["pass", "pass"]),
    ],
)
def test_a_new_network_fits_the_accounts_quotas(vpcs: list[str], addresses: list[str], statuses: list[str]) -> None:
    quotas, ec2 = client("service-quotas"), client("ec2")

    def named(names: list[str]) -> list[dict[str, Any]]:
        return [{"Tags": [{"Key": "Name", "Value": name}]} if name else {} for name in names]

    with Stubber(quotas) as asked, Stubber(ec2) as described:
        described.add_response("describe_vpcs", {"Vpcs": named(vpcs)})
        described.add_response("describe_addresses", {"Addresses": named(addresses)})
        for service, code in (VPCS, ADDRESSES):
            expected = {"ServiceCode": service, "QuotaCode": code}
            asked.add_response("get_service_quota", {"Quota": {"QuotaCode": code, "Value": 5.0}}, expected)
        found = list(network(quotas, ec2, CLUSTER, 3))
    assert [each.status for each in found] == statuses
    if statuses[0] == "error":
        assert found[0].message == "quota 5 VPCs (L-F678F1CE), 5 in use by others, 1 needed"
        assert found[0].mend == "ask for at least 6 in Service Quotas, or use an existing VPC (vpc_id)"
