"""Attention backends: names that this vLLM has, on GPUs that they run on, for the kind of attention that the model has.

Not for: number formats of the KV cache (dtype_quantisation.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, on_gpus, seats
from ._values import a
from .engine_values import as_read


@dataclass(frozen=True, slots=True)
class Backend:
    """`majors`: major compute capabilities it runs on. `sinks`: those on which it takes attention sinks (gpt-oss)."""

    majors: tuple[int, ...]
    mla: bool = False
    sparse: bool = False
    sinks: tuple[int, ...] = ()


_ANY, _AMPERE = (7, 8, 9, 10, 11, 12), (8, 9, 10, 11, 12)
# vllm 0.29.0: v1/attention/backends, supports_compute_capability and supports_sink of each.
BACKENDS: dict[str, Backend] = {
    "CUTLASS_MLA": Backend((10,), mla=True),
    "FLASHINFER": Backend(_AMPERE, sinks=(10, 12)),
    "FLASHINFER_MLA": Backend((10,), mla=True),
    "FLASHINFER_MLA_SPARSE": Backend((10,), mla=True, sparse=True),
    "FLASHINFER_MLA_SPARSE_SM120": Backend((12,), mla=True, sparse=True),
    "FLASHMLA": Backend((9, 10), mla=True),
    "FLASHMLA_SPARSE": Backend((9, 10), mla=True, sparse=True),
    "FLASH_ATTN": Backend(_AMPERE, sinks=(9, 10)),
    "FLASH_ATTN_MLA": Backend((9,), mla=True),
    "FLASH_ATTN_MLA_SPARSE": Backend((9,), mla=True, sparse=True),
    "FLEX_ATTENTION": Backend(_ANY),
    "TOKENSPEED_MLA": Backend((10,), mla=True),
    "TRITON_ATTN": Backend(_ANY, sinks=_ANY),
    "TRITON_MLA": Backend(_ANY, mla=True),
    "TURBOQUANT": Backend(_AMPERE),
}
# Known names that are not judged: of one model family, of the vision tower, or of a plugin.
_OTHERS = (
    "CUSTOM",
    "CUTLASS_MSA",
    "FLASHINFER_MLA_SPARSE_DSV4",
    "FLASHMLA_SPARSE_DSV4",
    "FLASH_ATTN_DIFFKV",
    "HPC_ATTN",
    "MINIMAX_M3_SPARSE",
    "NO_ATTENTION",
    "TORCH_SDPA",
    "TRITON_ATTN_DIFFKV",
    "TRITON_MSA",
)
_ELSEWHERE = {"ROCM": "AMD GPUs", "XPU": "Intel GPUs", "CPU": "CPU engines", "AMX": "CPU engines"}
_SINKS = "GptOssForCausalLM"
_BLOCK = 16


def backend(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        say = error if as_read(stack, seat) else warning
        given = seat.args.get("attention_backend") or mapping(seat.args.get("attention_config")).get("backend")
        if not isinstance(given, str) or given.lower() == "auto":
            if seat.on_gpu:
                yield from _none_left(seat, say is error)
            continue
        problem = _judge(seat, given.upper())
        if problem is not None:
            yield say(seat.engine.where, *problem)


def _judge(seat: Seat, name: str) -> tuple[str, str] | None:
    known = BACKENDS.get(name)
    elsewhere = _ELSEWHERE.get(name.split("_", 1)[0])
    if elsewhere is not None:
        if seat.on_gpu or elsewhere != "CPU engines":
            return f"attention_backend {name} is for {elsewhere}: vLLM refuses to start", _leave(seat)
        return None
    if known is None:
        if name in _OTHERS or seat.args.get("attention_backend"):
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
    if row is None or literal_env(seat, "VLLM_MLA_DISABLE") not in (None, "0"):
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
    if row.architecture == _SINKS and capability is not None and capability[0] not in known.sinks:
        return (
            f"attention_backend {name} has no attention sinks on compute capability {capability[0]}.{capability[1]} and {row.name} needs them",
            _leave(seat),
        )
    return None


def _leave(seat: Seat) -> str:
    row, capability = seat.row, seat.device.capability if seat.device else None
    fitting = [
        name
        for name, each in BACKENDS.items()
        if row is not None
        and capability is not None
        and name != "TURBOQUANT"
        and capability[0] in each.majors
        and each.mla == (row.mla is not None)
        and each.sparse == (row.mla is not None and row.mla.indexer_heads > 0)
        and (row.architecture != _SINKS or capability[0] in each.sinks)
    ]
    return f"leave it out: vLLM chooses ({', '.join(fitting)})" if fitting else "leave it out: vLLM chooses"


def _none_left(seat: Seat, certain: bool) -> Iterator[Problem]:
    row, device = seat.row, seat.device
    if row is None or row.mla is None or not row.mla.indexer_heads or device is None:
        return
    if literal_env(seat, "VLLM_MLA_DISABLE") not in (None, "0"):
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
        id="attention-block-size",
        title="The block size suits attention kernels",
        why="A block is a page of the KV cache. Kernels on GPUs read pages of 16 tokens or multiples; with another size no backend is left.",
        check=block_size,
        sources=("vllm 0.29.0: get_supported_kernel_block_sizes of each backend",),
    ),
)
