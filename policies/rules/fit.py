"""Memory: whether a model with its context fits on the GPUs it is given, by the estimate and its error band.

Not for: the estimate (policies/fit), or shares of a GPU between engines (memory_share.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from policies.catalog import gpus, instances
from policies.catalog.instance_row import Instance
from policies.catalog.lookup import UnknownRow
from policies.catalog.models.row import Model
from policies.facts import Sharing, Stack
from policies.facts.quantities import whole
from policies.finding import Problem, Rule, error, warning
from policies.fit import EngineShape, MemoryEstimate, advice, divisible, estimate
from policies.fit import engine as fit_engine

from ._engines import Seat, on_gpus, physical_share
from ._values import a, amount

_GIB = 1 << 30
_LARGEST = max(gpus.GPUS, key=lambda row: row.memory_mib)
_EXAMPLES = 3


def estimate_of(seat: Seat) -> MemoryEstimate | None:
    """The estimate of an engine; None on CPU, for an unknown model or GPU, and for sizes that vLLM refuses anyway."""
    if seat.row is None or seat.device is None or seat.engine.pipeline > seat.row.layers:
        return None
    if divisible.divisibility(seat.row, seat.shape):
        return None
    return estimate(seat.row, seat.device.memory_mib, seat.shape, seat.device.gpu, seat.device.capability)


def memory(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        found = estimate_of(seat)
        if seat.device is None:
            yield from _on_any(seat)
        if found is None or seat.row is None or seat.device is None:
            continue
        if seat.shape.kv_cache_memory_bytes:
            yield from _stated_cache(seat, found, seat.shape.kv_cache_memory_bytes)
            continue
        if found.verdict == "fits":
            continue
        message = _message(seat, seat.row, found)
        if found.verdict == "does_not_fit":
            yield error(seat.engine.where, message, _mend(seat, found))
        else:
            band = f"the estimate may be off by {_gib(found.error_band)}"
            yield warning(seat.engine.where, f"{message} ({band}, so it may or may not start)", _mend(seat, found))


def _on_any(seat: Seat) -> Iterator[Problem]:
    """Weights that no GPU holds, whichever one the engine gets."""
    if seat.row is None or divisible.divisibility(seat.row, seat.shape) or seat.engine.pipeline > seat.row.layers:
        return
    found = estimate(seat.row, _LARGEST.memory_mib, seat.shape, _LARGEST.name, _LARGEST.compute_capability)
    if found.weights > found.total:
        yield error(
            seat.engine.where,
            f"{seat.row.name} puts weights of {_gib(found.weights)} on each GPU of its engine, and the largest there is, {a(_LARGEST.name)}, has {_gib(found.total)}",
            "spread it over more GPUs (tensor_parallel_size, pipeline_parallel_size)",
        )


def _stated_cache(seat: Seat, found: MemoryEstimate, cache: int) -> Iterator[Problem]:
    """kv_cache_memory_bytes: the cache is exactly that, and everything together must be on the GPU, or on the share of it."""
    where = seat.engine.where
    if found.required_kv > cache:
        yield error(
            where,
            f"kv_cache_memory_bytes is {_gib(cache)} and one request of {found.max_model_len} tokens needs {_gib(found.required_kv)}",
            f"set kv_cache_memory_bytes to at least {found.required_kv}, or lower max_model_len",
        )
    rest = found.weights + found.lora + found.activation + found.cuda_graphs + found.runtime
    have, share = found.total * physical_share(seat), physical_share(seat)
    over = rest + cache - have
    if over <= -found.error_band:
        return
    of = f"{amount(share)} of a GPU, {_gib(have)}" if share < 1 else f"the GPU's {_gib(have)}"
    message = f"kv_cache_memory_bytes {_gib(cache)} beside weights, activations, graphs and runtime of {_gib(rest)} is {_gib(rest + cache)} of {of}"
    mend = f"set kv_cache_memory_bytes to at most {max(0, int(have - rest - found.error_band))}, or leave it out"
    if over > found.error_band:
        yield error(where, f"{message}: it does not fit", mend)
    else:
        yield warning(where, f"{message} (the estimate may be off by {_gib(found.error_band)})", mend)


def _message(seat: Seat, row: Model, found: MemoryEstimate) -> str:
    device = seat.device
    name = f"{device.gpu} " if device else ""
    per = "each " if seat.engine.world > 1 else ""
    budget = f"{_gib(found.budget)} ({amount(found.budget / max(1, found.total))} of {per}{name}{_gib(found.total)})"
    rest = found.activation + found.cuda_graphs + found.runtime
    adapters = f" ({_gib(found.lora)} of them for {_slots(seat)} LoRA adapters)" if found.lora else ""
    taken = f"weights {_gib(found.weights + found.lora)}{adapters}, activations, graphs and runtime {_gib(rest)}"
    if found.available_kv <= 0:
        return f"{row.name} does not fit: {taken}, more than the budget of {budget}, and no room for a KV cache"
    needed = f"one request of {found.max_model_len} tokens needs {_gib(found.required_kv)} of KV cache"
    left = f"{_gib(found.available_kv)} are left of {budget} after {taken}"
    fits = "does not fit" if found.verdict == "does_not_fit" else "is a tight fit"
    return f"{row.name} {fits}: {needed} and {left}"


def _slots(seat: Seat) -> int:
    return whole(seat.args.get("max_loras")) or 1


def _mend(seat: Seat, found: MemoryEstimate) -> str:
    options = []
    if found.available_kv > 0 and found.largest_max_model_len >= 1024:
        rounded = _rounded(found)
        if rounded:
            options.append(f"max_model_len {rounded}")
    if found.lora > found.weights / 10 and _slots(seat) > 1:
        options.append("fewer LoRA slots (lora.max_adapters)")
    if physical_share(seat) < 1 or _cut(seat):
        options.append("a larger share or slice of the GPU (gpu.share, gpu.mig)")
    elif seat.row is not None:
        options += _advice(seat.row, seat.shape, _instance(seat), _of_aws(seat))
        if not any(text.startswith("tensor_parallel_size") for text in options):
            options += _more_gpus(seat, seat.row)
    options = options[: _EXAMPLES + 1]
    return (
        f"what would fit, cheapest first: {'; '.join(options)}"
        if options
        else "use a smaller model, more GPUs for each engine, or larger GPUs"
    )


def _more_gpus(seat: Seat, row: Model) -> list[str]:
    """The fewest GPUs of the same kind that hold it, over several nodes if need be."""
    if seat.device is None or seat.pool is None or not seat.pool.gpus_per_node:
        return []
    found = advice.minimum_gpus(row, seat.device.memory_mib, seat.shape, seat.device.gpu, seat.pool.gpus_per_node)
    if found is None or found.gpus <= seat.shape.gpus:
        return []
    sizes = f"parallel.tensor {found.tensor_parallel_size}"
    if found.pipeline_parallel_size > 1:
        sizes += f" and pipeline {found.pipeline_parallel_size}"
    return [f"{found.gpus} {seat.device.gpu} for each engine ({sizes})"]


def _rounded(found: MemoryEstimate) -> int | None:
    """A length that leaves the band: what is free less the band, in thousands."""
    if found.kv_per_token <= 0:
        return None
    safe = (found.available_kv - found.error_band - found.state_per_sequence) / found.kv_per_token
    length = min(int(safe), found.largest_max_model_len) // 1024 * 1024
    return length if 1024 <= length < found.max_model_len and length >= found.max_model_len / 4 else None


def _cut(seat: Seat) -> bool:
    """Whether the pod gets a slice of what the node has: a larger one can be asked for."""
    if seat.pool is None or seat.device is None:
        return False
    whole = fit_engine.device_of(replace(seat.pool, sharing=Sharing()), None)
    return whole is not None and seat.device.memory_mib < whole.memory_mib


def _of_aws(seat: Seat) -> bool:
    return seat.pool is not None and bool(seat.pool.instance_types)


def _instance(seat: Seat) -> Instance | None:
    """The pool's instance type; for nodes that are there, one with as many of the same GPU."""
    pool = seat.pool
    if pool is None:
        return None
    for name in pool.instance_types:
        try:
            return instances.get(name)
        except UnknownRow:
            continue
    same = [row for row in instances.gpu_instances(pool.gpu) if row.gpus == pool.gpus_per_node] if pool.gpu else []
    return same[0] if same else None


@lru_cache(maxsize=1024)
def _advice(row: Model, shape: EngineShape, instance: Instance | None, of_aws: bool) -> tuple[str, ...]:
    if instance is None:
        return ()
    changes = advice.what_would_fit(row, shape, instance)
    if not of_aws:  # nodes that are there: prices and instance types are another's
        return tuple(f"{c.field} {c.value}" for c in changes if c.field not in ("instance_type", "max_model_len"))[
            :_EXAMPLES
        ]
    return tuple(c.text for c in changes if c.field != "max_model_len")[:_EXAMPLES]


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"


RULES: tuple[Rule, ...] = (
    Rule(
        id="fit-memory",
        title="A model fits its GPUs, with a KV cache for one longest request",
        why=(
            "vLLM takes gpu_memory_utilization of the GPU, less weights, activations, CUDA graphs and runtime, for the KV cache, and refuses to start if one request of "
            "max_model_len does not fit in it. The estimate is compared with published logs; inside its error band the finding is a warning."
        ),
        check=memory,
        sources=(
            "vllm#2418",
            "xusenlinzy/api-for-open-llm#259",
            "vllm#2348",
            "vllm#6979",
            "vllm 0.29.0: v1/worker/gpu_worker.py",
        ),
    ),
)
