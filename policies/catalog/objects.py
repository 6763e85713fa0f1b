"""Shapes of objects that stand beside the workloads, by kind and API version (object_shapes/*.json, each with its source).

Made from CRDs and from Kubernetes' Python client by tests/policies/catalog/shapes_of.py: names, types, choices, what must be
there. Not for: pods and what makes them (pod_schema.py), Ray's kinds (kuberay_schema.py), or values that depend on others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .pod_schema import NUMBER, POD, SWITCH, TEXT, WHOLE, Shape

FOLDER = Path(__file__).resolve().parent / "object_shapes"
_TYPES: Mapping[str, Any] = {"text": TEXT, "whole": WHOLE, "number": NUMBER, "switch": SWITCH, "@pod": POD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind: versions -> shape of its fields beside metadata, and versions that its CRD has and no longer serves."""

    group: str
    name: str
    source: str
    versions: Mapping[str, Shape]
    unserved: tuple[str, ...]


@cache
def kind(group: str, name: str) -> Kind | None:
    """None where no shape is kept. group: "" for the core of Kubernetes."""
    path = FOLDER / f"{name}.{group or 'core'}.json"
    if not name.isalnum() or not path.is_file():
        return None
    given = json.loads(path.read_text(encoding="utf-8"))
    return Kind(
        group=group,
        name=name,
        source=given["source"],
        versions={version: _shape(shape) for version, shape in given["versions"].items()},
        unserved=tuple(given["unserved"]),
    )


def _shape(given: Any) -> Any:
    if isinstance(given, str):
        return _TYPES[given]
    if isinstance(given, list):
        return tuple(given)
    return {name: _shape(value) for name, value in given.items()} if isinstance(given, dict) else given
