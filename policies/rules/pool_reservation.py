"""Reserved capacity of a pool: one zone, one instance type, one period, and one owner.

Not for: whether the reservation is there and live in the account (the preflight checks ask EC2).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._values import before, listed
from .pool_types import rows

# Karpenter reads capacity reservations since 1.3 and capacity blocks since 1.6 (karpenter.sh/docs/tasks/odcrs).
_KARPENTER = {"on_demand": "1.3.0", "capacity_block": "1.6.0"}


def reservation(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        block = pool.reservation_kind == "capacity_block"
        if pool.reservation is not None and pool.spot:
            yield error(
                pool.where,
                "it is spot and names a reservation; reserved capacity is not spot",
                "leave capacity: spot out",
            )
        if pool.reservation is not None and len(pool.zones) > 1:
            yield error(
                pool.where,
                f"a {_noun(pool)} lies in one zone and {len(pool.zones)} are given ({', '.join(pool.zones)})",
                "give the zone of the reservation",
            )
        elif pool.reservation is not None and not pool.zones and pool.kind == "managed":
            yield warning(
                pool.where,
                "its reservation lies in one zone, which is not stated: the node group tries the others too and fails there",
                "set zones to the zone of the reservation",
            )
        if block and pool.kind == "managed" and (pool.min > 0 or (pool.desired or 0) > 0):
            yield warning(
                pool.where,
                f"min {pool.min} and desired {pool.desired or 0} ask for nodes outside the capacity block's period as well, and the node group is degraded then",
                "set min: 0 and let the autoscaler or a schedule start nodes in the period",
            )
        only = [row.name for row in rows(pool) if row.capacity_block_only]
        if only and not block:
            yield error(
                pool.where,
                f"{listed(only)} is sold through Capacity Blocks only",
                "set reservation: {kind: capacity_block, id: cr-...}",
            )
        yield from _types(pool)
        yield from _by_karpenter(stack, pool)


def _noun(pool: NodePool) -> str:
    return "capacity block" if pool.reservation_kind == "capacity_block" else "capacity reservation"


def _types(pool: NodePool) -> Iterator[Problem]:
    if pool.reservation is None and pool.reservation_kind is None:
        return
    if len(set(pool.instance_types)) > 1 and not pool.spot:
        message = f"a {_noun(pool)} holds one instance type and {len(set(pool.instance_types))} are given"
        if pool.kind == "managed":
            yield error(
                pool.where, f"{message}: EC2 refuses to start the others in it", "give the reservation's type alone"
            )
        elif pool.kind == "karpenter":
            yield warning(
                pool.where, f"{message}: Karpenter never starts the others", "give the reservation's type alone"
            )
    families = {name.split(".")[0] for name in pool.instance_types}
    if (
        pool.reservation_kind == "capacity_block"
        and families
        and not any(name.startswith(("p", "trn")) for name in families)
    ):
        yield warning(
            pool.where,
            f"Capacity Blocks are offered for P and Trn instances, and it is of {', '.join(sorted(families))}",
            "use kind: on_demand for a capacity reservation of such instances",
        )


def _by_karpenter(stack: Stack, pool: NodePool) -> Iterator[Problem]:
    least = _KARPENTER.get(pool.reservation_kind or "")
    if pool.kind == "karpenter" and least is not None and before(stack.versions.karpenter, least):
        yield error(
            pool.where,
            f"Karpenter reads a {_noun(pool)} since {least} and this is {stack.versions.karpenter}",
            f"use Karpenter {least} or newer, or a managed node group",
        )


def shared(stack: Stack) -> Iterator[Problem]:
    """Two pools of one reservation must be of its one type and its one zone."""
    first: dict[str, NodePool] = {}
    for pool in stack.pools:
        if pool.reservation is None or not pool.reservation.startswith("cr-"):
            continue
        other = first.setdefault(pool.reservation, pool)
        if other is pool:
            continue
        if set(pool.instance_types).isdisjoint(other.instance_types):
            differ = f"instance types differ ({', '.join(other.instance_types)}; {', '.join(pool.instance_types)})"
        elif pool.zones and other.zones and set(pool.zones).isdisjoint(other.zones):
            differ = f"zones differ ({', '.join(other.zones)}; {', '.join(pool.zones)})"
        else:
            continue
        yield error(
            pool.where,
            f"it names reservation {pool.reservation}, as {other.where} does, and their {differ}: a reservation has one of each",
            "give each pool the id of its own reservation",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="pool-reservation",
        title="A reservation is one zone, one type, one period",
        why=(
            "Capacity blocks and capacity reservations belong to an instance type in one zone. Outside a block's period there are no instances, whatever the "
            "group's sizes say."
        ),
        check=reservation,
        sources=(
            "https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html",
            "https://karpenter.sh/docs/tasks/odcrs/",
        ),
    ),
    Rule(
        id="pool-reservation-shared",
        title="Pools of one reservation are alike",
        why="An id that was copied from another pool names capacity of another type or zone; EC2 refuses every instance of the pool.",
        check=shared,
        sources=("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",),
    ),
)
