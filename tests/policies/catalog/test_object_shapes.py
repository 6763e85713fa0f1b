"""Shapes of other projects' kinds: made from their CRDs, and each of them read."""

from __future__ import annotations

from typing import Any

import pytest

from policies.catalog.objects import FOLDER, kind
from tests.policies.catalog.shapes_of import KUBERNETES, SOURCES, of_crd, of_kubernetes

FILES = sorted(path.name.removesuffix(".json") for path in FOLDER.glob("*.json"))


def crd(**fields: Any) -> dict[str, Any]:
    served = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"properties": {"metadata": {}, **fields}}}}
    served["schema"]["openAPIV3Schema"]["type"] = "object"  # type: ignore[index]
    old = {"name": "v1beta1", "served": False, "schema": {"openAPIV3Schema": {}}}
    return {"spec": {"group": "example.com", "names": {"kind": "Widget"}, "versions": [served, old]}}


def test_a_crd_becomes_names_types_choices_and_what_must_be_there() -> None:
    spec = {
        "type": "object",
        "required": ["mode", "size"],
        "properties": {
            "mode": {"type": "string", "enum": ["Fast", "Slow"]},
            "size": {"type": "integer", "default": 1},
            "limit": {"x-kubernetes-int-or-string": True},
            "names": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    made = of_crd(crd(spec=spec), "a test")
    assert made["unserved"] == ["v1beta1"]
    assert made["versions"]["v1"]["spec"] == {
        "!": ["mode"],  # what has a default may be left out
        "mode": ["Fast", "Slow"],
        "size": "whole",
        "limit": None,
        "names": {"[]": "text"},
        "labels": {"{}": "text"},
        "anything": None,
    }


def test_every_kind_of_the_lists_has_its_file_and_no_other_is_there() -> None:
    own = {f"{name}.{group or 'core'}" for group, names in KUBERNETES.items() for name in names}
    groups = {name.partition("_")[0] for name in SOURCES}
    assert own <= set(FILES)
    assert {each.partition(".")[2] for each in set(FILES) - own} == groups
    assert len(FILES) == len(own) + len(SOURCES)


@pytest.mark.parametrize("name", FILES)
def test_each_shape_is_read(name: str) -> None:
    short, _, group = name.partition(".")
    found = kind("" if group == "core" else group, short)
    assert found is not None
    assert found.versions
    assert found.source


def test_kubernetes_own_kinds_are_those_of_the_client_in_use() -> None:
    made = of_kubernetes("policy", "PodDisruptionBudget")
    spec = made["versions"]["v1"]["spec"]
    assert spec["unhealthyPodEvictionPolicy"] == "text"
    assert spec["maxUnavailable"] is None  # a number or a percentage


def test_a_kind_that_is_not_kept_has_no_shape() -> None:
    assert kind("example.com", "Widget") is None
    assert kind("", "../objects") is None
