"""Environment variables in a command line, put in as Kubernetes and a shell do. Not for: the flags themselves (command_line.py)."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from .records.workloads import SecretRef

Environment = Mapping[str, str | SecretRef]

_KUBERNETES = re.compile(r"(?<!\$)\$\((\w+)\)")
_SHELL = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?[-=]([^}$]*))?\})")
_LEFT = re.compile(r"\$[\w({]")
_SUM = re.compile(r"\$\(\(([^()\n]*)\)\)")  # $((LWS_GROUP_SIZE * DP_SIZE_LOCAL))
_NAME = re.compile(r"[A-Za-z_]\w*")
# A line of its own at the left: what stands inside of an if, or twice, is not known.
_ASSIGNED = re.compile(
    r"""^(?:export[ ]+)?([A-Za-z_]\w*)=("[^"\n]*"|'[^'\n]*'|\$\(\([^()\n]*\)\)|[^\s;"'$]*)[ ]*;?$""", re.MULTILINE
)
_ANY_ASSIGNED = re.compile(r"(?:^|[\s;&(])([A-Za-z_]\w*)\+?=")
_NOT_KNOWN = "$_"
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
}


def filled_in(words: list[str], env: Environment) -> list[str]:
    """Words with the variables that are stated; what is not known (a Secret's, a node's) is left as it is.

    $(NAME) is Kubernetes' own and is put in everywhere; $NAME, ${NAME:-other}, sums and what a script sets only where a shell reads
    the word: a script.
    """
    found = [_KUBERNETES.sub(lambda match: _stated(env, match[1], match[0]), word) for word in words]
    return [_expanded(word, {**env, **_set_by(word, env)}) if is_script(word) else word for word in found]


def is_script(word: str) -> bool:
    """Whether a word holds a whole command, for a shell."""
    return "vllm" in word and " " in word and not word.startswith("-")


def without_open(args: Mapping[str, Any], *, shell: bool) -> dict[str, Any]:
    """Arguments without those whose value a shell, a Secret, a ConfigMap or the node is yet to give; the model keeps its name."""
    named = () if shell else ("model", "served_model_name")
    return {k: v for k, v in args.items() if k in named or not (isinstance(v, str) and _LEFT.search(v))}


def _set_by(script: str, env: Environment) -> dict[str, str]:
    """Variables that a script sets once, as far as their values are known."""
    often = _ANY_ASSIGNED.findall(script)
    found: dict[str, str] = {}
    for name, value in _ASSIGNED.findall(script):
        text = _expanded(value.strip("\"'"), {**env, **found})
        if often.count(name) == 1 and "$" not in text:
            found[name] = text
    return found


def _expanded(text: str, env: Environment) -> str:
    summed = _SUM.sub(lambda match: _sum(match[1], env), text)
    return _SHELL.sub(lambda match: _of_shell(env, match), summed)


def _sum(text: str, env: Environment) -> str:
    """Value of a shell's arithmetic, where a name needs no $."""
    plain = _NAME.sub(lambda match: _stated(env, match[0], match[0]), _expanded(text, env))
    try:
        return str(_whole(ast.parse(plain.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError):
        return _NOT_KNOWN


def _whole(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_whole(node.left), _whole(node.right))
    raise ValueError(ast.dump(node))


def _stated(env: Environment, name: str, otherwise: str) -> str:
    value = env.get(name)
    return value if isinstance(value, str) else otherwise


def _of_shell(env: Environment, match: re.Match[str]) -> str:
    name = match[1] or match[2]
    if name in env:
        return _stated(env, name, match[0])
    return match[0] if match[3] is None else match[3]
