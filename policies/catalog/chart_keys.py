"""Value keys that charts read, by version: names alone, from their values.yaml and templates (chart_values/*.txt, with their source).

A key ends in `*` where anything may stand below it. Not for: what a value means (the rules on each chart).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).resolve().parent / "chart_values"
# Subcharts whose own values are not in the lists: what is below these keys is theirs.
_SUBCHARTS: Mapping[str, tuple[str, ...]] = {
    "gpu-operator": ("node-feature-discovery",),
    "kube-prometheus-stack": (
        "crds",
        "grafana",
        "kube-state-metrics",
        "prometheus-node-exporter",
        "prometheus-windows-exporter",
    ),
}
_ALWAYS = ("global",)  # Helm hands it to every subchart


@lru_cache(maxsize=64)
def known(chart: str, version: str) -> frozenset[str] | None:
    """Keys of a chart in that version; None where they are not listed."""
    path = _DATA / f"{chart}-{version.removeprefix('v')}.txt"
    if not path.is_file():
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    found = {line for line in lines if line and not line.startswith("#")}
    return frozenset(found | {f"{name}.*" for name in (*_ALWAYS, *_SUBCHARTS.get(chart, ()))} | set(_ALWAYS))


@lru_cache(maxsize=64)
def listed(chart: str) -> tuple[str, ...]:
    """Versions of a chart whose keys are listed."""
    found = (path.stem.removeprefix(f"{chart}-") for path in _DATA.glob(f"{chart}-*.txt"))
    return tuple(sorted(version for version in found if version[:1].isdigit()))


def unread(values: Mapping[str, Any], keys: frozenset[str], prefix: str = "") -> list[str]:
    """Paths of `values` that the chart does not read, sorted. A mapping where the chart has a list or a text is not looked into."""
    found: list[str] = []
    for key, value in sorted(values.items()):
        path = f"{prefix}{key}"
        if path not in keys:
            found.append(path)
        elif isinstance(value, Mapping) and f"{path}.*" not in keys and path in _parents(keys):
            found += unread(value, keys, f"{path}.")
    return found


@lru_cache(maxsize=64)
def _parents(keys: frozenset[str]) -> frozenset[str]:
    return frozenset(key.rpartition(".")[0] for key in keys)


def near(path: str, keys: Collection[str], value: Any = None) -> list[str]:
    """Keys that the path may have been meant for: beside it, of the same name elsewhere, or what stands below it and has another place
    now; best first, at most two."""
    import difflib  # only a miss pays for it

    parent, _, name = path.rpartition(".")
    beside = [key for key in keys if key.rpartition(".")[0] == parent and not key.endswith("*")]
    last = {key.rpartition(".")[2]: key for key in beside}
    close = [last[each] for each in difflib.get_close_matches(name, sorted(last), n=1, cutoff=0.75)]
    folded = [key for each, key in last.items() if each.casefold() == name.casefold()]
    elsewhere = sorted((key for key in keys if key.rpartition(".")[2] == name), key=lambda key: (key.count("."), key))
    found = list(dict.fromkeys((*folded, *close, *elsewhere)))
    if not found:
        found = [key for leaf in _leaves(value) for key in sorted(keys) if key.rpartition(".")[2] == leaf]
    return found[:2]


def _leaves(value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return []
    return [leaf for key, inner in value.items() for leaf in (_leaves(inner) or [str(key)])]
