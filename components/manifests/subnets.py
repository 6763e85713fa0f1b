"""How the address range of a VPC is divided into subnets. Pure arithmetic; not for VPCs that exist already."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

PUBLIC_PREFIX = 24
"""Public subnets hold NAT gateways and load balancers only: 251 addresses each do, and pods get the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSubnets:
    """The subnets of one zone, as CIDR blocks."""

    zone: str
    private: str
    public: str


def divide(cidr: str, zones: Sequence[str]) -> tuple[ZoneSubnets, ...]:
    """One private and one public block for each zone; private blocks are as large as powers of two allow.

    A /16 over three zones: 10.0.0.0/18, 10.0.64.0/18, 10.0.128.0/18 private, /24 blocks from 10.0.192.0 on public. The
    VPC CNI takes a VPC address for every pod, which is why nodes and pods get three quarters of the range.
    """
    network = ipaddress.IPv4Network(cidr)
    blocks = list(network.subnets(prefixlen_diff=len(zones).bit_length()))
    *private, rest = blocks[: len(zones) + 1]
    public_prefix = max(PUBLIC_PREFIX, rest.prefixlen + (len(zones) - 1).bit_length())
    public = list(rest.subnets(new_prefix=public_prefix))
    return tuple(
        ZoneSubnets(zone=zone, private=str(private[index]), public=str(public[index]))
        for index, zone in enumerate(zones)
    )
