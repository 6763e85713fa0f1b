"""Addresses of the cluster's subnets against the nodes that its pools may have.

Not for: subnets that are there already, whose free addresses only the account knows (the preflight checks ask EC2).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.aws import SUBNET
from policies.finding import Problem, Rule, warning

# The VPC CNI keeps a whole interface of addresses warm beside the one in use; xlarge sizes have 15 on each, large ones up to 50.
PER_NODE = 30
RESERVED = 5  # of each subnet, by AWS


def addresses(stack: Stack) -> Iterator[Problem]:
    """In each zone, since nodes may all start in one."""
    if not stack.complete:
        return
    free: dict[str, int] = {}
    for resource in stack.aws:
        cidr, zone = resource.props.get("cidrBlock"), resource.props.get("availabilityZone")
        if resource.type == SUBNET and cidr and zone:
            free[str(zone)] = free.get(str(zone), 0) + ipaddress.ip_network(str(cidr)).num_addresses - RESERVED
    pools = [pool for pool in stack.pools if pool.kind in ("managed", "karpenter") and pool.max]
    spread = sum((pool.max or 0) for pool in pools if len(pool.zones) != 1)
    total, nodes = sum(free.values()), sum(pool.max or 0 for pool in pools)
    for zone, have in sorted(free.items()):
        fixed = sum(pool.max or 0 for pool in pools if pool.zones == (zone,))
        if fixed * PER_NODE > have:
            yield warning(
                "cluster.network",
                f"{have} addresses in the private subnet of {zone}, and up to {fixed} nodes of pools that are there only take about {fixed * PER_NODE} "
                "(the VPC CNI gives each pod one and keeps an interface of them warm): pods stay in ContainerCreating",
                "give the VPC a larger cidr (a /16)",
            )
            return
    if free and nodes * PER_NODE > total:
        yield warning(
            "cluster.network",
            f"{total} addresses in the private subnets, and up to {nodes} nodes ({spread} of them in any zone) take about {nodes * PER_NODE} (the VPC CNI gives each "
            "pod one and keeps an interface of them warm): pods stay in ContainerCreating",
            "give the VPC a larger cidr (a /16), or lower the pools' max",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="network-addresses",
        title="The subnets have addresses for the nodes",
        why=(
            "With the VPC CNI every pod has an address of the subnet, and every node keeps a second interface's worth in hand: 30 for a small node, 100 for a "
            "p5.48xlarge. When a subnet is out of them, nodes come up and their pods do not, and the range of a VPC cannot be changed afterwards."
        ),
        check=addresses,
        sources=(
            "https://docs.aws.amazon.com/eks/latest/best-practices/ip-opt.html",
            "amazon-vpc-cni-k8s: docs/eni-and-ip-target.md",
        ),
    ),
)
