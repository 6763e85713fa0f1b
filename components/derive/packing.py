"""How many GPUs (or nodes) a set of shares needs. First fit, largest first: what Ray reaches with shares of one size, and close to it else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

UNIT = 10_000  # Ray's own resolution of resources (FixedPoint, 1/10000); also fine enough for parts of nodes


def gpus_for(shares: Iterable[tuple[float, int]]) -> int:
    """GPUs for `(share, count)` pairs, shares in (0, 1]."""
    return len(pack(shares, ()))


def pack(shares: Iterable[tuple[float, int]], open_bins: Sequence[int]) -> list[int]:
    """Capacity left (of UNIT) in each bin after packing: first those of `open_bins`, then as many new ones as it took.

    Linear in the number of bins times the number of distinct shares.
    """
    free = list(open_bins)
    counts: dict[int, int] = {}
    for share, count in shares:
        size = round(share * UNIT)
        counts[size] = counts.get(size, 0) + count
    for size, count in sorted(counts.items(), reverse=True):
        if size <= 0:
            continue
        for index, capacity in enumerate(free):
            if not count:
                break
            taken = min(count, capacity // size)
            free[index] -= taken * size
            count -= taken
        per_gpu = max(1, UNIT // size)
        while count > 0:
            taken = min(count, per_gpu)
            free.append(UNIT - taken * size)
            count -= taken
    return free
