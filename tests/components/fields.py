"""Walks the config models for the tests that vary every field: which fields there are, and what else each may hold."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from components.config.mistakes import members


def _nested(annotation: Any) -> type[BaseModel] | None:
    found = [each for each in members(annotation) if isinstance(each, type) and issubclass(each, BaseModel)]
    return found[0] if found else None


def _entry(annotation: Any) -> Any:
    """What a mapping holds; nothing for any other type."""
    found = [typing.get_args(each)[1] for each in members(annotation) if typing.get_origin(each) is dict]
    return found[0] if found else None


def longest_start(starts: Mapping[str, Mapping[str, Any]], path: str) -> Mapping[str, Any]:
    """What the longest of `starts` whose path this one begins with holds; nothing when there is none."""
    parts = path.split(".")
    found = (starts.get(".".join(parts[:length])) for length in range(len(parts), 0, -1))
    return next((each for each in found if each is not None), {})


def leaves(
    config: type[BaseModel], path: str = "", *, models: type[BaseModel] | None = None, skip: tuple[str, ...] = ()
) -> Iterator[tuple[str, FieldInfo]]:
    """(dotted path, field) of every field that holds no further config model, in mappings under the name `other`.

    `models`: config of what lies under `models.` (by any name); `skip`: paths that are left out with all below them.
    """
    for name, field in config.model_fields.items():
        here = f"{path}{name}"
        inner, named = _nested(field.annotation), _nested(_entry(field.annotation))
        if here in skip:
            continue
        if here == "models" and models is not None:
            yield from leaves(models, "models.")
        elif inner is not None:
            yield from leaves(inner, here + ".", skip=skip)
        elif named is not None:
            yield from leaves(named, f"{here}.other.", skip=skip)
        else:
            yield here, field


def others(path: str, field: FieldInfo, given: Mapping[str, Any]) -> list[Any]:
    """Values to vary a field to: the one that is given, each other one of a few, else one that differs from the default."""
    if path in given:
        return [given[path]]
    for kind in members(field.annotation):
        origin, default = typing.get_origin(kind), field.get_default(call_default_factory=True)
        if origin is typing.Literal:
            return [each for each in typing.get_args(kind) if each != default]
        if kind is bool:
            return [not default] if default is not None else [True, False]
        if kind in (int, float):
            return [kind(default * 2 + 3) if default else 3]
        if kind is str:
            return ["other"]
        if origin is dict:
            return [{"other": "1"}]
    raise AssertionError(f"{path}: say in the test what to vary {field.annotation} to")
