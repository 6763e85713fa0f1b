"""Where a live object differs from what was stated. What the server adds by itself is no difference. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from policies.facts.quantities import quantity


def drift(stated: Any, live: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, stated, live) of every stated value that the live one does not have. None in place of what is not there."""
    if isinstance(stated, Mapping):
        if not isinstance(live, Mapping):
            if stated or live:
                yield path, stated, live
            return
        for key, value in sorted(stated.items()):
            here = f"{path}.{key}" if path else str(key)
            if key == "serveConfigV2":
                yield from drift(_text(value), _text(live.get(key)), here)
            else:
                yield from drift(value, live.get(key), here)
    elif isinstance(stated, list):
        if not isinstance(live, list) or len(live) != len(stated):
            if stated or live:
                yield path, stated, live
            return
        for index, (mine, theirs) in enumerate(zip(stated, live, strict=True)):
            yield from drift(mine, theirs, f"{path}[{index}]")
    elif not _same(stated, live):
        yield path, stated, live


def _same(stated: Any, live: Any) -> bool:
    """Equal, or the same quantity in other words; the server leaves out what is empty, zero or false."""
    if stated == live or (live is None and not stated):
        return True
    mine, theirs = quantity(stated), quantity(live)
    return mine is not None and mine == theirs


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        try:
            return yaml.safe_load(value)
        except yaml.YAMLError:
            return value


def shown(differences: list[tuple[str, Any, Any]], most: int = 4) -> str:
    """`spec.replicas is 3 and not 2; ...`."""
    texts = [f"{path} is {_short(live)} and not {_short(stated)}" for path, stated, live in differences[:most]]
    more = len(differences) - most
    return "; ".join([*texts, *([f"and {more} more"] if more > 0 else [])])


def _short(value: Any) -> str:
    if value is None:
        return "not there"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
