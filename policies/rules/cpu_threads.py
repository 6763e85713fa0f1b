"""Cores that a CPU engine binds its threads to, against the cores of its pod.

Not for: memory of CPU engines (host_memory.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, seats

_BIND = "VLLM_CPU_OMP_THREADS_BIND"
_MEND = "write nobind, and in OMP_NUM_THREADS the threads of a worker; or have the pod's cores for itself (Guaranteed, CPU manager static)"


def threads(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        given = (literal_env(seat, _BIND) or "").strip() or "auto"
        if seat.on_gpu or given == "nobind":
            continue
        if given == "auto":
            yield from _automatic(seat)
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


def _automatic(seat: Seat) -> Iterator[Problem]:
    """vLLM's own binding: a NUMA node for each worker, and a thread on each physical core of it that the process may run on."""
    group, pool = seat.group, seat.pool
    workers = seat.engine.world * (1 if seat.ray else max(1, seat.engine.data))
    if workers > 1:
        yield warning(
            seat.engine.where,
            f"{workers} workers of a CPU engine and {_BIND} auto: vLLM takes a NUMA node for each, and refuses to start where there are fewer",
            _MEND,
        )
    if group is None or pool is None or not group.cpu_milli or not pool.cpu_milli:
        return
    if pool.cpu_milli >= 2 * group.cpu_milli:
        yield warning(
            seat.engine.where,
            f"{_BIND} auto binds a thread to each core of the node, the first ones first: its pod has {group.cpu_milli / 1000:g} of "
            f"{pool.cpu_milli / 1000:g} cores, and a second engine there binds to the same ones",
            _MEND,
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
            "stopped in turn, and each parallel step waits for the last of them. vLLM's own binding (auto) starts with the first core it may run on: in pods without "
            "cores of their own that is the same one for each engine of the node, and the one that starts waits behind the one that serves."
        ),
        check=threads,
        sources=("vllm PR#17930", "vllm 0.29.0: utils/ompmultiprocessing.py"),
    ),
)
