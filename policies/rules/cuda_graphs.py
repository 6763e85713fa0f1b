"""CUDA graphs: sizes to capture that agree, and for hybrid models a state block for each request of a full graph.

Not for: the memory of graphs (policies/fit), or names of compilation settings (engine_values.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import mapping, switch, whole
from policies.finding import Problem, Rule, error, warning
from policies.fit import MemoryEstimate

from ._engines import Seat, literal_env, on_gpus
from .engine_values import as_read
from .fit import estimate_of

_NO_FULL_GRAPHS = ("NONE", "PIECEWISE", "0", "1")
_BECOMES = {"PIECEWISE": "NONE", "FULL_AND_PIECEWISE": "FULL"}  # without operations to split at


def captures(seat: Seat) -> bool:
    """Whether vLLM captures graphs at all."""
    mode = str(mapping(seat.args.get("compilation_config")).get("cudagraph_mode", "")).upper()
    return not switch(seat.args.get("enforce_eager")) and mode not in ("NONE", "0") and _level(seat) != 0


def _full(seat: Seat) -> bool:
    mode = str(mapping(seat.args.get("compilation_config")).get("cudagraph_mode", "")).upper()
    return captures(seat) and mode not in _NO_FULL_GRAPHS and _level(seat) != 1


def lost(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        settings = mapping(seat.args.get("compilation_config"))
        asked = str(settings.get("cudagraph_mode", "")).upper()
        if asked not in _BECOMES or not captures(seat) or switch(literal_env(seat, "VLLM_USE_BREAKABLE_CUDAGRAPH")):
            continue
        mode, fused = settings.get("mode"), mapping(settings.get("pass_config")).get("fuse_attn_quant")
        if mode is not None and str(mode).upper() not in ("3", "VLLM_COMPILE"):
            becomes, by, mend = "NONE", f"mode {mode}", "leave mode out, or set cudagraph_mode: FULL"
        elif settings.get("splitting_ops") == [] and not switch(fused):
            becomes, by, mend = (
                _BECOMES[asked],
                "splitting_ops []",
                "leave splitting_ops out, or set cudagraph_mode: FULL",
            )
        else:
            continue
        yield warning(
            seat.engine.where,
            f"cudagraph_mode is {asked}, and {by} of compilation_config leaves no pieces to capture: vLLM makes it {becomes}, with a line in the log",
            mend,
        )


def _level(seat: Seat) -> int | None:
    return whole(seat.args.get("optimization_level"))


def sizes(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        settings = mapping(seat.args.get("compilation_config"))
        given = settings.get("cudagraph_capture_sizes", seat.args.get("cudagraph_capture_sizes"))
        largest = whole(settings.get("max_cudagraph_capture_size", seat.args.get("max_cudagraph_capture_size")))
        if not captures(seat):
            continue
        message = _sizes(given, largest)
        if message:
            yield (error if as_read(stack, seat) else warning)(
                seat.engine.where,
                f"{message}: vLLM refuses to start",
                "give one of cudagraph_capture_sizes and max_cudagraph_capture_size, or enforce_eager: true for no graphs",
            )


def _sizes(given: object, largest: int | None) -> str | None:
    if largest is not None and largest < 1:
        return f"max_cudagraph_capture_size is {largest} and CUDA graphs are on"
    if not isinstance(given, (list, tuple)):
        return None
    if not given:
        return "cudagraph_capture_sizes is empty and CUDA graphs are on"
    numbers = [number for number in map(whole, given) if number is not None]
    if largest is not None and len(numbers) == len(given) and max(numbers) != largest:
        return f"max_cudagraph_capture_size {largest} is not the largest of cudagraph_capture_sizes, {max(numbers)}"
    return None


def states(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        row = seat.row
        if row is None or (row.mamba is None and row.linear_attention is None) or not _full(seat):
            continue
        found = estimate_of(seat)
        if found is None or not found.block_bytes or found.verdict == "does_not_fit":
            continue
        override = whole(seat.args.get("num_gpu_blocks_override"))
        least, most = (override, override) if override else (_blocks(found, -1), _blocks(found, 1))
        wanted = found.max_num_seqs
        if wanted <= least:
            continue
        certain = wanted > most and as_read(stack, seat)
        given = "max_num_seqs" if whole(seat.args.get("max_num_seqs")) else "max_num_seqs (by default)"
        blocks = f"{override}" if override else f"about {_blocks(found, 0)}"
        yield (error if certain else warning)(
            seat.engine.where,
            f"{given} is {wanted} and the cache of {row.name} has {blocks} blocks, one of which the states of each request need in a CUDA graph: vLLM "
            f"{'refuses' if certain else 'may refuse'} to start",
            f"set max_num_seqs: {_rounded(least)}, or give each engine more GPU memory"
            if least >= 1
            else "use larger GPUs",
        )


def _blocks(found: MemoryEstimate, off: int) -> int:
    """Blocks of the cache, where the estimate is off by its band downwards, not at all, or upwards."""
    return max(0, found.available_kv + off * found.error_band) // found.block_bytes


def _rounded(number: int) -> int:
    """Down to a power of two or one and a half times one: what people write."""
    power = 1 << (number.bit_length() - 1)
    return power + power // 2 if power > 1 and number >= power + power // 2 else power


RULES: tuple[Rule, ...] = (
    Rule(
        id="cuda-graph-pieces",
        title="Piecewise CUDA graphs have pieces",
        why=(
            "Piecewise graphs are captured between the operations at which vLLM's own compilation splits the model. In another compilation mode, or with nothing to "
            "split at, vLLM drops them and goes on: each step then pays for every kernel launch, and only the log says so."
        ),
        check=lost,
        sources=("vllm 0.29.0: config/compilation.py set_splitting_ops_for_v1, config/vllm.py",),
    ),
    Rule(
        id="cuda-graph-sizes",
        title="Sizes of CUDA graphs agree",
        why="cudagraph_capture_sizes lists what is captured and max_cudagraph_capture_size bounds it; vLLM takes both only where they say the same.",
        check=sizes,
        sources=("vllm 0.29.0: config/vllm.py _set_cudagraph_sizes", "vllm PR#26016"),
    ),
    Rule(
        id="cuda-graph-states",
        title="A hybrid model's cache has a block for each request of the largest batch",
        why=(
            "Layers with linear attention or Mamba keep one state a request, in a block of the cache that is as large as hundreds of tokens. vLLM checks, after loading, "
            "that there is a block for each of max_num_seqs requests (1024 by default on large GPUs), and stops where there is not, though one request would fit well."
        ),
        check=states,
        sources=(
            "vllm#49064",
            "kaito-project/kaito#2319",
            "vllm-project/recipes PR#551",
            "NVIDIA-AI-Blueprints/retail-shopping-assistant PR#95",
            "vllm 0.29.0: config/compilation.py",
        ),
    ),
)
