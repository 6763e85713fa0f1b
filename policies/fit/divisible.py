"""Sizes of parallelism that vLLM refuses for a model, and the sizes it takes.

For: rules and the plan. Not for: memory (estimate.py) or the topology of nodes.
Sources: vllm/config/model.py verify_with_parallel_config (heads), model_executor/models/llama.py and its like (KV heads),
layers/quantization/fp8.py (blocks), gptq.py and awq.py (groups), models of linear attention and Mamba (their heads).
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from policies.catalog.models.row import Model
from policies.fit.shape import EngineShape
from policies.fit.widths import quantization_of

_LARGEST = 64
# Quantised checkpoints of Qwen2 and Qwen2.5 72B have a wider MLP than the originals, so that its groups divide by 8
# (config.json of Qwen/Qwen2.5-72B-Instruct-AWQ).
_PADDED_TO = {29568: 29696}
# fused_moe/oracle/fp8.py refine_fp8_moe_block_shape (0.29.0): scales of experts' blocks are read in finer blocks, down to this.
_FINEST_BLOCK = 32

Argument = Literal["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "pipeline_partition"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One size that vLLM refuses. argument: the engine argument at fault. reason: what does not divide, with numbers.
    valid: sizes that would do, smallest first, at most 64."""

    argument: Argument
    given: int
    model: str
    reason: str
    valid: tuple[int, ...]

    @property
    def message(self) -> str:
        """What is wrong and what is allowed, as one clause."""
        sizes = ", ".join(map(str, self.valid))
        return f"{self.argument} {self.given} does not suit {self.model}: {self.reason}; valid: {sizes}"


def divisibility(model: Model, shape: EngineShape) -> tuple[Problem, ...]:
    """All parallel sizes of `shape` that vLLM refuses for `model`, each with the sizes that would do."""
    problems = []
    tp = shape.tensor_parallel_size
    reasons = [text for bad, text in _reasons(model, shape, tp) if bad]
    if reasons:
        problems.append(
            Problem(
                "tensor_parallel_size", tp, model.name, ", ".join(reasons), valid_tensor_parallel_sizes(model, shape)
            )
        )
    pp = shape.pipeline_parallel_size
    if pp > model.layers:
        reason = f"it has {model.layers} layers"
        problems.append(
            Problem("pipeline_parallel_size", pp, model.name, reason, tuple(range(1, min(model.layers, _LARGEST) + 1)))
        )
    if shape.pipeline_partition:
        given = sum(shape.pipeline_partition)
        if len(shape.pipeline_partition) != pp or given != model.layers:
            listed = ",".join(map(str, shape.pipeline_partition))
            reason = f"VLLM_PP_LAYER_PARTITION {listed} must have {pp} parts that add up to {model.layers} layers"
            problems.append(Problem("pipeline_partition", given, model.name, reason, (model.layers,)))
    ranks = tp * shape.data_parallel_size
    if shape.enable_expert_parallel and model.moe and ranks > model.moe.experts:
        reason = f"{ranks} expert-parallel ranks share {model.moe.experts} experts"
        most = model.moe.experts // tp
        problems.append(
            Problem("data_parallel_size", shape.data_parallel_size, model.name, reason, tuple(range(1, most + 1)))
        )
    return tuple(problems)


def finer_blocks(model: Model, shape: EngineShape) -> int | None:
    """Size of the blocks in which experts in block FP8 are read where tensor parallel cuts through those of the checkpoint
    (vLLM 0.29 and newer, Triton kernels only); None where it cuts through none, or no finer block divides."""
    quantization, moe = quantization_of(model, shape), model.moe
    group, ranks = quantization.group_size, shape.tensor_parallel_size * shape.data_parallel_size
    if moe is None or quantization.method != "fp8" or not group or shape.enable_expert_parallel:
        return None
    if "experts" in quantization.unquantized or moe.intermediate_size % ranks:
        return None
    part = moe.intermediate_size // ranks
    block = math.gcd(group, part, model.hidden_size)
    return block if part % group and block >= _FINEST_BLOCK else None


def valid_tensor_parallel_sizes(model: Model, shape: EngineShape | None = None) -> tuple[int, ...]:
    """Tensor parallel sizes up to 64 that `model` can be split over, with `shape`'s quantisation and expert parallelism."""
    return _valid(model, shape or EngineShape())


@lru_cache(maxsize=4096)
def _valid(model: Model, shape: EngineShape) -> tuple[int, ...]:
    most = min(_LARGEST, model.attention_heads)
    return tuple(size for size in range(1, most + 1) if not any(bad for bad, _ in _reasons(model, shape, size)))


def _reasons(model: Model, shape: EngineShape, tp: int) -> list[tuple[bool, str]]:
    """(whether it fails, why) for each thing that must divide."""
    heads, kv = model.attention_heads, model.kv_heads
    checks = [(heads % tp != 0, f"{heads} attention heads are not a multiple of {tp}")]
    if not model.mla and not model.encoder_only:
        uneven = kv % tp != 0 if kv >= tp else tp % kv != 0
        checks.append((uneven, f"{kv} KV heads can be neither split nor copied evenly over {tp} GPUs"))
    if model.linear_attention:
        keys, values = model.linear_attention.key_heads, model.linear_attention.value_heads
        uneven = keys % tp != 0 or values % tp != 0
        checks.append((uneven, f"{keys} key and {values} value heads of linear attention are not multiples of {tp}"))
    if model.mamba:
        checks.append((model.mamba.heads % tp != 0, f"{model.mamba.heads} Mamba heads are not a multiple of {tp}"))
    for name, size, ranks in _widths(model, shape, tp):
        if name != "moe_intermediate_size" or finer_blocks(model, replace(shape, tensor_parallel_size=tp)) is None:
            checks.append(_width(name, size, ranks, model, shape))
    return checks


def _widths(model: Model, shape: EngineShape, tp: int) -> list[tuple[str, int, int]]:
    """(what, intermediate size, GPUs it is split over) of the MLPs whose quantisation groups must not be cut.

    With expert parallel shared experts are cut in a way that depends on how tokens are exchanged; that is not judged."""
    out = []
    unquantized = quantization_of(model, shape).unquantized
    moe = model.moe
    if "mlp" not in unquantized and (moe is None or moe.first_layer or moe.every > 1 or moe.beside_dense):
        out.append(("intermediate_size", model.intermediate_size, tp))
    if moe and "experts" not in unquantized and not shape.enable_expert_parallel:
        out.append(("moe_intermediate_size", moe.intermediate_size, tp * shape.data_parallel_size))
        if moe.shared_intermediate_size and "shared_experts" not in unquantized:
            out.append(("shared experts' intermediate_size", moe.shared_intermediate_size, tp))
    return out


def _width(name: str, size: int, ranks: int, model: Model, shape: EngineShape) -> tuple[bool, str]:
    quantization = quantization_of(model, shape)
    group = quantization.group_size
    if quantization.method == "none" or group is None or quantization.method in ("mxfp4", "mxfp8"):  # those are padded
        return size % ranks != 0, f"{name} {size} is not a multiple of {ranks}"
    if model.quantization is None:
        size = _PADDED_TO.get(size, size)
    groups = size // group
    uneven = size % group == 0 and groups % ranks != 0
    what = f"{name} {size} is {groups} {quantization.method} groups of {group}, which {ranks} does not divide"
    # A size that is no multiple of the group at all is stored with a short group and runs on one GPU only.
    return (uneven or (size % group != 0 and ranks > 1)), what
