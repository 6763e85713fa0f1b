"""Memory that engines claim of a GPU: each within its share, all together within the GPU.

Not for: whether the model fits into what it claims (fit.py), or how the share is reserved (engine_share.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from policies.facts import NodePool, Stack
from policies.facts.quantities import real
from policies.finding import Problem, Rule, error, warning

from ._engines import (
    SHARED_BY_PLUGIN,
    Seat,
    most_replicas,
    on_gpus,
    physical_share,
    pod_share,
    ray_share,
    utilization,
    utilization_text,
)
from ._values import amount

# A second engine starts only if util x total is FREE (vllm/v1/worker/utils.py request_memory), and each engine has a CUDA
# context beside its budget: 0.5 GiB and more, which is 5 % of an 80 GB card spread over two and more of a 24 GB one (vllm#20305).
MOST_TOGETHER = 0.95
MOST_TOGETHER_SMALL = 0.90
SMALL_MIB = 32 * 1024
_EDGE = 1e-6
_WHO = {"kai": "its KAI share", "time_slicing": "its time slice", "mps": "its MPS share"}


def value(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        given = seat.args.get("gpu_memory_utilization")
        if given is None:
            continue
        number, where = real(given), seat.engine.where
        if number is None or number <= 0 or number > 1:
            yield error(
                where,
                f"gpu_memory_utilization is {given!r}; allowed: a number over 0 and up to 1",
                "use 0.9, or leave it out",
            )
        elif number >= 0.995:
            yield error(
                where,
                f"gpu_memory_utilization {amount(number)} leaves nothing for the CUDA context: vLLM starts only if that much of the GPU is "
                "free, and its own context already takes some",
                "use at most 0.95",
            )
        elif number > MOST_TOGETHER:
            yield warning(
                where,
                f"gpu_memory_utilization {amount(number)} leaves {amount(round((1 - number) * 100, 1))} % of the GPU for CUDA context, NCCL buffers "
                "and fragments, which run out under load",
                "use at most 0.95",
            )


def within_share(stack: Stack) -> Iterator[Problem]:
    """gpu_memory_utilization is a part of the WHOLE device, whatever the share of the pod or bundle."""
    companions = _ray_tenants(stack)
    for seat in on_gpus(stack):
        share, used = physical_share(seat), utilization(seat.engine)
        if share >= 1 - _EDGE or used <= share + _EDGE or used > 1:
            continue
        pod, part = pod_share(seat), ray_share(seat)
        who = _WHO[pod[1]] if pod and (part is None or pod[0] < 1) else "its share of the GPU"
        mend = f"set gpu_memory_utilization to at most {amount(_less(share))} (the share less head-room), or leave it to gpu.share"
        message = f"{utilization_text(seat.engine)}, a part of the whole GPU, and {who} is {amount(share)}"
        if pod is None and part is not None and _alone(seat, companions):
            yield warning(seat.engine.where, f"{message}: it works only because no other engine fits beside it", mend)
        elif pod is not None and pod[1] == "mps":
            yield warning(
                seat.engine.where, f"{message}: where MPS does not limit memory, the next engine finds none", mend
            )
        else:
            yield error(
                seat.engine.where,
                f"{message}: nothing holds it to the share, and the next engine on that GPU finds no memory",
                mend,
            )


def _less(share: float) -> float:
    share = max(0.0, min(1.0, share))
    return max(0.01, int(round((share - max(0.03, share * 0.08)) * 100, 6)) / 100)


@dataclass(slots=True)
class Tenant:
    """Engine workers that can be on one GPU: part of it that the scheduler counts, part of its memory that they claim."""

    share: float
    used: float
    count: int
    where: str


def _ray_tenants(stack: Stack) -> dict[tuple[str, str], list[Tenant]]:
    found: dict[tuple[str, str], list[Tenant]] = {}
    for seat in on_gpus(stack):
        part = ray_share(seat)
        count = most_replicas(seat.engine) * seat.ranks
        if part is None or count < 1:
            continue
        for group in seat.groups:
            found.setdefault((seat.workload.where, group.name), []).append(
                Tenant(part, utilization(seat.engine), count, seat.engine.where)
            )
    return found


def _alone(seat: Seat, tenants: dict[tuple[str, str], list[Tenant]]) -> bool:
    rest = 1 - (ray_share(seat) or 1.0) + _EDGE
    own = most_replicas(seat.engine) * seat.ranks
    for group in seat.groups:
        for tenant in tenants.get((seat.workload.where, group.name), ()):
            if tenant.share <= rest and (tenant.where != seat.engine.where or own > 1):
                return False
    return True


def together(stack: Stack) -> Iterator[Problem]:
    small = {
        (seat.workload.where, group.name): seat.pool
        for seat in on_gpus(stack)
        if ray_share(seat) is not None
        for group in seat.groups
    }
    for key, tenants in _ray_tenants(stack).items():
        yield from _judge(f"{key[0]}: worker group '{key[1]}'", tenants, small.get(key))
    by_pool: dict[str, tuple[NodePool, list[Tenant]]] = {}
    for seat in on_gpus(stack):
        pod, pool = pod_share(seat), seat.pool
        if pod is None or pool is None or pod[1] == "mps":
            continue
        tenant = Tenant(pod[0], utilization(seat.engine), most_replicas(seat.engine) * seat.ranks, seat.engine.where)
        by_pool.setdefault(pool.name, (pool, []))[1].append(tenant)
    for pool, tenants in by_pool.values():
        yield from _judge(pool.where, tenants, pool)


def _judge(where: str, tenants: list[Tenant], pool: NodePool | None) -> Iterator[Problem]:
    if any(tenant.used > tenant.share + _EDGE for tenant in tenants):
        return  # gpu-memory-share speaks of each of them
    total, engines = _worst(tenants)
    small = pool is not None and pool.gpu_mib is not None and pool.gpu_mib < SMALL_MIB
    limit = MOST_TOGETHER_SMALL if small else MOST_TOGETHER
    if engines < 2 or total <= limit + _EDGE:
        return
    names = ", ".join(sorted({tenant.where.rsplit(": ", 1)[-1] for tenant in tenants})[:4])
    message = (
        f"up to {engines} engines share a GPU ({names}) and their gpu_memory_utilization adds up to {amount(total)}; "
        f"each has a CUDA context beside it, so {amount(limit)} is the most that starts reliably"
    )
    mend = f"lower gpu_memory_utilization so that the sum stays under {amount(limit)} (gpu.headroom of the models)"
    yield (error if total >= 0.995 else warning)(where, message, mend)


def _worst(tenants: Iterable[Tenant]) -> tuple[float, int]:
    """(most memory claimed on one GPU, engines of that placement): a bounded knapsack over hundredths of a GPU."""
    kinds: dict[tuple[int, float], int] = {}
    for tenant in tenants:
        hundredths = max(0.0, min(1.0, tenant.share)) * 100
        size = max(1, int(hundredths + 0.5 - _EDGE) if hundredths % 1 < _EDGE else int(hundredths) + 1)
        kinds[(size, round(tenant.used, 4))] = kinds.get((size, round(tenant.used, 4)), 0) + tenant.count
    if len(kinds) == 1:
        (size, used), count = next(iter(kinds.items()))
        number = min(count, 100 // size)
        return number * used, number
    best: list[tuple[float, int]] = [(0.0, 0)] * 101
    for (size, used), count in sorted(kinds.items()):
        for _ in range(min(count, 100 // size)):
            for room in range(100, size - 1, -1):
                with_it = (best[room - size][0] + used, best[room - size][1] + 1)
                if with_it > best[room]:
                    best[room] = with_it
    return best[100]


def memory_only(stack: Stack) -> Iterator[Problem]:
    """A low gpu_memory_utilization on a whole GPU: it frees memory that nobody can reserve."""
    lowered: dict[str, tuple[NodePool, list[Seat]]] = {}
    for seat in on_gpus(stack):
        used = real(seat.args.get("gpu_memory_utilization"))
        if (
            used is None
            or not 0 < used <= 0.6
            or physical_share(seat) < 1 - _EDGE
            or "kv_cache_memory_bytes" in seat.args
        ):
            continue
        if seat.pool is None or seat.pool.sharing.strategy in (*SHARED_BY_PLUGIN, "mig", "volcano_vgpu"):
            continue
        lowered.setdefault(seat.pool.name, (seat.pool, []))[1].append(seat)
    for pool, members in lowered.values():
        needed = sum(seat.engine.min_replicas * seat.ranks for seat in members)
        have = pool.max * pool.gpus_per_node if pool.max is not None else None
        for seat in members:
            used = utilization(seat.engine)
            message = (
                f"gpu_memory_utilization {amount(used)} is memory only: each worker still reserves a whole GPU in Ray"
            )
            mend = f"set gpu.share: {amount(min(0.5, used + 0.09))} so that bundle, memory and environment go together"
            if have is not None and len(members) > 1 and needed > have:
                where = f"the {len(members)} models of {pool.where} that are set like this reserve {needed} GPUs and it has {have}"
                yield error(seat.engine.where, f"{message}; {where}", mend)
            else:
                yield warning(seat.engine.where, f"{message}, and {round((1 - used) * 100)} % of it stays idle", mend)


RULES: tuple[Rule, ...] = (
    Rule(
        id="gpu-memory-utilization",
        title="gpu_memory_utilization leaves room for the CUDA context",
        why=(
            "vLLM takes gpu_memory_utilization of the total device memory and checks at start that this much is free. The CUDA context, NCCL and the allocator "
            "need memory beside it, so 1.0 can never be met and values close to it end in out-of-memory errors."
        ),
        check=value,
        sources=("vllm#2348", "vllm 0.29.0: config/cache.py, v1/worker/utils.py request_memory"),
    ),
    Rule(
        id="gpu-memory-share",
        title="An engine's memory stays within its share of the GPU",
        why=(
            "Neither Ray fractions nor KAI's gpu-fraction nor time-slicing limit memory: they only count. gpu_memory_utilization is a part of the whole GPU, "
            "0.92 when it is not given, so on a shared GPU it must be at most the share."
        ),
        check=within_share,
        sources=("kai#49", "kai#262", "ray#58328"),
    ),
    Rule(
        id="gpu-memory-sum",
        title="Engines on one GPU do not claim more than it has",
        why=(
            "A further engine starts only if its whole budget is free. What the first ones hold is their budgets and a CUDA context each, so the sum has to stay "
            "below 0.95, and below 0.9 on cards of 24 GB."
        ),
        check=together,
        sources=("vllm#20305", "pytorch#175666"),
    ),
    Rule(
        id="gpu-memory-only",
        title="Less memory alone does not share a GPU",
        why="Ray places by its own count of GPUs. A lower gpu_memory_utilization leaves that count at one GPU for each worker, so a second model never gets there.",
        check=memory_only,
        sources=("ray#58328",),
    ),
)
