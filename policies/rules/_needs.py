"""What one engine argument needs of the others, as rules state it.

Not for: judging (engine_needs.py), or the needs themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from policies.catalog.engine_values import INTEGERS, SWITCHES
from policies.facts.quantities import switch, whole

from ._engines import Seat


@dataclass(frozen=True, slots=True)
class Need:
    """`met` is asked of an engine that has `argument` on, not null and not zero."""

    argument: str
    needs: str
    mend: str
    met: Callable[[Seat], bool]


def on(*names: str) -> Callable[[Seat], bool]:
    """Whether one of these arguments is on."""
    return lambda seat: any(given(seat, name) for name in names)


def given(seat: Seat, name: str) -> bool:
    """Whether an argument is there and not a switch that is off."""
    value = seat.args.get(name)
    off = switch(value) is False if name in SWITCHES else value is False and name not in INTEGERS
    return value is not None and not off


def number(seat: Seat, name: str, default: int = 1) -> int:
    """A whole number, or the default where none is given."""
    found = whole(seat.args.get(name))
    return default if found is None else found
