"""Each test asks for one thing that nodes of a pool have or do not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies import rules
from policies.facts import Sharing, Stack

from .stacks import core, l4, stack, with_workers

EFA, SHORT, DOUBTED = "vpc.amazonaws.com/efa", [("placement-resources", "error")], [("placement-resources", "warning")]


def asks(resource: str, number: Any = "1", **pool: Any) -> list[tuple[str, str]]:
    """What is said of workers on the L4 pool that ask for it."""
    limits = {"nvidia.com/gpu": "1", resource: number}
    given = with_workers(pod={"containers": [{"name": "ray-worker", "resources": {"limits": limits}}]})
    return said(replace(given, pools=(core(), l4(**pool))))


def said(given: Stack) -> list[tuple[str, str]]:
    return [(f.rule, f.severity) for f in rules.check(given, rules=rules.extended_resources.RULES)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (asks(EFA), SHORT),
        (asks(EFA, kind="karpenter"), SHORT),
        (asks(EFA, kind="existing", instance_types=()), DOUBTED),
        (asks(EFA, kind="existing", instance_types=(), efa=True), []),
        (asks(EFA, "1", instance_types=("g6.8xlarge",), efa=True), []),
        (asks(EFA, "2", instance_types=("g6.8xlarge",), efa=True), SHORT),
        (asks(EFA, "32", instance_types=("p5.48xlarge",), efa=True), []),
        (asks(EFA, "33", instance_types=("p5.48xlarge",), efa=True), SHORT),
        (asks("ephemeral-storage", "100Gi", root_disk_gib=200, nvme_gb=None), []),
        (asks("ephemeral-storage", "201Gi", root_disk_gib=200, nvme_gb=None), SHORT),
        (asks("ephemeral-storage", "300Gi", root_disk_gib=200, nvme_gb=450), []),
        (asks("ephemeral-storage", "2Ti", kind="existing", instance_types=()), []),
        (asks("hugepages-2Mi", "1Gi"), DOUBTED),
        (asks("hugepages-2Mi", "1Gi", efa=True), []),
        (asks("hugepages-2Mi", "1Gi", ami_id="ami-1"), []),
        (asks("nvidia.com/mig-1g.10gb"), SHORT),
        (asks("nvidia.com/mig-1g.10gb", sharing=Sharing(strategy="mig", mig_profile="1g.10gb")), []),
        (asks("amd.com/gpu"), SHORT),
        (asks("aws.amazon.com/neuron"), SHORT),
        (asks("example.com/fpga"), DOUBTED),
        (asks("example.com/fpga", announced=("example.com/fpga",)), []),
        (asks("example.com/fpga", kind="existing", instance_types=()), []),
    ],
)  # fmt: skip
def test_what_nodes_have(given: list[tuple[str, str]], expected: list[tuple[str, str]]) -> None:
    assert given == expected


def test_nothing_is_said_of_pods_as_they_are_made() -> None:
    assert said(stack()) == []
