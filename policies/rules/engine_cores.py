"""Cores of a GPU engine's pod against the processes of the engine that never sleep under load.

Not for: threads of engines on CPU (cpu_threads.py), or pods against nodes (placement.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.finding import Problem, Rule, warning

from ._engines import on_gpus


def cores(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        group = seat.group
        limit = group.cpu_limit_milli if group is not None else None
        if group is None or not limit:
            continue
        # Ray's workers are actors and wait in another way; one worker is a thread of the engine core.
        workers = 0 if seat.ray else min(seat.engine.world * max(1, seat.engine.data), int(seat.gpus_per_pod))
        busy = 1 + (workers if workers > 1 else 0)
        if limit < 1000 * busy:
            of = "the engine core" if busy == 1 else f"the engine core and {busy - 1} workers"
            yield warning(
                seat.engine.where,
                f"its pod may use {limit / 1000:g} CPU cores and {of} of the engine {'is' if busy == 1 else 'are'} busy under load: "
                "at the limit the kernel stops all of them for the rest of each 100 ms, and the GPU waits",
                f"give the container a CPU limit of at least {busy + 1}, or none",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="engine-cores",
        title="A GPU engine has a core for each process that does not sleep",
        why=(
            "The engine core schedules without a pause, and each worker of a parallel engine looks for its next message without sleeping for a second after the last, longer "
            "than any step. Under a CPU limit that is less than these, CFS quota stops the whole pod many times a second."
        ),
        check=cores,
        sources=("vllm#52916", "vllm PR#51950", "vllm 0.29.0: distributed/device_communicators/shm_broadcast.py"),
    ),
)
