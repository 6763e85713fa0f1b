"""Attention backends: names that this vLLM has, on GPUs that they run on, for the attention and the KV cache of the model.

Not for: names of number formats of the KV cache (dtype_quantisation.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.attention_backends import (
    BACKENDS,
    NOT_JUDGED,
    WITH_PREFIX,
    WITH_SINKS,
    Backend,
    fitting,
)
from policies.catalog.lookup import closest_names
from policies.catalog.quantizations import CACHE_DTYPES
from policies.facts import Stack
from policies.facts.quantities import mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, on_gpus, seats
from ._values import a
from .engine_values import as_read

_ELSEWHERE = {"ROCM": "AMD GPUs", "XPU": "Intel GPUs", "CPU": "CPU engines", "AMX": "CPU engines"}
_BLOCK = 16


def backend(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        say = error if as_read(stack, seat) else warning
        name = chosen(seat)
        if name is None:
            if seat.on_gpu:
                yield from _none_left(seat, say is error)
            continue
        problem = _judge(seat, name)
        if problem is not None:
            yield say(seat.engine.where, *problem)


def chosen(seat: Seat) -> str | None:
    given = seat.args.get("attention_backend") or mapping(seat.args.get("attention_config")).get("backend")
    return given.upper() if isinstance(given, str) and given.lower() != "auto" else None


def _judge(seat: Seat, name: str) -> tuple[str, str] | None:
    known = BACKENDS.get(name)
    elsewhere = _ELSEWHERE.get(name.split("_", 1)[0])
    if elsewhere is not None:
        if seat.on_gpu or elsewhere != "CPU engines":
            return f"attention_backend {name} is for {elsewhere}: vLLM refuses to start", _leave(seat)
        return None
    if known is None:
        if name in NOT_JUDGED or seat.args.get("attention_backend"):
            return None  # engine-argument-kinds knows the names of the argument
        near = closest_names(name, tuple(BACKENDS), 1)
        return (
            f"attention_backend '{name}' is none that vLLM has; allowed: {', '.join(BACKENDS)}",
            f"did you mean '{near[0]}'?" if near else "leave it out: vLLM chooses",
        )
    capability = seat.device.capability if seat.device else None
    if capability is not None and capability[0] not in known.majors:
        chip = a(seat.gpu.name) if seat.gpu else "the GPU"
        wanted = ", ".join(f"{major}.x" for major in known.majors)
        message = f"attention_backend {name} runs on compute capability {wanted} and {chip} has {capability[0]}.{capability[1]}"
        return f"{message}: vLLM refuses to start", _leave(seat)
    row = seat.row
    if row is None or _latent_off(seat):
        return None
    latent, sparse = row.mla is not None, row.mla is not None and row.mla.indexer_heads > 0
    if known.mla != latent:
        kind = "latent attention (MLA)" if latent else "no latent attention (MLA)"
        return f"attention_backend {name} and {row.name}, which has {kind}: vLLM refuses to start", _leave(seat)
    if known.sparse != sparse:
        kind = "sparse" if sparse else "dense"
        return (
            f"attention_backend {name} and {row.name}, whose latent attention is {kind}: vLLM refuses to start",
            _leave(seat),
        )
    if row.architecture == WITH_SINKS and capability is not None and capability[0] not in known.sinks:
        return (
            f"attention_backend {name} has no attention sinks on compute capability {capability[0]}.{capability[1]} and {row.name} needs them",
            _leave(seat),
        )
    if row.architecture == WITH_PREFIX and not known.prefix and _images(seat):
        return (
            f"attention_backend {name} lets no token of an image look at a later one, which {row.name} does: vLLM refuses to start",
            _leave(seat),
        )
    return None


def _latent_off(seat: Seat) -> bool:
    return literal_env(seat, "VLLM_MLA_DISABLE") not in (None, "0")


def _images(seat: Seat) -> bool:
    return seat.args.get("language_model_only") is not True and not seat.args.get("limit_mm_per_prompt")


def _fitting(seat: Seat) -> dict[str, Backend]:
    if seat.device is None:
        return {}
    return fitting(seat.row, seat.device.capability, latent=not _latent_off(seat), images=_images(seat))


def _leave(seat: Seat) -> str:
    names = [name for name in _fitting(seat) if name != "TURBOQUANT"] if seat.row is not None else []
    return f"leave it out: vLLM chooses ({', '.join(names)})" if names else "leave it out: vLLM chooses"


def cache(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        given, device = seat.args.get("kv_cache_dtype"), seat.device
        if not isinstance(given, str) or given not in CACHE_DTYPES or given == "auto" or device is None:
            continue
        least = (8, 0) if given == "bfloat16" or not as_read(stack, seat) else (7, 5)
        if given.startswith("nvfp4") or device.capability < least:
            continue  # of kv-cache-dtype
        say = error if as_read(stack, seat) else warning
        able, asked = _fitting(seat), chosen(seat)
        where, chip = seat.engine.where, a(seat.gpu.name) if seat.gpu else "the GPU"
        on = f"{chip} (compute capability {device.capability[0]}.{device.capability[1]})"
        left = [name for name, each in able.items() if each.reads(given, device.capability)]
        others = [
            name
            for name in ("fp8", "fp8_e5m2", "auto")
            if any(each.reads(name, device.capability) for each in able.values())
        ]
        if asked in able and asked not in left:
            yield say(
                where,
                f"attention_backend {asked} reads no KV cache of kv_cache_dtype {given} on {on}: vLLM refuses to start",
                f"leave attention_backend out: vLLM chooses ({', '.join(left)})"
                if left
                else "set kv_cache_dtype: auto",
            )
        elif able and not left:
            model = f"{seat.row.name} on {on}" if seat.row else on
            yield say(
                where,
                f"no attention backend of vLLM reads a KV cache of kv_cache_dtype {given} for {model}: vLLM refuses to start",
                f"set kv_cache_dtype: {' or '.join(others)}",
            )
        elif given == "fp8_e5m2" and _stored(seat) == "fp8" and seat.row is not None:
            yield say(
                where,
                f"kv_cache_dtype fp8_e5m2 and {seat.row.name}, whose checkpoint is in FP8: vLLM refuses to start",
                "set kv_cache_dtype: fp8",
            )


def _stored(seat: Seat) -> str | None:
    row = seat.row
    if row is None or row.quantization is None or row.mla is not None:
        return None
    return row.quantization.method


def _none_left(seat: Seat, certain: bool) -> Iterator[Problem]:
    row, device = seat.row, seat.device
    if row is None or row.mla is None or not row.mla.indexer_heads or device is None:
        return
    if _latent_off(seat):
        return
    majors = sorted({major for each in BACKENDS.values() if each.sparse for major in each.majors})
    if device.capability[0] not in majors:
        chip = a(seat.gpu.name) if seat.gpu else "the GPU"
        yield (error if certain else warning)(
            seat.engine.where,
            f"{row.name} has sparse attention, for which vLLM has kernels on compute capability {', '.join(f'{m}.x' for m in majors)}, and "
            f"{chip} has {device.capability[0]}.{device.capability[1]}: no attention backend is found",
            "use Hopper or Blackwell GPUs (H100, H200, B200), or a model without sparse attention (DeepSeek-V3, GLM-4.5)",
        )


def block_size(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        size = whole(seat.args.get("block_size"))
        if size is not None and size > 0 and size % _BLOCK:
            upper = size // _BLOCK * _BLOCK + _BLOCK
            yield (error if as_read(stack, seat) else warning)(
                seat.engine.where,
                f"block_size {size} is no multiple of {_BLOCK}, which every attention kernel on GPUs needs",
                f"leave it out, or use {upper}",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="attention-backend",
        title="The attention backend exists, runs on the GPU, and suits the model",
        why=(
            "vLLM checks a chosen backend against compute capability and the model's kind of attention (latent, sparse, with sinks) when the model is built, and does "
            "not choose another. For sparse attention (DeepSeek V3.2, GLM-5) there are kernels for Hopper and Blackwell only."
        ),
        check=backend,
        sources=("vllm 0.29.0: v1/attention/backends, platforms/cuda.py", "vllm#31480", "vllm#30214", "vllm#30644"),
    ),
    Rule(
        id="attention-cache-dtype",
        title="An attention backend reads the KV cache's number format",
        why=(
            "vLLM takes each name of a format and finds when the model is built that no backend of this GPU and this kind of attention has it: FP8 (e4m3) in Triton "
            "kernels starts at compute capability 8.9, and models with attention sinks or images (gpt-oss, Gemma 3) have only those on A100; latent attention reads "
            "no fp8_e5m2."
        ),
        check=cache,
        sources=(
            "vllm#42587",
            "vllm#8409",
            "vllm PR#43914",
            "vllm-project/recipes#565",
            "vllm 0.29.0: supported_kv_cache_dtypes of each backend, layers/attention/attention.py",
        ),
    ),
    Rule(
        id="attention-block-size",
        title="The block size suits attention kernels",
        why="A block is a page of the KV cache. Kernels on GPUs read pages of 16 tokens or multiples; with another size no backend is left.",
        check=block_size,
        sources=("vllm 0.29.0: get_supported_kernel_block_sizes of each backend",),
    ),
)
