"""The shape of a node pool: sizes, zones, spot, EFA.

Not for: instance types and images (pool_types.py), reservations (pool_reservation.py), disks (pool_disk.py), or whether services
fit (capacity.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.instances import Instance
from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._places import places
from ._values import listed
from .pool_types import rows

# Families whose EFA lies on other network cards than everyone's 0, 1, 2, ... (EC2 user guide, "Maximize network bandwidth").
OWN_CARDS = ("p6-b300", "p6e-gb200")
# Families that regions run out of: a pool of them in one zone without a reservation waits (containers-roadmap#2204).
SCARCE = ("p3", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "p6e-gb200")


# docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
GROUP_NODES = 450


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
        if pool.kind == "managed" and (pool.max or 0) > GROUP_NODES:
            yield warning(
                pool.where,
                f"max {pool.max} is more than the {GROUP_NODES} nodes that EKS gives a node group unless the quota is raised",
                "ask for more in Service Quotas (Amazon EKS, nodes per managed node group), or make two pools",
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
        found = rows(pool)
        without = [row.name for row in found if row.efa_interfaces == 0]
        if without:
            yield error(
                pool.where,
                f"{listed(without)} {'have' if len(without) > 1 else 'has'} no Elastic Fabric Adapter",
                "leave efa out, or use a type with EFA (8xlarge and larger of g5, g6, g6e; p4d, p5, p6)",
            )
        elif any(row.efa_interfaces is None for row in found):
            untraced = listed(row.name for row in found if row.efa_interfaces is None)
            yield error(
                pool.where,
                f"the catalog does not know which network cards of {untraced} have EFA, so its nodes would get none",
                "add efa_interfaces to its row in the catalog, or leave efa out",
            )
        else:
            yield from _interfaces_of_several(pool, found)
        if len(pool.zones) > 1:
            yield error(
                pool.where,
                f"EFA nodes are in a cluster placement group, which lies in one zone, and {len(pool.zones)} are given",
                "give one zone",
            )


def _interfaces_of_several(pool: NodePool, found: list[Instance]) -> Iterator[Problem]:
    """One launch template names the network cards of all its types: what differs between them fits one only."""
    counts = {row.name: row.efa_interfaces or 0 for row in found}
    layouts = {row.family if row.family in OWN_CARDS else "" for row in found}
    if len(layouts) > 1:
        yield error(
            pool.where,
            f"the network cards with EFA differ between {listed(counts)}, and its interfaces are those of {found[0].name}: the others do not start",
            "make a pool for each of them",
        )
    elif len(set(counts.values())) > 1:
        least = min(counts, key=lambda name: (counts[name], name))
        yield warning(
            pool.where,
            f"its nodes get the {counts[least]} EFA interfaces of {least}, whichever type comes: "
            f"{max(counts, key=lambda name: counts[name])} has {max(counts.values())}",
            "make a pool for each type",
        )


def desired_ignored(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        moves = pool.max is None or pool.max > pool.min
        if pool.kind == "managed" and moves and not pool.ignores_desired and stack.autoscaler != "none":
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
