"""vCPU quotas of EC2 against what the pools need at their peak. Quotas start at 0 for P and often for G in a new account.

Quota codes: Service Quotas, service `ec2` (read 2026-11). On demand, all P families share one; spot has one for P2 to P4 and
one for P5. Capacity blocks are not counted by either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from components.preflight.check import Check, error, is_missing, ok, unchecked, warning
from policies.catalog import instances
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool

STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"
CODES: Mapping[tuple[str, bool], str] = {
    ("G and VT", False): "L-DB2E81BA",
    ("G and VT", True): "L-3819A6DF",
    ("P", False): "L-417A185B",
    ("P4, P3 and P2", True): "L-7212CCBC",
    ("P5", True): "L-C4BD4855",
    (STANDARD, False): "L-1216C47A",
    (STANDARD, True): "L-34B43A08",
}
"""(class of instances, spot) to quota code."""
VPCS, ADDRESSES = ("vpc", "L-F678F1CE"), ("ec2", "L-0263D0A3")
"""Service and code of "VPCs per Region" and "EC2-VPC Elastic IPs": both are 5 in a new account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """vCPUs of one class: at the plan's peak (upgrades included), and with every pool at its max. `pools` ask for them."""

    peak: int
    most: int
    pools: tuple[str, ...]


def quota_class(instance_type: str, spot: bool) -> str:
    """Class of instances that a type is counted in: "G and VT", "P", ..."""
    family = instance_type.split(".", 1)[0]
    if family.startswith(("g", "vt")):
        return "G and VT"
    if not family.startswith("p"):
        return STANDARD
    if not spot:
        return "P"
    return {"2": "P4, P3 and P2", "3": "P4, P3 and P2", "4": "P4, P3 and P2", "5": "P5"}.get(family[1], family.upper())


def demands(pools: Sequence[NodePool], peak_nodes: Mapping[str, int]) -> dict[tuple[str, bool], Demand]:
    """Demand by (class, spot), from the largest type of each pool. Existing pools and capacity blocks ask for nothing."""
    found: dict[tuple[str, bool], Demand] = {}
    for pool in pools:
        if pool.kind == "existing" or pool.reservation_kind == "capacity_block":
            continue
        vcpus = max((_vcpus(each) for each in pool.instance_types), default=0)
        key = quota_class(pool.instance_types[0], pool.spot), pool.spot
        peak, most = vcpus * peak_nodes.get(pool.name, pool.min), vcpus * (pool.max or 0)
        before = found.get(key, Demand(peak=0, most=0, pools=()))
        found[key] = Demand(
            peak=before.peak + peak, most=before.most + max(peak, most), pools=(*before.pools, pool.name)
        )
    return found


def check(
    quotas: Any, ec2: Any, cluster_name: str, pools: Sequence[NodePool], peak_nodes: Mapping[str, int]
) -> Iterator[Check]:
    """Quota less what others use, against each demand. Clients: service-quotas, ec2."""
    asked = demands(pools, peak_nodes)
    used = _in_use(ec2, cluster_name) if asked else {}
    for (kind, spot), demand in sorted(asked.items()):
        place, name = f"node pool{'s' if len(demand.pools) > 1 else ''} {', '.join(demand.pools)}", "vCPU quota"
        label = f"{'spot' if spot else 'on-demand'} {kind} instances"
        code = CODES.get((kind, spot))
        if code is None:
            yield unchecked(place, name, f"no quota is known for {label}", "look in Service Quotas, Amazon EC2")
            continue
        quota, taken = _quota(quotas, code), used.get((kind, spot), 0)
        text = f"{label}: quota {quota} vCPUs ({code})" + (f", {taken} in use by others" if taken else "")
        mend = f"ask for at least {taken + demand.most} vCPUs in Service Quotas, or lower max"
        if taken + demand.peak > quota:
            yield error(place, name, f"{text}; the plan's peak needs {demand.peak}", mend)
        elif taken + demand.most > quota:
            yield warning(place, name, f"{text}; the pools at their max need {demand.most}", mend)
        else:
            yield ok(place, name, f"{text}; at most {demand.most} are needed")


def network(quotas: Any, ec2: Any, cluster_name: str, gateways: int) -> Iterator[Check]:
    """Whether the account may have one more VPC, and an Elastic IP for each of the NAT gateways; what the stack has already counts as its own."""
    place = "cluster.network"
    vpcs = [_name(each) for each in ec2.describe_vpcs()["Vpcs"]]
    addresses = [_name(each) for each in ec2.describe_addresses()["Addresses"]]
    for name, what, quota, there, ours, need in (
        ("VPC quota", "VPCs", VPCS, vpcs, vpcs.count(cluster_name), 1),
        (
            "Elastic IP quota",
            "Elastic IPs",
            ADDRESSES,
            addresses,
            sum(each.startswith(f"{cluster_name}-nat-") for each in addresses),
            gateways,
        ),
    ):
        most, others = _quota(quotas, quota[1], quota[0]), len(there) - ours
        text = f"quota {most} {what} ({quota[1]}), {others} in use by others, {need} needed"
        if others + need > most:
            yield error(
                place,
                name,
                text,
                f"ask for at least {others + need} in Service Quotas, or use an existing VPC (vpc_id)",
            )
        else:
            yield ok(place, name, text)


def _name(resource: dict[str, Any]) -> str:
    return next((str(tag["Value"]) for tag in resource.get("Tags", []) if tag["Key"] == "Name"), "")


def _quota(quotas: Any, code: str, service: str = "ec2") -> int:
    try:
        found = quotas.get_service_quota(ServiceCode=service, QuotaCode=code)
    except ClientError as failure:
        if not is_missing(failure, "NoSuchResourceException"):
            raise
        # An account that never touched the quota has AWS's default.
        found = quotas.get_aws_default_service_quota(ServiceCode=service, QuotaCode=code)
    return int(found["Quota"]["Value"])


def _in_use(ec2: Any, cluster_name: str) -> dict[tuple[str, bool], int]:
    """vCPUs that run outside this cluster, by (class, spot)."""
    used: dict[tuple[str, bool], int] = {}
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    )
    for page in pages:
        for reservation in page["Reservations"]:
            for instance in reservation["Instances"]:
                lifecycle = instance.get("InstanceLifecycle")
                ours = any(tag["Key"] == f"kubernetes.io/cluster/{cluster_name}" for tag in instance.get("Tags", []))
                if ours or lifecycle == "capacity-block":
                    continue
                spot = lifecycle == "spot"
                key = quota_class(instance["InstanceType"], spot), spot
                cpu = instance.get("CpuOptions", {})
                used[key] = used.get(key, 0) + cpu.get("CoreCount", 0) * cpu.get("ThreadsPerCore", 1)
    return used


def _vcpus(instance_type: str) -> int:
    try:
        return instances.get(instance_type).vcpu
    except UnknownRow:
        return 0
