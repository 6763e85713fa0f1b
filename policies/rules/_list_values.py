"""What members of a list must be, where a kind does not say it: GPUs, CPUs and NUMA nodes that an engine is bound to.

Not for: kinds of members (_argument_kinds.py, which asks here). Source: vLLM 0.29.0, engine/arg_utils.py _resolve_device_ids,
config/parallel.py _validate_numa_bind_nodes and _validate_numa_bind_cpus.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from policies.facts.quantities import whole

_CPUS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def _devices(these: Sequence[Any]) -> bool:
    """Numbers or texts, never both: texts are UUIDs, numbers that are written as text, or variables that a shell puts in."""
    kinds = {type(each) for each in these}
    named = all(not isinstance(each, str) or re.fullmatch(r"\s*\d+\s*|(GPU|MIG)-\S+|.*\$.*", each) for each in these)
    return kinds in (set(), {int}, {str}) and named and len(set(these)) == len(these)


def _nodes(these: Sequence[Any]) -> bool:
    return all(number is not None and number >= 0 for number in map(whole, these))


def _cpus(these: Sequence[Any]) -> bool:
    return all(isinstance(each, str) and _CPUS.fullmatch(each) and _ascending(each) for each in these)


def _ascending(text: str) -> bool:
    ranges = [part.split("-") for part in text.split(",") if "-" in part]
    return all(int(first) <= int(last) for first, last in ranges)


MEMBERS: dict[str, tuple[str, Callable[[Sequence[Any]], bool]]] = {
    "device_ids": ("a list of whole numbers, or one of GPU UUIDs, each once", _devices),
    "numa_bind_cpus": ("a list of CPUs in numactl's words, ranges ascending, such as 0-3 or 0,2,4-7", _cpus),
    "numa_bind_nodes": ("a list of whole numbers from 0", _nodes),
}
"""Argument: (what is allowed, whether a list is that)."""
