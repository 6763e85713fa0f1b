"""What each pool's nodes need of the account: zones that offer the type, a live reservation, an image for the version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from components.config import AwsPool, Environment
from components.preflight.check import Check, attempt, error, is_missing, ok, unchecked, warning
from policies.facts import NodePool

SOON = timedelta(hours=24)


def offered(ec2: Any, pool: NodePool, cluster_zones: Sequence[str]) -> Iterator[Check]:
    """Whether the zones of the pool offer its types."""
    name = "instance types offered"
    zones = sorted(set(pool.zones or cluster_zones))
    found: dict[str, set[str]] = {}
    for page in ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": sorted(pool.instance_types)}],
    ):
        for offering in page["InstanceTypeOfferings"]:
            found.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    for each in pool.instance_types:
        there, where = found.get(each, set()), sorted(found.get(each, set()))
        if not there & set(zones):
            elsewhere = f"; the region has it in {', '.join(where)}" if where else "; no zone of the region has it"
            yield error(
                pool.where,
                name,
                f"{each} is not offered in {', '.join(zones)}{elsewhere}",
                "use another type, zone or region",
            )
        elif missing := sorted(set(zones) - there):
            yield warning(
                pool.where,
                name,
                f"{each} is not offered in {', '.join(missing)}, so nodes start in {', '.join(sorted(there & set(zones)))} only",
                "leave those zones out, so that nobody counts on them",
            )
        else:
            yield ok(pool.where, name, f"{each} in {', '.join(zones)}")


def reservation(ec2: Any, pool: NodePool, now: datetime) -> Iterator[Check]:
    """Whether the reservation is live, in time, of the right type and zone, and large enough."""
    name, id_ = "capacity reservation", pool.reservation or ""
    try:
        (found,) = ec2.describe_capacity_reservations(CapacityReservationIds=[id_])["CapacityReservations"]
    except ClientError as failure:
        if not is_missing(failure, "InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"):
            raise
        yield error(pool.where, name, f"{id_} is not in this account and region", "correct reservation.id")
        return
    kind = "capacity_block" if found.get("ReservationType") == "capacity-block" else "on_demand"
    if kind != pool.reservation_kind:
        yield error(
            pool.where,
            name,
            f"{id_} is of kind {kind}, and {pool.reservation_kind} is given",
            f"set reservation.kind: {kind}",
        )
    if found["InstanceType"] not in pool.instance_types:
        yield error(
            pool.where,
            name,
            f"{id_} reserves {found['InstanceType']}, and the pool has {', '.join(pool.instance_types)}",
            f"set instance_types: [{found['InstanceType']}]",
        )
    if pool.zones != (found["AvailabilityZone"],):
        given = ", ".join(pool.zones) or "none"
        yield error(
            pool.where,
            name,
            f"{id_} lies in {found['AvailabilityZone']}, and the pool's zones are {given}",
            f"set zones: [{found['AvailabilityZone']}]",
        )
    if (pool.max or 0) > found["TotalInstanceCount"]:
        yield warning(
            pool.where,
            name,
            f"{id_} has {found['TotalInstanceCount']} instances, and the pool's max is {pool.max}",
            "lower max: the others never start",
        )
    yield from _in_time(pool, found, now)


def _in_time(pool: NodePool, found: dict[str, Any], now: datetime) -> Iterator[Check]:
    name, id_, state, end = "reservation in time", pool.reservation, found["State"], found.get("EndDate")
    until = f" until {end:%Y-%m-%d %H:%M} UTC" if end else ""
    if state == "scheduled" or state == "payment-pending":
        start = found.get("StartDate")
        yield warning(
            pool.where,
            name,
            f"{id_} is {state}" + (f" and starts {start:%Y-%m-%d %H:%M} UTC" if start else ""),
            "nodes start then, not before",
        )
    elif state != "active" or (end and end <= now):
        yield error(pool.where, name, f"{id_} is {state}{until}", "give a reservation that is live")
    elif end and end - now < SOON:
        yield warning(
            pool.where, name, f"{id_} ends {end:%Y-%m-%d %H:%M} UTC; its nodes are drained before", "extend it"
        )
    else:
        yield ok(pool.where, name, f"{id_} is active{until}")


def placement_group(ec2: Any, pool: NodePool, group: str) -> Iterator[Check]:
    """Whether the placement group that the pool names is there, and keeps its nodes close together."""
    name = "placement group"
    try:
        (found,) = ec2.describe_placement_groups(GroupNames=[group])["PlacementGroups"]
    except ClientError as failure:
        if not is_missing(failure, "InvalidPlacementGroup.Unknown"):
            raise
        yield error(
            pool.where, name, f"'{group}' is not in this account and region", "correct placement_group, or leave it out"
        )
        return
    if found["State"] != "available":
        yield error(pool.where, name, f"'{group}' is {found['State']}", "use a group that is available")
    elif found["Strategy"] != "cluster":
        yield warning(
            pool.where,
            name,
            f"'{group}' has strategy {found['Strategy']}, which keeps nodes apart",
            "use a group of strategy cluster",
        )
    else:
        yield ok(pool.where, name, f"'{group}' is there")


def image(ssm: Any, ec2: Any, pool: NodePool, config: AwsPool, kubernetes_version: str) -> Iterator[Check]:
    """Whether the image exists: the pool's own by its id, else AWS's for the Kubernetes version by its SSM parameter."""
    name = "machine image"
    if pool.ami_id is not None:
        yield from _own_image(ec2, pool, name)
        return
    parameter = image_parameter(pool, kubernetes_version)
    if parameter is None:
        yield unchecked(pool.where, name, f"no SSM parameter is known for AMI type {pool.ami_type}")
        return
    try:
        ami = ssm.get_parameter(Name=parameter)["Parameter"]["Value"]
    except ClientError as failure:
        if not is_missing(failure, "ParameterNotFound"):
            raise
        yield error(
            pool.where,
            name,
            f"there is no {pool.ami_type} image for Kubernetes {kubernetes_version} in this region ({parameter})",
            "use another Kubernetes version or ami",
        )
        return
    pinned = f"; the pool is pinned to {config.ami_release}" if config.ami_release else ""
    yield ok(pool.where, name, f"{pool.ami_type} for Kubernetes {kubernetes_version} is {ami}{pinned}")


def _own_image(ec2: Any, pool: NodePool, name: str) -> Iterator[Check]:
    try:
        images = ec2.describe_images(ImageIds=[pool.ami_id])["Images"]
    except ClientError as failure:
        if not is_missing(failure, "InvalidAMIID.NotFound", "InvalidAMIID.Malformed"):
            raise
        images = []
    if not images:
        yield error(pool.where, name, f"{pool.ami_id} is not there or not shared with this account", "correct ami_id")
        return
    (found,) = images
    if found["State"] != "available":
        yield error(pool.where, name, f"{pool.ami_id} is {found['State']}", "use an image that is available")
    elif found["Architecture"] != pool.architecture:
        yield error(
            pool.where,
            name,
            f"{pool.ami_id} is for {found['Architecture']}, and {', '.join(pool.instance_types)} is {pool.architecture}",
            "use an image for the type's architecture",
        )
    else:
        yield ok(pool.where, name, f"{pool.ami_id} is available")


def image_parameter(pool: NodePool, kubernetes_version: str) -> str | None:
    """Name of the public SSM parameter with the newest image; None for AMI types that have none here."""
    architecture = "arm64" if pool.architecture == "arm64" else "x86_64"
    kind = pool.ami_type or ""
    if kind.startswith("AL2023"):
        variant = {"NVIDIA": "nvidia", "STANDARD": "standard", "NEURON": "neuron"}.get(kind.rsplit("_", 1)[-1])
        path = f"{kubernetes_version}/amazon-linux-2023/{architecture}/{variant}/recommended/image_id"
        return f"/aws/service/eks/optimized-ami/{path}" if variant else None
    if kind.startswith("BOTTLEROCKET"):
        nvidia = "-nvidia" if "NVIDIA" in kind else ""
        fips = "-fips" if kind.endswith("FIPS") else ""
        return f"/aws/service/bottlerocket/aws-k8s-{kubernetes_version}{nvidia}{fips}/{architecture}/latest/image_id"
    return None


def check(
    ec2: Any,
    ssm: Any,
    env: Environment,
    pools: Sequence[NodePool],
    zones: Sequence[str],
    kubernetes_version: str,
    now: datetime | None = None,
) -> Iterator[Check]:
    """All checks of all pools that are made of EC2 nodes."""
    moment = now or datetime.now(UTC)
    for pool in pools:
        config = env.node_pools[pool.name]
        if not isinstance(config, AwsPool):
            continue
        yield from attempt(pool.where, "instance types offered", partial(offered, ec2, pool, zones))
        if pool.reservation is not None:
            yield from attempt(pool.where, "capacity reservation", partial(reservation, ec2, pool, moment))
        if config.placement_group is not None:
            look = partial(placement_group, ec2, pool, config.placement_group)
            yield from attempt(pool.where, "placement group", look)
        yield from attempt(pool.where, "machine image", partial(image, ssm, ec2, pool, config, kubernetes_version))
