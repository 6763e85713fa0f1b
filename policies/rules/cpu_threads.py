"""Cores that a CPU engine binds its threads to, against the cores of its pod.

Not for: memory of CPU engines (host_memory.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

from ._engines import literal_env, seats

_BIND = "VLLM_CPU_OMP_THREADS_BIND"
_WORDS = ("auto", "nobind")


def threads(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        given = (literal_env(seat, _BIND) or "").strip()
        if seat.on_gpu or not given or given in _WORDS:
            continue
        lists = [_cores(part) for part in given.split("|")]
        ranks = seat.engine.world * max(1, seat.engine.data)
        if None in lists:
            yield error(
                seat.engine.where,
                f"{_BIND} {given!r} is no list of cores: vLLM refuses to start",
                "leave it out, or write nobind",
            )
            continue
        if len(lists) != ranks:
            yield error(
                seat.engine.where,
                f"{_BIND} has {len(lists)} lists of cores and the engine {ranks} workers: vLLM refuses to start",
                "give one list for each worker, with | between them, or leave it out",
            )
        bound = {core for part in lists for core in part or ()}
        limit = seat.group.cpu_limit_milli if seat.group is not None else None
        if limit is not None and len(bound) * 1000 > limit:
            yield warning(
                seat.engine.where,
                f"{_BIND} binds threads to {len(bound)} cores by number and its pod may use {limit / 1000:g}: they wait for each other at the limit, on cores that other pods have as well",
                "leave it out and have the pod's cores for itself (Guaranteed, CPU manager static), or write nobind and as many threads as cores in OMP_NUM_THREADS",
            )


def _cores(text: str) -> tuple[int, ...] | None:
    """Numbers of "5,2-4"; None where it is no such list."""
    out: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            return None
        out += range(int(first), int(last or first) + 1)
    return tuple(out)


RULES: tuple[Rule, ...] = (
    Rule(
        id="cpu-threads",
        title="A CPU engine's threads have the cores that they are bound to",
        why=(
            "Numbers of cores are those of the node. A pod's limit is a share of time and not a set of cores, so that threads bound to more cores than the limit are "
            "stopped in turn, and each parallel step waits for the last of them."
        ),
        check=threads,
        sources=("vllm PR#17930", "vllm 0.29.0: utils/ompmultiprocessing.py"),
    ),
)
