from __future__ import annotations

import ipaddress
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config import ConfigError, parse
from components.manifests.subnets import divide


def test_a_sixteen_over_three_zones_gives_pods_three_quarters_of_it() -> None:
    found = divide("10.0.0.0/16", ["a", "b", "c"])
    assert [each.private for each in found] == ["10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18"]
    assert [each.public for each in found] == ["10.0.192.0/24", "10.0.193.0/24", "10.0.194.0/24"]


@given(prefix=st.integers(16, 24), zones=st.integers(1, 6))
def test_every_range_that_the_config_takes_is_divided_into_subnets_that_aws_takes(prefix: int, zones: int) -> None:
    names = [f"us-east-1{letter}" for letter in "abcdef"[:zones]]
    cidr = f"10.0.0.0/{prefix}"
    try:
        parse({"cluster": {"kind": "aws", "region": "us-east-1", "network": {"cidr": cidr, "zones": names}}})
    except ConfigError:
        return
    found = divide(cidr, names)
    blocks = [ipaddress.ip_network(block) for each in found for block in (each.private, each.public)]
    assert all(16 <= block.prefixlen <= 28 for block in blocks)
    assert all(block.subnet_of(ipaddress.ip_network(cidr)) for block in blocks)
    assert not any(one.overlaps(other) for one, other in combinations(blocks, 2))


@pytest.mark.parametrize(("cidr", "zones"), [("10.0.0.0/28", 3), ("10.0.0.0/8", 3), ("10.0.0.0/24", 6)])
def test_a_range_that_cannot_be_divided_is_refused(cidr: str, zones: int) -> None:
    names = [f"us-east-1{letter}" for letter in "abcdef"[:zones]]
    with pytest.raises(ConfigError, match="takes a /16 to a /"):
        parse({"cluster": {"kind": "aws", "region": "us-east-1", "network": {"cidr": cidr, "zones": names}}})
