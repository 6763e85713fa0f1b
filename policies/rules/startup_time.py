"""Time from a cold start to the first answer, and the time-outs that must be longer.

Not for: probes of containers (probes.py). The figures are lower bounds: what good hardware needs, so that a finding is sure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from policies.catalog.models.parameters import total_parameters
from policies.catalog.models.row import Model
from policies.facts import Stack
from policies.facts.quantities import real
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, seats
from ._values import literal

# Process start, imports and Ray actors; torch.compile and graph capture unless enforce_eager. Seconds.
_START = 20.0
_COMPILE = 25.0
# A download at 10 Gbit/s without a pause, and a load from page cache or NVMe into the GPU. MiB a second.
_DOWNLOAD = 1200.0
_LOAD = 4000.0
_ENGINE_START = "RAYLLM_ENGINE_START_TIMEOUT_S"


def weights_mib(seat: Seat) -> float | None:
    """Size of the checkpoint (MiB); None for an unknown model."""
    return _size(seat.row) if seat.row is not None else None


@lru_cache(maxsize=1024)
def _size(row: Model) -> float:
    if row.checkpoint_bytes:
        return row.checkpoint_bytes / 2**20
    bits = row.quantization.weight_bits if row.quantization else 16
    return total_parameters(row) * bits / 8 / 2**20


def local(seat: Seat) -> bool:
    """Whether the weights are in the image or on a mounted volume."""
    return seat.engine.source.startswith(("/", "./", "file:"))


def cold_seconds(seat: Seat, stored: bool = False) -> float | None:
    """The least time from an empty pod to an engine that answers, without image pull and node start. stored: a volume may hold the weights."""
    size = weights_mib(seat)
    if size is None:
        return None
    seconds = _START + (0 if seat.args.get("enforce_eager") is True or not seat.on_gpu else _COMPILE)
    seconds += size / _LOAD / max(1, seat.engine.world)
    return seconds if stored or local(seat) else seconds + size / _DOWNLOAD


def timeouts(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        cold, size = cold_seconds(seat), weights_mib(seat)
        if cold is None or size is None:
            continue
        detail = f"{size / 1024:.1f} GiB of weights take at least {round(cold)} s to {'load' if local(seat) else 'download and load'}"
        given = seat.workload.ready_timeout_seconds
        if given is not None and given < cold:
            yield warning(
                seat.engine.where,
                f"the deployment waits {given} s for Ready and {detail}: it gives up on a service that is still starting",
                f"set ready_timeout_seconds to {_generous(cold)} or more, or leave it out",
            )
        head = seat.workload.head
        limit = real(literal_env(seat, _ENGINE_START)) or (real(literal(head.env, _ENGINE_START)) if head else None)
        if limit is not None and limit < cold:
            yield error(
                seat.engine.where,
                f"{_ENGINE_START} {limit:g} ends the engine's start after {limit:g} s and {detail}",
                f"set it to {_generous(cold)} or more, or leave it out (3600)",
            )


def _generous(cold: float) -> int:
    return int(-(-cold * 4 // 60) * 60)


RULES: tuple[Rule, ...] = (
    Rule(
        id="startup-timeout",
        title="Time-outs are longer than download and load",
        why=(
            "A deployment that stops waiting before the weights are there reports a failure for a service that is well, and a rollback starts all over. The 30 s notice of "
            "Ray Serve is only a notice, and a short health_check_timeout counts only once the replica runs."
        ),
        check=timeouts,
        sources=("ray#37950", "ray PR#63167"),
    ),
)
