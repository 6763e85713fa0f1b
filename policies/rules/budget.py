"""The whole environment against its ceilings: GPUs, vCPU quotas, money; upgrades included.

Not for: room in a single pool (capacity.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policies.catalog import gpus, instances
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._places import nodes_at_least
from ._values import amount
from .capacity import demands, nodes_of


@dataclass(slots=True)
class Peak:
    """Nodes of a pool at rest, at full load, and when the largest upgrade comes on top."""

    pool: NodePool
    rest: int
    most: int
    upgrade: int


def peaks(stack: Stack) -> list[Peak]:
    """Nodes that exist: what pods need, at least the pool's min, at most its max."""
    found = []
    for demand in demands(stack):
        pool, low, high = demand.pool, nodes_of(demand.rest), nodes_of(demand.most)
        more = max((nodes_at_least(parts) for parts in demand.extra.values()), default=0)
        bounded = [
            max(pool.min, nodes if pool.max is None else min(nodes, pool.max)) for nodes in (low, high, high + more)
        ]
        found.append(Peak(pool, *bounded))
    return found


_MOMENTS = (("rest", "at rest"), ("most", "at full load"), ("upgrade", "at the peak of an upgrade"))


def budget_gpus(stack: Stack) -> Iterator[Problem]:
    """Ceilings on GPUs of a kind; whole nodes count, since a node's GPUs are all held."""
    held = peaks(stack) if stack.budget.gpus else []
    for name, ceiling in sorted(stack.budget.gpus.items()):
        kind = _gpu(name)
        if kind is None:
            yield error(
                "budget",
                f"GPU '{name}' in budget.gpus is no GPU of the catalog",
                f"use one of {', '.join(gpus.NAMES[:12])}, ...",
            )
            continue
        for attribute, moment in _MOMENTS:
            total = sum(getattr(peak, attribute) * peak.pool.gpus_per_node for peak in held if peak.pool.gpu in kind)
            if total > ceiling:
                pools = ", ".join(f"'{peak.pool.name}'" for peak in held if peak.pool.gpu in kind)
                yield error(
                    "budget",
                    f"the environment holds {total} {name} GPUs {moment} (pools {pools}) and the budget allows {ceiling}",
                    "lower replicas.max or the pools' max, use upgrade.strategy incremental or none, or raise budget.gpus",
                )
                break


def _gpu(name: str) -> set[str] | None:
    """Catalog names a budget key stands for: "H100", or "A100" for both sizes."""
    try:
        return {gpus.get(name).name}
    except UnknownRow:
        family = {gpu.name for gpu in gpus.for_ray_accelerator_type(name)}
        return family or None


def budget_vcpus(stack: Stack) -> Iterator[Problem]:
    """EC2 vCPU quotas by family: G (with VT), P, Standard, each also with -spot. Capacity blocks do not count."""
    held = peaks(stack) if stack.budget.vcpus else []
    for key, ceiling in sorted(stack.budget.vcpus.items()):
        family, _, kind = key.partition("-")
        if family not in ("G", "P", "Standard") or kind not in ("", "spot"):
            yield error(
                "budget", f"'{key}' in budget.vcpus is no quota", "use G, P, Standard, G-spot, P-spot or Standard-spot"
            )
            continue
        for attribute, moment in _MOMENTS:
            total = sum(
                getattr(peak, attribute) * _vcpus(peak.pool)
                for peak in held
                if _quota_family(peak.pool) == family
                and peak.pool.spot == (kind == "spot")
                and peak.pool.reservation_kind != "capacity_block"
            )
            if total > ceiling:
                yield error(
                    "budget",
                    f"the environment runs {total} vCPUs of family {key} {moment} and the quota is {ceiling}: EC2 refuses the last nodes",
                    "ask AWS for a higher quota, lower the pools' max, or use smaller instance types",
                )
                break


def _quota_family(pool: NodePool) -> str | None:
    if not pool.instance_types:
        return None
    first = pool.instance_types[0][:1].lower()
    return {"g": "G", "v": "G", "p": "P"}.get(first, "Standard")


def _vcpus(pool: NodePool) -> int:
    found = [row.vcpu for row in map(_instance, pool.instance_types) if row is not None]
    return max(found, default=0)


def _instance(name: str) -> instances.Instance | None:
    try:
        return instances.get(name)
    except UnknownRow:
        return None


def budget_money(stack: Stack) -> Iterator[Problem]:
    ceiling = stack.budget.usd_per_hour
    if ceiling is None:
        return
    held = peaks(stack)
    unpriced = sorted(p.pool.name for p in held if p.pool.price_usd_hour is None and p.upgrade)
    if unpriced:
        yield warning(
            "budget",
            f"no price is known for node pool{'s' if len(unpriced) > 1 else ''} {', '.join(unpriced)}, so the budget of {amount(ceiling)} USD/h is judged without",
            "give price_usd_hour",
        )
    for attribute, moment in _MOMENTS:
        total = sum(getattr(peak, attribute) * (peak.pool.price_usd_hour or 0.0) for peak in held)
        if total > ceiling + 1e-9:
            yield error(
                "budget",
                f"the nodes cost {total:.2f} USD/h {moment} and the budget is {ceiling:.2f}",
                "lower replicas.max or the pools' max, use upgrade.strategy incremental or none, or raise budget.usd_per_hour",
            )
            break


RULES: tuple[Rule, ...] = (
    Rule(
        id="capacity-budget-gpus",
        title="GPUs stay under their ceiling, upgrades included",
        why="The account's GPUs of a kind are limited by quota or contract. Whole nodes count, and an upgrade holds two clusters for a while.",
        check=budget_gpus,
        sources=("kuberay: rayservice_controller.go",),
    ),
    Rule(
        id="capacity-budget-vcpus",
        title="vCPUs stay under the EC2 quotas",
        why=(
            "EC2 counts G and P instances in vCPUs, on-demand and spot apart, and refuses launches beyond the quota; the node group then reports a health "
            "issue while pods wait. Capacity blocks have no such quota."
        ),
        check=budget_vcpus,
        sources=("https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html",),
    ),
    Rule(
        id="capacity-budget-money",
        title="The nodes stay under the price ceiling, upgrades included",
        why="The price of an environment is that of its nodes at the worst moment: everything at full load, with one upgrade on top.",
        check=budget_money,
    ),
)
