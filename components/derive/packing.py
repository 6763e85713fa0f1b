"""How many GPUs (or nodes) a set of shares needs. First fit, largest first: what Ray reaches with shares of one size, and close to it else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

UNIT = 10_000  # Ray's own resolution of resources (FixedPoint, 1/10000); also fine enough for parts of nodes

Run = tuple[int, int]
"""Capacity left (of UNIT) in each of so many bins that follow one another."""


def gpus_for(shares: Iterable[tuple[float, int]]) -> int:
    """GPUs for `(share, count)` pairs, shares in (0, 1]."""
    return bins(pack(shares, ()))


def bins(packed: Iterable[Run]) -> int:
    """Bins of a packing."""
    return sum(count for _, count in packed)


def emptiest(packed: Iterable[Run], most: int) -> list[Run]:
    """Up to `most` bins of a packing, those with most room left first."""
    found: list[Run] = []
    for capacity, count in sorted(packed, reverse=True):
        taken = min(count, most - bins(found))
        if taken <= 0:
            break
        found.append((capacity, taken))
    return found


def pack(shares: Iterable[tuple[float, int]], open_bins: Sequence[Run]) -> list[Run]:
    """The bins after packing: first those of `open_bins`, then as many new ones as it took.

    Bins that are alike stay together, so that the work grows with the number of distinct shares, not with their count.
    """
    free = list(open_bins)
    counts: dict[int, int] = {}
    for share, count in shares:
        size = min(round(share * UNIT), UNIT)
        counts[size] = counts.get(size, 0) + count
    for size, count in sorted(counts.items(), reverse=True):
        if size <= 0:
            continue
        filled: list[Run] = []
        for capacity, number in free:
            runs, count = _fill(capacity, number, size, count)
            filled += runs
        runs, _ = _fill(UNIT, -(-count // (UNIT // size)), size, count)
        free = filled + runs
    return free


def _fill(capacity: int, number: int, size: int, count: int) -> tuple[list[Run], int]:
    """`number` bins of one capacity after taking up to `count` shares of `size`, and the shares that are left."""
    each = capacity // size
    if not each or not count:
        return [(capacity, number)] if number else [], count
    full = min(number, count // each)
    rest = count - full * each if full < number else 0
    left = count - full * each - rest
    runs = [(capacity - each * size, full), (capacity - rest * size, 1 if rest else 0)]
    runs.append((capacity, number - full - (1 if rest else 0)))
    return [run for run in runs if run[1]], left
