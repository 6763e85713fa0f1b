"""Each test asks for one thing that nodes of a pool have or do not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies import rules
from policies.facts import Sharing, Stack

from .stacks import core, h100, l4, stack, with_workers

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


def of_p5(gpus: str, interfaces: str, **workers: Any) -> Stack:
    """Two worker pods on p5.48xlarge: 8 GPUs and 32 interfaces a node."""
    limits = {"nvidia.com/gpu": gpus, EFA: interfaces}
    pod = {"containers": [{"name": "ray-worker", "resources": {"limits": limits}}]}
    given = with_workers(
        **{"pod": pod, "limits": limits, "gpus": int(gpus), "min": 2, "replicas": 2, "max": 2, **workers},
        node_selector={"llm-serving/pool": "h100"},
    )
    return replace(given, pools=(core(), h100()))


@pytest.mark.parametrize(
    ("gpus", "interfaces", "expected"),
    [("4", "32", DOUBTED), ("4", "17", DOUBTED), ("4", "16", []), ("8", "32", []), ("1", "4", []), ("1", "8", DOUBTED)],
)
def test_pods_that_take_more_of_a_nodes_interfaces_than_of_its_gpus(
    gpus: str, interfaces: str, expected: list[tuple[str, str]]
) -> None:
    assert said(of_p5(gpus, interfaces)) == expected


def test_one_pod_alone_may_take_all_interfaces_of_a_node() -> None:
    assert said(of_p5("4", "32", min=1, replicas=1, max=1)) == []


def test_pods_that_take_all_interfaces_are_counted_one_to_a_node() -> None:
    given = of_p5("4", "32")
    few = replace(given, pools=(core(), h100(max=1)))
    assert [f.rule for f in rules.check(few, rules=rules.capacity.RULES) if f.severity == "error"] == ["capacity-pool"]
    shared = replace(of_p5("4", "16"), pools=(core(), h100(max=1)))
    assert [f.rule for f in rules.check(shared, rules=rules.capacity.RULES) if f.severity == "error"] == []


def test_nothing_is_said_of_pods_as_they_are_made() -> None:
    assert said(stack()) == []
