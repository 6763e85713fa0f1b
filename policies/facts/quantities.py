"""Kubernetes quantities and odd numbers: what is on the wire becomes a number here, or None."""

from __future__ import annotations

import math
from typing import Any

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_YES, _NO = ("1", "on", "t", "true", "y", "yes"), ("0", "f", "false", "n", "no", "off")
_DECIMAL = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}


def quantity(value: Any) -> float | None:
    """A Kubernetes quantity in its base unit (cores, bytes): "500m" -> 0.5, "2Gi" -> 2147483648. None for what is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return real(value)
    text = str(value).strip()
    scale = 1.0
    if text[-2:] in _BINARY:
        text, scale = text[:-2], float(_BINARY[text[-2:]])
    elif text[-1:] in _DECIMAL and text[-1:]:
        text, scale = text[:-1], _DECIMAL[text[-1:]]
    number = real(text)
    return None if number is None else number * scale


def milli(value: Any) -> int | None:
    """Cores as thousandths."""
    number = quantity(value)
    return None if number is None else round(number * 1000)


def mib(value: Any) -> int | None:
    """Bytes as MiB, rounded down."""
    number = quantity(value)
    return None if number is None else int(number // 2**20)


def whole(value: Any) -> int | None:
    """A whole number, from 2, 2.0 or "2"."""
    if isinstance(value, bool) or value is None:
        return None
    number = real(value)
    return int(number) if number is not None and number.is_integer() else None


def real(value: Any) -> float | None:
    """A finite number, from 0.4 or "0.4"."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def switch(value: Any) -> bool | None:
    """True or false as pydantic reads it: true, 1, "yes"; None for what is neither."""
    if isinstance(value, str):
        low = value.lower()
        return low in _YES if low in _YES or low in _NO else None
    return bool(value) if isinstance(value, (bool, int, float)) and value in (0, 1) else None


def mapping(value: Any) -> dict[str, Any]:
    """The mapping, or an empty one where something else stands."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The list, or an empty one where something else stands."""
    return list(value) if isinstance(value, (list, tuple)) else []
