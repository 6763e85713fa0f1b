"""Plain vLLM over several pods: those that serve, and headless ones that only compute, as the serving one expects them.

Not for: single arguments about ranks (_rank_needs.py), or whether a pod has GPUs enough (engine_spread.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Stack
from policies.facts.command_line import command_line
from policies.facts.quantities import switch, whole
from policies.facts.vllm import words
from policies.finding import Problem, Rule, error

from ._engines import Seat, seats


def nodes(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        if seat.ray:
            continue
        if switch(seat.args.get("headless")):
            yield from _headless(seat)
        elif seat.workload.kind == "LeaderWorkerSet" and len(seat.groups) == 2 and seat.engine.data > 1:
            yield from _followed(seat, *_of_workers(seat))


def _headless(seat: Seat) -> Iterator[Problem]:
    if whole(seat.args.get("api_server_count")):
        yield error(
            seat.engine.where,
            "headless and api_server_count: a headless vLLM starts no server, and refuses the count",
            "leave one of the two out",
        )
    if seat.engine.data <= 1 and (whole(seat.args.get("nnodes")) or 1) <= 1:
        yield error(
            seat.engine.where,
            "headless, with data_parallel_size 1 and one node: it starts no server and waits for one that is nowhere",
            "leave headless out, or give the data_parallel_size or nnodes that the serving pod has",
        )


def _of_workers(seat: Seat) -> tuple[bool, Mapping[str, Any]]:
    """Whether the workers of a LeaderWorkerSet start vLLM's server, and its arguments."""
    started = words(seat.groups[1].main_container)
    return "serve" in " ".join(started).split(), command_line(started)[1]


def _followed(seat: Seat, serves: bool, workers: Mapping[str, Any]) -> Iterator[Problem]:
    args, local = seat.args, whole(seat.args.get("data_parallel_size_local"))
    if not serves or local is None or local >= seat.engine.data:
        return
    own = next((name for name in _OF_ITS_OWN if args.get(name) is not None and args[name] is not False), None)
    headless = switch(workers.get("headless")) is True
    if own and headless:
        yield error(
            seat.engine.where,
            f"the leader has {own}, so that each pod serves its own ranks, and the workers are headless: vLLM refuses them when they join",
            f"leave {own} out of the leader: it begins at rank 0 and serves them all; or headless out of the workers",
        )
    elif not own and not headless:
        yield error(
            seat.engine.where,
            "the leader serves the ranks of all pods and the workers are not headless: vLLM refuses them when they join",
            "give the workers --headless, or the leader --data-parallel-hybrid-lb",
        )


_OF_ITS_OWN = ("data_parallel_hybrid_lb", "data_parallel_external_lb", "data_parallel_rank", "data_parallel_start_rank")

RULES: tuple[Rule, ...] = (
    Rule(
        id="engine-headless",
        title="Pods of one vLLM agree on who serves",
        why=(
            "Over several pods vLLM either serves all ranks from the first pod, with headless ones behind it, or serves in each pod its own ranks. data_parallel_start_rank in the "
            "first pod means the second, even where it is 0. A pod of the other kind is refused when it joins, after both have started."
        ),
        check=nodes,
        sources=(
            "gpustack/gpustack#6221",
            "vllm 0.29.0: entrypoints/cli/serve.py, engine/arg_utils.py, v1/engine/utils.py",
        ),
    ),
)
