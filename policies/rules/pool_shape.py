"""The shape of a node pool: sizes, zones, reservations, spot, EFA.

Not for: instance types and images (pool_types.py), disks (pool_disk.py), or whether services fit (capacity.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._places import places
from ._values import listed
from .pool_types import rows

# Families that regions run out of: a pool of them in one zone without a reservation waits (containers-roadmap#2204).
SCARCE = ("p3", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "p6e-gb200")


def size(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.max is not None and pool.min > pool.max:
            yield error(pool.where, f"min {pool.min} is more than max {pool.max}", f"set max to at least {pool.min}")
            continue
        if pool.desired is not None and pool.kind == "managed":
            low, high = pool.min, pool.max
            if pool.desired < low or (high is not None and pool.desired > high):
                yield error(
                    pool.where,
                    f"desired {pool.desired} is outside min {low} and max {high}; EKS refuses the node group",
                    "give a number between them, or leave desired out",
                )
        if pool.max == 0 and pool.kind != "existing" and used(stack, pool):
            yield error(pool.where, "max is 0 and services are sent to it", "raise max")


def used(stack: Stack, pool: NodePool) -> bool:
    """Whether worker pods are sent to the pool."""
    index = places(stack)
    return any(index.home(group) is pool for workload in stack.workloads for group in workload.groups)


def zones(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        missing = [zone for zone in pool.zones if stack.zones and zone not in stack.zones]
        if missing and pool.zones_declared:
            all_missing = len(missing) == len(pool.zones)
            yield error(
                pool.where,
                f"zone{'s' if len(missing) > 1 else ''} {listed(missing)} {'have' if len(missing) > 1 else 'has'} no subnet of the cluster"
                + ("" if all_missing else ", so a part of the pool cannot start"),
                f"use {listed(stack.zones)}, or add a subnet there (cluster.network)",
            )


def reservation(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        block = pool.reservation_kind == "capacity_block"
        if pool.reservation is not None and pool.spot:
            yield error(
                pool.where,
                "it is spot and names a reservation; reserved capacity is not spot",
                "leave capacity: spot out",
            )
        if pool.reservation is not None and len(pool.zones) > 1:
            yield error(
                pool.where,
                f"a {'capacity block' if block else 'capacity reservation'} lies in one zone and {len(pool.zones)} are given ({', '.join(pool.zones)})",
                "give the zone of the reservation",
            )
        elif pool.reservation is not None and not pool.zones and pool.kind == "managed":
            yield warning(
                pool.where,
                "its reservation lies in one zone, which is not stated: the node group tries the others too and fails there",
                "set zones to the zone of the reservation",
            )
        if block and pool.kind == "managed" and (pool.min > 0 or (pool.desired or 0) > 0):
            yield warning(
                pool.where,
                f"min {pool.min} and desired {pool.desired or 0} ask for nodes outside the capacity block's period as well, and the node group is degraded then",
                "set min: 0 and let the autoscaler or a schedule start nodes in the period",
            )
        only = [row.name for row in rows(pool) if row.capacity_block_only]
        if only and not block:
            yield error(
                pool.where,
                f"{listed(only)} is sold through Capacity Blocks only",
                "set reservation: {kind: capacity_block, id: cr-...}",
            )


def spot(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.kind == "existing" or not pool.instance_types or pool.reservation is not None:
            continue
        single = len(set(pool.instance_types)) == 1
        one_zone = len(pool.zones) == 1
        families = {name.split(".")[0] for name in pool.instance_types}
        if pool.spot and single:
            yield warning(
                pool.where,
                f"spot capacity of {pool.instance_types[0]} alone{' in one zone' if one_zone else ''}: one pool of spare machines, gone all at once",
                "give several instance types and zones",
            )
        elif not pool.spot and one_zone and not pool.efa and families <= set(SCARCE):
            yield warning(
                pool.where,
                f"{', '.join(sorted(families))} in {pool.zones[0]} only and without a reservation: when that zone has none, the pool stays empty",
                "give several zones, or a reservation",
            )
        elif pool.kind == "karpenter" and single and (pool.gpus_per_node or pool.gpu) and not _alternative(stack, pool):
            yield warning(
                pool.where,
                f"{pool.instance_types[0]} is its only type: when no zone has one, Karpenter has nothing to fall back to",
                "give several sizes of the GPU, or a second pool with another type",
            )


def _alternative(stack: Stack, pool: NodePool) -> bool:
    return any(other is not pool and other.gpu == pool.gpu and other.kind != "existing" for other in stack.pools)


def efa(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if not pool.efa or pool.kind == "existing":
            continue
        without = [row.name for row in rows(pool) if row.efa_interfaces == 0]
        if without:
            yield error(
                pool.where,
                f"{listed(without)} {'have' if len(without) > 1 else 'has'} no Elastic Fabric Adapter",
                "leave efa out, or use a type with EFA (8xlarge and larger of g5, g6, g6e; p4d, p5, p6)",
            )
        if len(pool.zones) > 1:
            yield error(
                pool.where,
                f"EFA nodes are in a cluster placement group, which lies in one zone, and {len(pool.zones)} are given",
                "give one zone",
            )


def desired_ignored(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.kind == "managed" and not pool.ignores_desired and stack.autoscaler != "none":
            yield warning(
                pool.where,
                "desiredSize is managed by this program and by the node autoscaler: each update sets it back and drains nodes with running engines",
                "ignore changes of scalingConfig.desiredSize",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="pool-size",
        title="min <= desired <= max",
        why="EKS and EC2 refuse a group whose sizes contradict each other, after the plan was approved.",
        check=size,
        sources=("https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html",),
    ),
    Rule(
        id="pool-zones",
        title="The pool's zones have subnets",
        why="Nodes start in subnets. Karpenter drops zones without one silently, until none is left; a node group fails.",
        check=zones,
        sources=("karpenter-provider-aws#3211",),
    ),
    Rule(
        id="pool-reservation",
        title="A reservation is one zone, one type, one period",
        why=(
            "Capacity blocks and capacity reservations belong to an instance type in one zone. Outside a block's period there are no instances, whatever the "
            "group's sizes say."
        ),
        check=reservation,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html",),
    ),
    Rule(
        id="pool-availability",
        title="Capacity that can be missing has an alternative",
        why=(
            "Spot capacity is counted for each type and zone; P instances are short in whole zones. A pool with one of each is empty for hours while pods wait."
        ),
        check=spot,
        sources=("containers-roadmap#2204", "karpenter#2275", "karpenter-provider-aws#5527"),
    ),
    Rule(
        id="pool-efa",
        title="EFA on types that have it, in one zone",
        why="Only large sizes have Elastic Fabric Adapters, and low latency needs a cluster placement group, which does not span zones.",
        check=efa,
        sources=("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",),
    ),
    Rule(
        id="pool-desired-ignored",
        title="The desired size belongs to the autoscaler",
        why="Two writers of one number: an update of anything else sets desiredSize back and drains nodes.",
        check=desired_ignored,
        sources=("pulumi-eks#321", "pulumi-eks#985", "pulumi-eks#1770"),
    ),
)
