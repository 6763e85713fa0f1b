"""What would fit: the fewest GPUs, the longest context, and the smallest changes that make a refused engine fit.

For: findings ("what to do") and the plan. Not for: deciding; each answer is an estimate of the same kind as the first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from policies.catalog import instances
from policies.catalog.attention_backends import readable
from policies.catalog.instance_row import Instance
from policies.catalog.models.row import Model
from policies.fit.divisible import divisibility, valid_tensor_parallel_sizes
from policies.fit.estimate import MemoryEstimate, estimate
from policies.fit.shape import EngineShape

ChangedField = Literal["max_model_len", "kv_cache_dtype", "quantization", "tensor_parallel_size", "instance_type"]

# One engine over more GPUs than this needs several nodes, which is a different design, not a small change.
_MOST_GPUS = 64


@dataclass(frozen=True, slots=True)
class Change:
    """One change after which the engine fits.

    field and value: what to write. also: what must change with it ("tensor_parallel_size 4"), or "". instance: where it
    runs. usd_per_hour: of its nodes, the least that one engine costs; engine_usd_per_hour: of the engine's GPUs alone, what
    it costs where others use the rest (both None without a list price). estimate: the memory afterwards.
    """

    field: ChangedField
    value: str
    also: str
    instance: str
    usd_per_hour: float | None
    engine_usd_per_hour: float | None
    estimate: MemoryEstimate

    @property
    def text(self) -> str:
        """The change as one phrase, with the price of the node."""
        price = "" if self.usd_per_hour is None else f" (USD {self.usd_per_hour:.2f}/h)"
        return f"{self.field} {self.value}{f' with {self.also}' if self.also else ''}{price}"


def largest_max_model_len(model: Model, gpu_memory_mib: int, shape: EngineShape, gpu: str = "") -> int:
    """The longest max_model_len, at most the model's own, with which the engine starts; 0 if none does.

    Without the error band: it is the engine's own figure, so write a rounder, smaller one.
    """
    return estimate(model, gpu_memory_mib, replace(shape, max_model_len="auto"), gpu).largest_max_model_len


def minimum_gpus(
    model: Model, gpu_memory_mib: int, shape: EngineShape, gpu: str = "", gpus_per_node: int = 8
) -> EngineShape | None:
    """`shape` with the fewest GPUs that fit with the band to spare: tensor parallel inside a node first, then pipeline.

    None if not even 64 GPUs do.
    """
    sizes = valid_tensor_parallel_sizes(model, shape)
    tried: list[tuple[int, int, EngineShape]] = []
    for tp in (size for size in sizes if size <= gpus_per_node):
        for pp in range(1, min(model.layers, _MOST_GPUS // tp) + 1):
            if pp > 1 and tp < max(size for size in sizes if size <= gpus_per_node):
                continue  # stages only once a node is full: each stage hands its activations over the network
            tried.append(
                (tp * pp, pp, replace(shape, tensor_parallel_size=tp, pipeline_parallel_size=pp, pipeline_partition=()))
            )
    for _, _, candidate in sorted(tried, key=lambda item: item[:2]):
        if estimate(model, gpu_memory_mib, candidate, gpu).verdict == "fits":
            return candidate
    return None


def what_would_fit(
    model: Model, shape: EngineShape, instance: Instance, candidates: Iterable[Instance] = instances.INSTANCES
) -> tuple[Change, ...]:
    """Single changes after which `model` fits with the band to spare, cheapest first, then the gentlest.

    On the same instance: a shorter context, an FP8 cache, FP8 weights, more of its GPUs. Else the cheapest other
    instances, one for each GPU model, with the fewest GPUs of theirs. Empty if none of these is enough.
    """
    changes = [*_same_instance(model, shape, instance), *_other_instances(model, shape, instance, candidates)]
    order = ("max_model_len", "kv_cache_dtype", "quantization", "tensor_parallel_size", "instance_type")
    return tuple(sorted(changes, key=lambda c: (_price_key(c.usd_per_hour), order.index(c.field), c.instance)))


def _price_key(price: float | None) -> float:
    return float("inf") if price is None else price


def _try(model: Model, shape: EngineShape, instance: Instance) -> MemoryEstimate | None:
    gpu = instances.gpu_of(instance)
    if gpu is None or divisibility(model, shape):
        return None
    result = estimate(model, instances.usable_gpu_memory_mib(instance), shape, gpu.name, gpu.compute_capability)
    return result if result.verdict == "fits" else None


def _change(
    field: ChangedField, value: str, also: str, instance: Instance, shape: EngineShape, result: MemoryEstimate
) -> Change:
    price = instance.usd_per_hour
    if price is None:
        return Change(field, value, also, instance.name, None, None, result)
    nodes = -(-shape.gpus // instance.gpus)
    return Change(field, value, also, instance.name, price * nodes, price * shape.gpus / instance.gpus, result)


def _same_instance(model: Model, shape: EngineShape, instance: Instance) -> list[Change]:
    gpu = instances.gpu_of(instance)
    if gpu is None:
        return []
    memory = instances.usable_gpu_memory_mib(instance)
    variants: list[tuple[ChangedField, str, EngineShape]] = []
    longest = largest_max_model_len(model, memory, shape, gpu.name)
    length = _shorter(model, shape, instance, longest)
    if length:
        variants.append(("max_model_len", str(length), replace(shape, max_model_len=length)))
    if shape.kv_cache_dtype == "auto" and readable(model, "fp8", gpu.compute_capability):
        variants.append(("kv_cache_dtype", "fp8", replace(shape, kv_cache_dtype="fp8")))
    if shape.quantization is None and model.quantization is None and gpu.compute_capability >= (8, 0):
        variants.append(("quantization", "fp8", replace(shape, quantization="fp8")))
    for tp in valid_tensor_parallel_sizes(model, shape):
        wider = replace(shape, tensor_parallel_size=tp)
        if tp > shape.tensor_parallel_size and wider.gpus <= instance.gpus and _try(model, wider, instance):
            variants.append(("tensor_parallel_size", str(tp), wider))
            break
    out = []
    for field, value, changed in variants:
        result = _try(model, changed, instance)
        if result:
            out.append(_change(field, value, "", instance, changed, result))
    return out


def _shorter(model: Model, shape: EngineShape, instance: Instance, longest: int) -> int:
    """The largest multiple of 1024 that fits with the band to spare, 0 if it is too short to be what was meant.

    At least a quarter of a length that somebody asked for; at least 4096 where nobody did.
    """
    asked = model.max_position_embeddings
    least = 4096
    if isinstance(shape.max_model_len, int):
        asked = shape.max_model_len
        least = asked // 4
    low, high = least // 1024, min(longest, asked) // 1024
    while low < high:  # the verdict only worsens with the length
        middle = (low + high + 1) // 2
        if _try(model, replace(shape, max_model_len=middle * 1024), instance):
            low = middle
        else:
            high = middle - 1
    return low * 1024 if low and _try(model, replace(shape, max_model_len=low * 1024), instance) else 0


def _other_instances(
    model: Model, shape: EngineShape, instance: Instance, candidates: Iterable[Instance]
) -> list[Change]:
    sizes = valid_tensor_parallel_sizes(model, shape)
    best: dict[str, Change] = {}
    for other in candidates:
        if other.gpu is None or other.name == instance.name or other.architecture != instance.architecture:
            continue
        if _lacks_dtype(model, shape, other):
            continue
        change = _fewest_gpus(model, shape, other, sizes)
        if change is None:
            continue
        held = best.get(other.gpu)
        if held is None or _price_key(change.usd_per_hour) < _price_key(held.usd_per_hour):
            best[other.gpu] = change
    return list(best.values())


def _lacks_dtype(model: Model, shape: EngineShape, other: Instance) -> bool:
    """Whether the GPU cannot compute in the model's bfloat16: vLLM then refuses unless dtype is changed as well."""
    gpu = instances.gpu_of(other)
    dtype = model.dtype if shape.dtype == "auto" else shape.dtype
    return gpu is not None and dtype == "bfloat16" and not gpu.bf16


def _fewest_gpus(model: Model, shape: EngineShape, other: Instance, sizes: Sequence[int]) -> Change | None:
    for tp in sizes:
        changed = replace(shape, tensor_parallel_size=tp)
        if changed.gpus > other.gpus:
            return None
        result = _try(model, changed, other)
        if result:
            also = "" if tp == shape.tensor_parallel_size else f"tensor_parallel_size {tp}"
            return _change("instance_type", other.name, also, other, changed, result)
    return None
