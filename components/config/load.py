"""Config is read here, once: from an environment file or from the running program; bad input becomes one clear error.

Not for rules: what a type cannot say is judged over the plan (policies/rules).
"""

from __future__ import annotations

import difflib
import json
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .environment import Environment

PROJECT = "llm-serving"


class ConfigError(Exception):
    """The config cannot be read. `problems` has one sentence for each mistake: where, what was given, what is allowed."""

    user_facing = True

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_file(path: str | Path) -> Environment:
    """Read an environment file: Pulumi.<env>.yaml, or the same keys without `config:` and prefix.

    Raises ConfigError: file missing, not YAML, unknown keys, wrong types.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            [f"{path}: cannot be read ({error.strerror}); give the path of an environment file"]
        ) from None
    return load_text(text, str(path))


def load_text(text: str, path: str) -> Environment:
    """Read the text of an environment file; `path` is for messages. Raises ConfigError."""
    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigError([f"{place}: not YAML: {getattr(error, 'problem', error)}"]) from None
    if not isinstance(document, Mapping):
        raise ConfigError([f"{path}: holds {type(document).__name__}, not a mapping of config keys"])
    values = document.get("config", document)
    if not isinstance(values, Mapping):
        raise ConfigError([f"{path}: config: holds {type(values).__name__}, not a mapping"])
    prefix = f"{PROJECT}:"
    own = {
        str(key).removeprefix(prefix): value
        for key, value in values.items()
        if ":" not in str(key) or str(key).startswith(prefix)
    }
    return parse(own)


def load_pulumi() -> Environment:
    """Read the config of the running program. Raises ConfigError, also for a key stored as a Pulumi secret."""
    from pulumi.runtime import config as runtime  # only a program that runs under the engine pays for it

    # The public Config has no listing, and without one a misspelt key would be ignored in silence.
    values = {**runtime.get_config_env(), **runtime.CONFIG.get()}
    prefix = f"{PROJECT}:"
    secret = sorted(key for key in values if key.startswith(prefix) and runtime.is_config_secret(key))
    if secret:
        raise ConfigError(
            [
                f"{key}: is stored as a secret; this config holds references to Secrets only: name the Secret and its key"
                for key in secret
            ]
        )
    return parse({key.removeprefix(prefix): _decoded(text) for key, text in values.items() if key.startswith(prefix)})


def _decoded(text: Any) -> Any:
    """Structured config arrives as JSON text, plain values as themselves."""
    try:
        return json.loads(text)
    except (TypeError, json.JSONDecodeError):
        return text


def parse(values: Mapping[str, Any]) -> Environment:
    """Validate. Raises ConfigError with a sentence for each mistake."""
    try:
        return Environment.model_validate(values)
    except ValidationError as error:
        raise ConfigError(sorted(set(_sentences(error, values)))) from None


def _sentences(error: ValidationError, values: Mapping[str, Any]) -> Iterator[str]:
    details = error.errors(include_url=False)
    for detail in details:
        yield _sentence(detail, values)


def _sentence(detail: ErrorDetails, values: Mapping[str, Any]) -> str:
    loc = [str(part) for part in detail["loc"]]
    model, path = _walk(loc, values)
    where = place(path)
    kind, given = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        key, parent = path[-1], place(path[:-1])
        allowed = sorted(model.model_fields) if model is not None else []
        close = difflib.get_close_matches(key, allowed, n=1, cutoff=0.6)
        hint = f"did you mean '{close[0]}'? " if close else ""
        return f"{parent}: unknown key '{key}'; {hint}allowed: {', '.join(allowed)}"
    if kind == "missing":
        return f"{place(path[:-1])}: '{path[-1]}' is missing; give it"
    message = _SHAPES.get(kind, detail["msg"].removeprefix("Value error, "))
    if kind == "value_error" and isinstance(given, Mapping):
        return f"{where}: {message}"  # what is wrong lies between its fields, and the message names them
    message = message[0].lower() + message[1:]
    return f"{where}: {_show(given)} was given; {message}"


_SHAPES = {
    "tuple_type": "a list is wanted, e.g. [a, b]",
    "list_type": "a list is wanted, e.g. [a, b]",
    "dict_type": "a mapping of keys is wanted",
    "model_type": "a mapping of keys is wanted",
    "model_attributes_type": "a mapping of keys is wanted",
}
"""What pydantic calls by Python's names, as somebody who writes YAML knows it."""


def _walk(loc: list[str], values: Mapping[str, Any]) -> tuple[type[BaseModel] | None, list[str]]:
    """The model in which the error lies and the path as the person wrote it (pydantic adds union tags to its locations)."""
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
    return owner, path


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
    text = json.dumps(value, default=str, sort_keys=True)
    return text if len(text) <= 80 else text[:77] + "..."
