"""What the cluster needs of the account: a supported version, names that are free, zones, and subnets with addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from components.config import PROJECT, AwsCluster
from components.naming import log_group
from components.preflight.check import Check, error, is_missing, ok, warning
from policies.facts import NodePool

UPGRADE_TIME = timedelta(days=60)
WITHOUT_CONTROL_PLANE = frozenset({"cac1-az3", "use1-az3", "usw1-az2"})
"""Zones, by the ids that are the same in every account, in which EKS takes no subnet of a new cluster (EKS user guide, "View Amazon EKS
networking requirements for VPC and subnets")."""


def version(eks: Any, config: AwsCluster, kubernetes_version: str, now: datetime | None = None) -> Iterator[Check]:
    """Whether EKS supports the Kubernetes version, and for how long."""
    place, name = "cluster", "Kubernetes version"
    found = eks.describe_cluster_versions(clusterVersions=[kubernetes_version], includeAll=True)["clusterVersions"]
    rows = [row for row in found if row["clusterVersion"] == kubernetes_version]
    if not rows or rows[0].get("versionStatus") == "UNSUPPORTED":
        supported = eks.describe_cluster_versions()["clusterVersions"]
        names = ", ".join(sorted((row["clusterVersion"] for row in supported), key=_minor))
        yield error(
            place, name, f"EKS does not support {kubernetes_version}", f"set kubernetes_version to one of {names}"
        )
        return
    row, moment = rows[0], now or datetime.now(UTC)
    end = row.get("endOfStandardSupportDate")
    until = f"standard support until {end:%Y-%m-%d}" if end else "standard support"
    if row.get("versionStatus") == "EXTENDED_SUPPORT":
        mend = (
            "upgrade" if config.support == "extended" else "upgrade first: with support: standard EKS does it by itself"
        )
        yield warning(place, name, f"{kubernetes_version} is in extended support, at six times the price", mend)
    elif end and end - moment < UPGRADE_TIME:
        yield warning(place, name, f"{kubernetes_version}: {until}", "plan the upgrade")
    else:
        yield ok(place, name, f"{kubernetes_version}: {until}")


def names(eks: Any, logs: Any, config: AwsCluster, cluster: str) -> Iterator[Check]:
    """Whether the names are free, or this stack's own; with create: false whether the cluster is there."""
    place, name = "cluster", "name"
    try:
        found = eks.describe_cluster(name=cluster)["cluster"]
    except ClientError as failure:
        if not is_missing(failure, "ResourceNotFoundException"):
            raise
        found = None
    if not config.create:
        if found is None:
            yield error(
                place, name, f"there is no EKS cluster '{cluster}'", "correct cluster.name, or set create: true"
            )
        else:
            yield ok(place, name, f"'{cluster}' is there, Kubernetes {found.get('version')}")
        return
    if found is not None and (found.get("tags") or {}).get("managed-by") != PROJECT:
        yield error(
            place, name, f"another EKS cluster is called '{cluster}'", "set cluster.name, or create: false to use it"
        )
        return
    if found is not None:
        yield ok(place, name, f"'{cluster}' is this project's and there already")
        return
    yield ok(place, name, f"'{cluster}' is free")
    if config.log_types:
        yield from _log_group(logs, place, cluster)


def _log_group(logs: Any, place: str, cluster: str) -> Iterator[Check]:
    wanted = log_group(cluster)
    groups = logs.describe_log_groups(logGroupNamePrefix=wanted)["logGroups"]
    if any(group["logGroupName"] == wanted for group in groups):
        yield error(
            place,
            "log group",
            f"log group {wanted} is there without its cluster, so that it cannot be made",
            f"delete it, or import it: pulumi import aws:cloudwatch/logGroup:LogGroup {cluster}-logs {wanted}",
        )
    else:
        yield ok(place, "log group", f"{wanted} is free")


def admins(iam: Any, account: str, config: AwsCluster) -> Iterator[Check]:
    """Whether the roles that get cluster-admin are there: EKS refuses an access entry of one that is not. Other accounts' are not looked up."""
    for arn in config.admin_role_arns:
        owner, role = arn.split(":")[4], arn.rsplit("/", 1)[-1]
        if owner != account:
            continue
        try:
            found = iam.get_role(RoleName=role)["Role"]["Arn"]
        except ClientError as failure:
            if not is_missing(failure, "NoSuchEntity"):
                raise
            yield error(
                "cluster", "admin role", f"there is no role '{role}' in this account", "correct admin_role_arns"
            )
            continue
        if found != arn:
            yield error("cluster", "admin role", f"role '{role}' is {found}, and {arn} is given", f"write {found}")
        else:
            yield ok("cluster", "admin role", f"'{role}' is there")


def zones(ec2: Any, wanted: Sequence[str], *, control_plane: bool = True) -> Iterator[Check]:
    """Whether the zones are there, open to this account, and of those that take a control plane where one is to be made."""
    name = "zones"
    found = ec2.describe_availability_zones(AllAvailabilityZones=True)["AvailabilityZones"]
    usable = {zone["ZoneName"] for zone in found if zone["State"] == "available" and _opted_in(zone)}
    missing = [zone for zone in dict.fromkeys(wanted) if zone not in usable]
    if missing:
        yield error(
            "cluster.network",
            name,
            f"{', '.join(missing)} {'are' if len(missing) > 1 else 'is'} not open to this account",
            f"set cluster.network.zones, of {', '.join(sorted(usable))}",
        )
        return
    ids = {zone["ZoneName"]: str(zone.get("ZoneId", "")) for zone in found}
    without = [zone for zone in dict.fromkeys(wanted) if ids[zone] in WITHOUT_CONTROL_PLANE]
    if control_plane and without:
        others = sorted(zone for zone in usable if ids[zone] not in WITHOUT_CONTROL_PLANE)
        yield error(
            "cluster.network",
            name,
            f"EKS makes no control plane in {', '.join(f'{zone} ({ids[zone]} in this account)' for zone in without)}",
            f"set cluster.network.zones, of {', '.join(others)}",
        )
    else:
        yield ok("cluster.network", name, ", ".join(dict.fromkeys(wanted)))


def _opted_in(zone: dict[str, Any]) -> bool:
    return bool(zone.get("OptInStatus", "opt-in-not-required") != "not-opted-in")


def subnets(ec2: Any, config: AwsCluster, pools: Sequence[NodePool]) -> Iterator[Check]:
    """Existing subnets: there, in the VPC and the zone that the config says, with addresses for the pools at their max."""
    network = config.network
    given = dict(zip(network.private_subnet_ids, network.zones, strict=True))
    try:
        found = ec2.describe_subnets(SubnetIds=sorted(given))["Subnets"]
    except ClientError as failure:
        if not is_missing(failure, "InvalidSubnetID.NotFound", "InvalidSubnetID.Malformed"):
            raise
        yield error(
            "cluster.network", "subnets", str(failure.response["Error"]["Message"]), "correct private_subnet_ids"
        )
        return
    need = _addresses(ec2, pools)
    for subnet in sorted(found, key=lambda each: str(each["SubnetId"])):
        id_, zone = subnet["SubnetId"], subnet["AvailabilityZone"]
        place = f"subnet {id_}"
        if subnet["VpcId"] != network.vpc_id:
            yield error(
                place, "VPC", f"it is in {subnet['VpcId']}, not in {network.vpc_id}", "correct vpc_id or the subnet"
            )
        if zone != given[id_]:
            yield error(place, "zone", f"it is in {zone}, and zones says {given[id_]}", f"set its zone to {zone}")
    for zone in sorted({subnet["AvailabilityZone"] for subnet in found}):
        free = sum(subnet["AvailableIpAddressCount"] for subnet in found if subnet["AvailabilityZone"] == zone)
        text = f"{free} free addresses in the subnets of {zone}"
        wanted = sum(count for pool, count in need if not pool.zones or zone in pool.zones)
        if free < wanted:
            yield warning(
                "cluster.network",
                "free addresses",
                f"{text}; the pools at their max take up to {wanted} (VPC CNI: two network interfaces' addresses a node)",
                "add a subnet, or set WARM_IP_TARGET on the VPC CNI",
            )
        else:
            yield ok("cluster.network", "free addresses", f"{text}; up to {wanted} are needed")


def _addresses(ec2: Any, pools: Sequence[NodePool]) -> list[tuple[NodePool, int]]:
    """Addresses that each pool takes at its max. The CNI keeps one whole interface of them warm beside the one in use."""
    types = sorted({each for pool in pools if pool.kind != "existing" for each in pool.instance_types})
    per_type: dict[str, int] = {}
    for page in ec2.get_paginator("describe_instance_types").paginate(InstanceTypes=types) if types else ():
        for row in page["InstanceTypes"]:
            per_type[row["InstanceType"]] = 2 * row["NetworkInfo"]["Ipv4AddressesPerInterface"]
    return [
        (pool, (pool.max or 0) * max((per_type.get(each, 0) for each in pool.instance_types), default=0))
        for pool in pools
        if pool.kind != "existing"
    ]


def _minor(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
