"""NIXL side channels: the ports and addresses on which prefill and decode engines find each other.

Not for: whether the two are a pair (disaggregation.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, most_replicas, seats
from .disaggregation import pairs
from .kv_connectors import by_nixl

_PORT = "VLLM_NIXL_SIDE_CHANNEL_PORT"
_HOST = "VLLM_NIXL_SIDE_CHANNEL_HOST"
_BASE = "NIXL_SIDE_CHANNEL_PORT_BASE"
_DEFAULT_BASE = {"prefill": 20000, "decode": 22000}
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def ports(stack: Stack) -> Iterator[Problem]:
    for _, prefill, decode in pairs(stack):
        if not by_nixl(prefill.engine) or not prefill.ray:
            continue  # pods of plain vLLM have an address each
        fixed = [literal_env(seat, _PORT) for seat in (prefill, decode)]
        where = decode.engine.where.removesuffix(": decode")
        if any(fixed):
            replicas = max(most_replicas(prefill.engine), most_replicas(decode.engine))
            if fixed[0] == fixed[1] or replicas > 1:
                yield error(
                    where,
                    f"{_PORT} is fixed to {fixed[0] or fixed[1]}: every replica of the engine takes the same port, and two on one pod or node collide",
                    f"take it out; Ray counts up from {_BASE} for each replica (disaggregation.prefill_port_base, decode_port_base)",
                )
            continue
        spans = []
        for seat in (prefill, decode):
            base = whole(seat.engine.experimental.get(_BASE, _DEFAULT_BASE[seat.engine.role]))
            size = max(
                1,
                most_replicas(seat.engine) * (max(1, seat.engine.data) if seat.engine.data > 1 else seat.engine.world),
            )
            if base is None or base < 1024 or base + size - 1 > 65535:
                given = seat.engine.experimental.get(_BASE)
                yield error(
                    seat.engine.where,
                    f"{_BASE} is {given!r}; allowed: 1024 to {65536 - size}, for {size} ports",
                    "use 40000 for prefill and 41000 for decode",
                )
                break
            spans.append((base, base + size - 1))
        if len(spans) < 2:
            continue
        (low_a, high_a), (low_b, high_b) = spans
        mend = "set bases at least as far apart as replicas times GPUs, e.g. disaggregation.prefill_port_base: 40000 and decode_port_base: 41000"
        if low_a == low_b:
            yield error(
                where,
                f"prefill and decode have the same {_BASE} {low_a}: side by side on a node their side channels collide",
                mend,
            )
        elif low_a <= high_b and low_b <= high_a:
            yield error(
                where,
                f"the side-channel ports of prefill ({low_a} to {high_a}) and decode ({low_b} to {high_b}) overlap",
                mend,
            )


def hosts(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        if not by_nixl(seat.engine):
            continue
        given = literal_env(seat, _HOST)
        mend = "set it from the pod's address (valueFrom fieldRef status.podIP), or leave it to Ray Serve LLM"
        if given is not None and given.strip().casefold() in _LOCAL:
            yield warning(
                seat.engine.where,
                f"{_HOST} is {given}: an engine in another pod cannot reach it there, and the handshake fails",
                mend,
            )
        elif given is None and not seat.ray and not _names(seat, _HOST):
            yield warning(
                seat.engine.where,
                f"{_HOST} is not set and localhost by default: an engine in another pod cannot reach it there",
                mend,
            )


def _names(seat: Seat, name: str) -> bool:
    """Whether a pod sets a variable in any way (a fieldRef too, which facts leave out)."""
    for group in seat.groups:
        for container in items(group.pod.get("containers")):
            if any(mapping(entry).get("name") == name for entry in items(mapping(container).get("env"))):
                return True
    return False


RULES: tuple[Rule, ...] = (
    Rule(
        id="disaggregation-ports",
        title="NIXL side channels have ports of their own",
        why=(
            "Each worker listens on base + replica rank x GPUs + its own rank. Prefill and decode on one node with the same base, or with ranges that overlap, "
            "bind the same port."
        ),
        check=ports,
        sources=("ray PR#60057", "ray 2.60.0: kv_transfer/nixl.py, base.py"),
    ),
    Rule(
        id="disaggregation-host",
        title="NIXL side channels are reachable from other pods",
        why="vLLM's default host is localhost. Ray Serve LLM sets the node's address; a plain Deployment has to.",
        check=hosts,
        sources=("volcano-sh/kthena#503", "vllm 0.29.0: envs.py"),
    ),
)
