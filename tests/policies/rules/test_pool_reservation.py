"""Reserved capacity: its one type, zone and period, and pools that name the same reservation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.facts import NodePool, Stack

from .stacks import VERSIONS, core, found, h100, karpenter_stack, sentences, stack, two_node_stack

BLOCK = {"reservation_kind": "capacity_block", "efa": False}


def with_pools(*pools: NodePool, given: Stack | None = None) -> Stack:
    return replace(given or two_node_stack(), pools=(core(), h100(max=4), *pools))


def other(**over: object) -> NodePool:
    given: dict[str, object] = {"name": "other", "where": "node pool 'other'", "labels": {"llm-serving/pool": "other"}}
    return h100(**{**given, **over})


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (other(instance_types=("p5.48xlarge", "p5e.48xlarge"), reservation="cr-1"), ("pool-reservation", "error")),
        (other(instance_types=("p5.48xlarge", "p5.4xlarge"), **BLOCK), ("pool-reservation", "error")),
        (other(instance_types=("g6.2xlarge",), reservation="cr-1", **BLOCK), ("pool-reservation", "warning")),
        (other(instance_types=("m7i.xlarge",), reservation="cr-1", **BLOCK), ("pool-reservation", "warning")),
        (other(instance_types=("p5en.48xlarge",)), ("pool-reservation-shared", "error")),
        (other(zones=("us-east-1a",)), ("pool-reservation-shared", "error")),
    ],
)
def test_what_is_wrong_with_a_reservation(pool: NodePool, expected: tuple[str, str]) -> None:
    assert expected in found(with_pools(pool))


@pytest.mark.parametrize(
    "pool",
    [
        other(),  # two pools may draw on one reservation
        other(reservation="cr-2", zones=("us-east-1a",)),
        other(reservation_kind="capacity_block", reservation="cr-2"),
        other(instance_types=("p6-b300.48xlarge",), reservation="cr-2", gpu="B300", efa=False),
    ],
)
def test_reservations_that_are_as_they_should_be(pool: NodePool) -> None:
    assert [each for each in found(with_pools(pool)) if each[0].startswith("pool-reservation")] == []


def test_karpenter_reads_capacity_blocks_since_1_6() -> None:
    pool = other(kind="karpenter", reservation="cr-2", limits={"nvidia.com/gpu": 16}, desired=None, **BLOCK)
    given = with_pools(pool, given=karpenter_stack())
    assert sentences(replace(given, versions=replace(VERSIONS, karpenter="1.5.0")), "pool-reservation") == [
        "node pool 'other': Karpenter reads a capacity block since 1.6.0 and this is 1.5.0; use Karpenter 1.6.0 or newer, or a managed node group "
        "[pool-reservation]"
    ]
    assert sentences(given, "pool-reservation") == []


def test_a_copied_id_is_told_with_both_pools() -> None:
    assert sentences(with_pools(other(instance_types=("p5en.48xlarge",))), "pool-reservation-shared") == [
        "node pool 'other': it names reservation cr-0a1b2c3d4e5f60718, as node pool 'h100' does, and their instance types differ (p5.48xlarge; p5en.48xlarge): "
        "a reservation has one of each; give each pool the id of its own reservation [pool-reservation-shared]"
    ]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (("p5.48xlarge",), []),
        (("p5.48xlarge", "p5e.48xlarge"), []),  # as many cards, in the same places
        (("g6e.24xlarge", "g6e.48xlarge"), [("pool-efa", "warning")]),
        (("p6-b200.48xlarge", "p6-b300.48xlarge"), [("pool-efa", "error")]),
        (("p6e-gb200.36xlarge",), []),
        (("g6.2xlarge",), [("pool-efa", "error")]),
    ],
)
def test_efa_of_several_types_has_the_same_network_cards(
    types: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    pool = other(instance_types=types, reservation=None, reservation_kind=None)
    given = stack(pools=(*stack().pools, pool))
    assert [each for each in found(given) if each[0] == "pool-efa"] == expected
