"""How many GPUs a set of shares needs. First fit, largest first: what Ray reaches with shares of one size, and close to it else."""

from __future__ import annotations

from collections.abc import Iterable


def gpus_for(shares: Iterable[tuple[float, int]]) -> int:
    """GPUs for `(share, count)` pairs, shares in (0, 1]. Linear in the number of GPUs times the number of distinct shares.

    Shares are compared in ten-thousandths, Ray's own resolution of resources (FixedPoint, 1/10000).
    """
    free: list[int] = []  # capacity left on each open GPU
    for share, count in sorted(shares, reverse=True):
        size = round(share * 10_000)
        if size <= 0:
            continue
        for index, capacity in enumerate(free):
            if not count:
                break
            taken = min(count, capacity // size)
            free[index] -= taken * size
            count -= taken
        per_gpu = max(1, 10_000 // size)
        while count > 0:
            taken = min(count, per_gpu)
            free.append(10_000 - taken * size)
            count -= taken
    return len(free)
