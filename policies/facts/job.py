"""Reader of a job's command: the arguments of `python -m serve_apps.<app> '<JSON>'`, and the engine in them.

Not for commands of others: what they do is theirs.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from .quantities import items, mapping, whole

_COMMAND = re.compile(r"(^|[\s;&/])python[0-9.]*\s+-m\s+serve_apps\.\w+\s")


def arguments(entrypoint: Any) -> dict[str, Any] | None:
    """The JSON arguments; None where the command is another or cannot be read."""
    if not isinstance(entrypoint, str) or not _COMMAND.search(entrypoint):
        return None
    try:
        words = shlex.split(entrypoint)
        at = next(index for index, word in enumerate(words) if word.startswith("serve_apps."))
        value = json.loads(words[at + 1])
    except (ValueError, IndexError, StopIteration):
        return None
    return value if isinstance(value, dict) else None


def concurrency(args: dict[str, Any]) -> tuple[int, int]:
    """(fewest, most) engines that run side by side; 1 where it is not said or no number."""
    sizes = [whole(each) or 1 for each in items(args.get("concurrency"))]
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (1, 1)


def engine_config(args: dict[str, Any]) -> dict[str, Any]:
    """The engine, in the words of an LLMConfig; empty where there is none."""
    return mapping(args.get("llm_config"))
