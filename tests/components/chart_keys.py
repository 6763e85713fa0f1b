"""Value keys that a chart knows: those of its values.yaml and those that its templates read. One sorted list a chart version.

The lists under policies/catalog/chart_values are made by `python -m tests.components.chart_keys FOLDER SOURCE > FILE` from a checkout of
the chart; they hold names only. Below an empty mapping, and below what templates pass on as it is (toYaml, range), anything
goes: `*`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from policies.catalog import chart_keys

_REFERENCE = re.compile(r"\.Values((?:\.[A-Za-z_][A-Za-z0-9_]*)+)")
_PASSED_ON = re.compile(
    r"(?:toYaml|range\s[^}]*:=)\s*\(?\s*\.Values\.([\w.]+)|with\s+\.Values\.([\w.]+)\s*-?\}\}[^{]*\{\{-?\s*toYaml\s+\."
)


def keys_of(chart: Path) -> set[str]:
    """All keys of an unpacked chart and of the subcharts inside it."""
    found = set(_paths(yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8")) or {}))
    for template in sorted((chart / "templates").rglob("*")):
        if template.suffix in (".yaml", ".yml", ".tpl", ".txt"):
            text = template.read_text(encoding="utf-8")
            found |= {match[1:] for match in _REFERENCE.findall(text)}
            found |= {f"{first or second}.*" for first, second in _PASSED_ON.findall(text)}
    for sub in sorted((chart / "charts").glob("*/values.yaml")):
        found |= {f"{sub.parent.name}.{key}" for key in keys_of(sub.parent)}
    return found


def _paths(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield path
            yield from _paths(value, f"{path}.")
        else:
            yield f"{path}.*" if value == {} or value is None else path
            if value == {} or value is None:
                yield path


def read(chart: str, version: str) -> frozenset[str]:
    """The committed list; it fails with the command when there is none for the version."""
    found = chart_keys.known(chart, version)
    assert found is not None, f"{chart} {version} is missing: make it with python -m tests.components.chart_keys"
    return found


unknown = chart_keys.unread


def main() -> None:
    folder, source = Path(sys.argv[1]), sys.argv[2]
    sys.stdout.write(f"# {source}\n" + "".join(f"{key}\n" for key in sorted(keys_of(folder))))


if __name__ == "__main__":
    main()
