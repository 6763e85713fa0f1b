"""Config is read here, once: from an environment file or from the running program; bad input becomes one clear error.

Not for rules: what a type cannot say is judged over the plan (policies/rules).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from .environment import Environment
from .mistakes import sentences

PROJECT = "llm-serving"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML in which a key that is there twice is an error, as it is for Pulumi: PyYAML keeps the last one in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value:  # what is merged by << comes later, and may be overridden
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.MarkedYAMLError(
                    problem=f"key '{key.value}' is there twice; the first one would be lost: keep one of them",
                    problem_mark=key.start_mark,
                )
            if isinstance(key.value, str):
                seen.add(key.value)
        return super().construct_mapping(node, deep)


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
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        problem = getattr(error, "problem", error)
        raise ConfigError(
            [f"{place}: {problem}" if "twice" in str(problem) else f"{place}: not YAML: {problem}"]
        ) from None
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
        raise ConfigError(sorted(set(sentences(error, values)))) from None
