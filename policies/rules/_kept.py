"""What all rules ask of a stack, made once: the answer for the last stack is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from policies.facts import Stack

Answer = TypeVar("Answer")


def per_stack(make: Callable[[Stack], Answer]) -> Callable[[Stack], Answer]:
    """The function, which makes its answer anew for another stack only (by identity: a stack with thousands of objects is slow to hash)."""
    last: tuple[Stack, Answer] | None = None

    @wraps(make)
    def kept(stack: Stack) -> Answer:
        nonlocal last
        if last is None or last[0] is not stack:
            last = (stack, make(stack))
        return last[1]

    return kept
