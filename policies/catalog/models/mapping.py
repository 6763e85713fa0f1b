"""Mappings (JSON, or `models:` of an environment file) to model rows, with every mistake named. Not for: reading files."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from policies.catalog.lookup import closest_names
from policies.catalog.models.row import Model

Record = TypeVar("Record")


class InvalidModel(ValueError):
    """A model row that cannot be built. `problems` are clauses that say the field, what was given and what is allowed."""

    def __init__(self, where: str, problems: tuple[str, ...]) -> None:
        self.where = where
        self.problems = problems
        super().__init__(f"{where}: {'; '.join(problems)}")


def from_mapping(mapping: Mapping[str, Any], where: str = "model") -> Model:
    """The model row that `mapping` describes; InvalidModel lists all that is wrong with it, prefixed with `where`.

    Required: the fields of `Model` without a default, except that `source` and `checked_on` may be left out.
    """
    filled = {"source": "given inline", "checked_on": "", **mapping}
    problems: list[str] = []
    model = _record(Model, filled, "", problems)
    if model is None or problems:
        raise InvalidModel(where, tuple(problems))
    problems += _consistency(model)
    if problems:
        raise InvalidModel(where, tuple(problems))
    return model


def to_mapping(model: Model) -> dict[str, Any]:
    """The smallest mapping from which `from_mapping` builds `model` again: fields at their default are left out."""
    return _plain(model)


def _plain(record: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.default is not dataclasses.MISSING and value == field.default:
            continue
        if dataclasses.is_dataclass(value):
            value = _plain(value)
        elif isinstance(value, tuple):
            value = [list(item) if isinstance(item, tuple) else item for item in value]
        out[field.name] = value
    return out


def _record(cls: type[Record], mapping: Any, path: str, problems: list[str]) -> Record | None:
    if not isinstance(mapping, Mapping):
        problems.append(f"{path.rstrip('.') or 'the model'} is {mapping!r}, not a mapping")
        return None
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    before = len(problems)
    for key in mapping:
        if key not in fields:
            near = closest_names(str(key), fields, 1)
            problems.append(f"{path}{key} is not a field of a model" + (f"; did you mean {near[0]}?" if near else ""))
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in mapping:
            values[name] = _value(field.type, mapping[name], f"{path}{name}", problems)
        elif field.default is dataclasses.MISSING:
            problems.append(f"{path}{name} is missing")
    return cls(**values) if len(problems) == before else None


def _value(kind: Any, value: Any, path: str, problems: list[str]) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        options = [option for option in get_args(kind) if option is not types.NoneType]
        return None if value is None else _value(options[0], value, path, problems)
    if origin is Literal:
        if value not in get_args(kind):
            problems.append(f"{path} is {value!r}; it is one of {', '.join(map(str, get_args(kind)))}")
        return value
    if origin is tuple:
        if isinstance(value, Mapping):  # bytes_by_dtype reads best as a mapping
            value = sorted(value.items())
        if not isinstance(value, (list, tuple)):
            problems.append(f"{path} is {value!r}, not a list")
            return ()
        inner = get_args(kind)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_value(inner[0], item, f"{path}[{i}]", problems) for i, item in enumerate(value))
        return tuple(_value(part, item, path, problems) for part, item in zip(inner, value, strict=False))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _record(kind, value, f"{path}.", problems)
    # bool is an int to Python, never to a person who writes a count
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        problems.append(f"{path} is {value!r}, not {'an integer' if kind is int else f'a {kind.__name__}'}")
    elif kind is int and value < 0:
        problems.append(f"{path} is {value}, which cannot be negative")
    return value


def _consistency(model: Model) -> list[str]:
    problems = []
    for name in ("layers", "hidden_size", "vocab_size", "attention_heads", "kv_heads", "head_dim", "parameters"):
        if getattr(model, name) <= 0:
            problems.append(f"{name} is {getattr(model, name)}; it must be at least 1")
    kinds = set(model.layer_kinds)
    needs = {
        "sliding": ("sliding_window", model.sliding_window),
        "chunked": ("attention_chunk_size", model.attention_chunk_size),
        "linear": ("linear_attention", model.linear_attention),
        "mamba": ("mamba", model.mamba),
        "moe": ("moe", model.moe),
    }
    for kind in sorted(kinds):
        field, value = needs.get(kind, ("", True))
        if not value:
            problems.append(f"layer_kinds has {kind!r}, which needs {field}")
    if model.kv_heads and model.attention_heads % model.kv_heads and not model.mla:
        problems.append(f"attention_heads {model.attention_heads} is not a multiple of kv_heads {model.kv_heads}")
    return problems
