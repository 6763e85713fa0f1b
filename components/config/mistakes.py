"""What pydantic refuses, as a sentence for each mistake: where, what was given, what is allowed, what to write instead.

Not for: reading files (load.py), or what to write in place of one wrong value (hints.py). No sentence repeats a secret.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from . import hints
from .base import SecretKey
from .environment import Environment


def sentences(error: ValidationError, values: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each mistake in `values`, which pydantic refused with `error`."""
    details = error.errors(include_url=False)
    refused = {detail["loc"][:-1] for detail in details}
    for detail in details:
        # A list whose items are refused counts as empty.
        if not (detail["type"] == "too_short" and detail["input"] and detail["loc"] in refused):
            yield _sentence(detail, values)


def _sentence(detail: ErrorDetails, values: Mapping[str, Any]) -> str:
    loc = [str(part) for part in detail["loc"]]
    model, path, wanted = _walk(loc, values)
    where = place(path)
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        key, parent = path[-1], place(path[:-1])
        allowed = sorted(model.model_fields) if model is not None else []
        return f"{parent}: unknown key '{key}'; {hints.nearest(key, allowed)}allowed: {', '.join(allowed)}"
    if kind == "missing":
        return f"{place(path[:-1])}: '{path[-1]}' is missing; give it"
    if kind == "union_tag_invalid":
        tag, allowed = str(context.get("tag")), [name.strip("'") for name in str(context["expected_tags"]).split(", ")]
        where = place([*path, str(context["discriminator"]).strip("'")])
        return f"{where}: {_show(tag)} was given; {hints.nearest(tag, allowed)}allowed: {', '.join(allowed)}"
    if kind == "value_error" and isinstance(given, Mapping):
        return f"{where}: {detail['msg'].removeprefix('Value error, ')}"  # it lies between its fields, which the message names
    if _as_model(wanted) is SecretKey and not isinstance(given, Mapping):
        return f"{where}: a value was given; only references to Secrets are written here: {{secret: NAME, key: KEY}}"
    hint = hints.instead(
        kind, _without_secrets(given), path[-1] if path else "", _as_model(wanted), members(wanted), context
    )
    message = hint or detail["msg"].removeprefix("Value error, ")
    if message[1:2].islower():  # not "EKS takes ..."
        message = message[0].lower() + message[1:]
    return f"{where}: {_show(given)} was given; {message}"


def _walk(loc: list[str], values: Mapping[str, Any]) -> tuple[type[BaseModel] | None, list[str], Any]:
    """The model in which the error lies, the path as the person wrote it (pydantic adds union tags to its locations), and the type
    that is wanted there."""
    model: type[BaseModel] | None = Environment
    annotation: Any = Environment
    owner: type[BaseModel] | None = Environment
    path: list[str] = []
    data: Any = values
    for part in loc:
        model = _model_of(annotation, part)
        if (model is not None and part == model.__name__) or (
            model is not None and not _has(data, part) and _is_tag(annotation, part)
        ):
            annotation = model
            continue
        path.append(part)
        owner = _as_model(annotation) or owner
        data = (
            data.get(part)
            if isinstance(data, Mapping)
            else (
                data[int(part)]
                if isinstance(data, (list, tuple)) and part.isdigit() and int(part) < len(data)
                else None
            )
        )
        annotation = _child(annotation, part)
    return owner, path, annotation


def _has(data: Any, part: str) -> bool:
    return isinstance(data, Mapping) and part in data


def members(annotation: Any) -> list[Any]:
    """Members of Annotated, Optional and unions."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return members(typing.get_args(annotation)[0])
    if origin is typing.Union or isinstance(annotation, types.UnionType):
        return [member for arg in typing.get_args(annotation) for member in members(arg)]
    return [annotation]


def _as_model(annotation: Any) -> type[BaseModel] | None:
    models = [m for m in members(annotation) if isinstance(m, type) and issubclass(m, BaseModel)]
    return models[0] if len(models) == 1 else None


def _model_of(annotation: Any, tag: str) -> type[BaseModel] | None:
    for member in members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            kind = member.model_fields.get("kind")
            if member.__name__ == tag or (kind is not None and tag in typing.get_args(kind.annotation)):
                return member
    return None


def _is_tag(annotation: Any, part: str) -> bool:
    return len([m for m in members(annotation) if isinstance(m, type)]) > 1 and _model_of(annotation, part) is not None


def _child(annotation: Any, part: str) -> Any:
    for member in members(annotation):
        origin = typing.get_origin(member)
        if origin is dict:
            return typing.get_args(member)[1]
        if origin in (tuple, list):
            return typing.get_args(member)[0]
        if isinstance(member, type) and issubclass(member, BaseModel) and part in member.model_fields:
            return member.model_fields[part].annotation
    return Any


_NOUNS = {"services": "service", "node_pools": "node pool", "queues": "queue", "models": "model"}


def place(path: list[str]) -> str:
    """`['services', 'chat', 'replicas', 'max']` -> "service 'chat': replicas.max": how every message names a place."""
    if not path:
        return "config"
    parts: list[str] = []
    rest = list(path)
    while len(rest) >= 2 and rest[0] in _NOUNS:
        parts.append(f"{_NOUNS[rest[0]]} '{rest[1]}'")
        rest = rest[2:]
    if rest:
        parts.append(".".join(rest))
    return ": ".join(parts)


def _show(value: Any) -> str:
    text = json.dumps(_without_secrets(value), default=str, sort_keys=True)
    return text if len(text) <= 80 else text[:77] + "..."


def _without_secrets(value: Any, name: str = "") -> Any:
    """The value with *** for texts that look like a secret, or that stand under the name of one."""
    from policies.rules.secret_shapes import by_name, shape  # only a mistake pays for it

    if isinstance(value, Mapping):
        of = str(value.get("name", ""))  # {name: HF_TOKEN, value: ...}
        return {key: _without_secrets(each, of if key == "value" else str(key)) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_secrets(each, name) for each in value]
    return "***" if isinstance(value, str) and (shape(value) or by_name(name, value)) else value
