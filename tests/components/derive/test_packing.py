"""Shares are packed as Ray packs them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.derive.packing import gpus_for
from components.derive.pods import pod_gpus


@pytest.mark.parametrize(
    ("shares", "gpus"),
    [
        ([], 0),
        ([(1.0, 3)], 3),
        ([(0.5, 3)], 2),
        ([(0.45, 4)], 2),
        ([(0.6, 2)], 2),
        ([(0.6, 2), (0.4, 2)], 2),
        ([(0.33, 3)], 1),
        ([(1 / 3, 3)], 1),
        ([(0.34, 3)], 2),
    ],
)
def test_gpus_for_a_set_of_shares(shares: list[tuple[float, int]], gpus: int) -> None:
    assert gpus_for(shares) == gpus


@given(st.lists(st.tuples(st.floats(0.05, 1.0), st.integers(0, 20)), max_size=6))
def test_packing_never_beats_the_sum_and_never_doubles_it(shares: list[tuple[float, int]]) -> None:
    total = sum(round(share, 4) * count for share, count in shares)
    needed = gpus_for(shares)
    assert needed >= total - 0.01
    assert needed <= 2 * total + 1


@pytest.mark.parametrize(
    ("tensor", "pipeline", "node", "expected"),
    [
        (1, 1, 1, (1, 1)),
        (4, 1, 8, (4, 1)),
        (4, 2, 8, (8, 1)),
        (8, 2, 8, (8, 2)),
        (4, 4, 4, (4, 4)),
        (2, 4, 4, (4, 2)),
        (1, 2, 1, (1, 2)),
        (16, 1, 8, (8, 2)),
    ],
)
def test_a_replica_is_cut_into_pods_at_whole_stages(
    tensor: int, pipeline: int, node: int, expected: tuple[int, int]
) -> None:
    assert pod_gpus(tensor, pipeline, node) == expected


def test_a_number_with_too_many_digits_is_counted_as_fast_as_another() -> None:
    assert gpus_for([(0.3, 10**12), (0.1, 1)]) == 333_333_333_334
