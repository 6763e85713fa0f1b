"""Environment variables in a command line, put in as Kubernetes and a shell do. Not for: the flags themselves (command_line.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .records import SecretRef

_KUBERNETES = re.compile(r"(?<!\$)\$\((\w+)\)")
_SHELL = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?[-=]([^}$]*))?\})")
_LEFT = re.compile(r"\$[\w({]")


def filled_in(words: list[str], env: Mapping[str, str | SecretRef]) -> list[str]:
    """Words with the variables that are stated; what is not known (a Secret's, a node's) is left as it is.

    $(NAME) is Kubernetes' own and is put in everywhere; $NAME and ${NAME:-other} only where a shell reads the word: a script.
    """
    found = [_KUBERNETES.sub(lambda match: _stated(env, match[1], match[0]), word) for word in words]
    return [_SHELL.sub(lambda match: _of_shell(env, match), word) if is_script(word) else word for word in found]


def is_script(word: str) -> bool:
    """Whether a word holds a whole command, for a shell."""
    return "vllm" in word and " " in word and not word.startswith("-")


def without_open(args: Mapping[str, Any], *, shell: bool) -> dict[str, Any]:
    """Arguments without those whose value a shell, a Secret, a ConfigMap or the node is yet to give; the model keeps its name."""
    named = () if shell else ("model", "served_model_name")
    return {k: v for k, v in args.items() if k in named or not (isinstance(v, str) and _LEFT.search(v))}


def _stated(env: Mapping[str, str | SecretRef], name: str, otherwise: str) -> str:
    value = env.get(name)
    return value if isinstance(value, str) else otherwise


def _of_shell(env: Mapping[str, str | SecretRef], match: re.Match[str]) -> str:
    name = match[1] or match[2]
    if name in env:
        return _stated(env, name, match[0])
    return match[0] if match[3] is None else match[3]
