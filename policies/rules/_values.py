"""Small readings that rules share: odd values as numbers, versions in order, values of a Helm release.

Not for: facts about nodes and pods (see _places.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from policies.catalog.lookup import UnknownRow
from policies.facts import Release, SecretRef, Stack

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Hosts that only the pod itself reaches."""
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)")


def version(text: object) -> tuple[int, ...] | None:
    """The numbers of a version, "v0.16.5-rc1" -> (0, 16, 5); None for what is none."""
    return _numbers(text) if isinstance(text, str) else None


@lru_cache(maxsize=4096)
def _numbers(text: str) -> tuple[int, ...] | None:
    match = _VERSION.match(text.strip())
    return tuple(int(part) for part in match.group(1).split(".")) if match else None


def before(given: object, limit: str) -> bool:
    """Whether `given` is a version and older than `limit`."""
    numbers, bound = version(given), version(limit)
    if numbers is None or bound is None:
        return False
    width = max(len(numbers), len(bound))
    return numbers + (0,) * (width - len(numbers)) < bound + (0,) * (width - len(bound))


def dig(values: object, *path: str) -> Any:
    """The value at a path of nested mappings; None where the path ends early."""
    for key in path:
        if not isinstance(values, Mapping):
            return None
        values = values.get(key)
    return values


def true(value: object, default: bool) -> bool:
    """A Helm boolean as Helm's templates see it: true, "true" or the chart's default."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return default


def chart_name(release: Release) -> str:
    """The chart without repository: "oci://x/kai-scheduler" -> "kai-scheduler"."""
    name = str(release.chart or "").rstrip("/").rsplit("/", 1)[-1]
    return re.sub(r"-v?\d+\.\d+.*\.tgz$", "", name)


def releases(stack: Stack, *charts: str) -> list[Release]:
    """Releases of any of these charts whose values are known: a chart's defaults are not what an unseen value is."""
    return [release for release in stack.releases if release.values_known and chart_name(release) in charts]


def literal(env: Mapping[str, str | SecretRef], name: str) -> str | None:
    """A literal environment variable; None when it is absent or comes from a Secret."""
    value = env.get(name)
    return value if isinstance(value, str) else None


def listed(names: Iterable[object], most: int = 8) -> str:
    """Names in quotes, sorted, for a message; a long list is cut."""
    ordered = sorted({str(name) for name in names})
    text = ", ".join(f"'{name}'" for name in ordered[:most])
    return text + (f" and {len(ordered) - most} more" if len(ordered) > most else "")


def unknown(miss: UnknownRow, otherwise: str) -> tuple[str, str]:
    """(message, mend) for a name that no catalog row carries."""
    names = " or ".join(f"'{name}'" for name in miss.closest)
    return f"{miss.kind} '{miss.given}' is not in the catalog", f"did you mean {names}?" if names else otherwise


def a(name: str) -> str:
    """A GPU's name with its article: "an H100", "a T4"."""
    return f"{'an' if name[:1] in 'AHLR' else 'a'} {name}"


def amount(number: float) -> str:
    """A count without needless decimals: 2.0 -> "2", 0.49 -> "0.49"."""
    return f"{round(number, 4):g}"


def gib(mib: float) -> str:
    """MiB as GiB for a message."""
    return f"{round(mib / 1024, 1):g} GiB"
