"""Each test changes one thing about what an engine captures, or how many requests of a hybrid model it takes."""

from __future__ import annotations

from typing import Any

import pytest

from policies import rules
from policies.facts import Stack

from .engine_stacks import args, at, gpu_pool, model, service, stack, whole

SIZES, STATES = [("cuda-graph-sizes", "error")], [("cuda-graph-states", "error")]
PIECES = [("cuda-graph-pieces", "warning")]
H100, A100 = ("H100", 81559), ("A100-80G", 81920)
HYBRID, NANO = "Qwen/Qwen3.5-27B", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"


def said(given: Stack) -> list[tuple[str, str]]:
    return [(f.rule, f.severity) for f in rules.check(given, rules=rules.cuda_graphs.RULES)]


def hybrid(name: str = HYBRID, gpu: tuple[str, int] = H100, **engine_args: Any) -> Stack:
    engine = model(name, engine_args={"max_model_len": 32768, **engine_args})
    return gpu_pool(stack(workloads=(service(engines=(engine,)),)), *gpu)


def compiled(**settings: Any) -> Stack:
    return args(whole(), compilation_config=settings)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (whole(), []),
        (compiled(cudagraph_capture_sizes=[1, 2, 4]), []),
        (compiled(cudagraph_capture_sizes=[1, 2, 4], max_cudagraph_capture_size=4), []),
        (compiled(cudagraph_capture_sizes=[1, 2, 4], max_cudagraph_capture_size=8), SIZES),
        (compiled(cudagraph_capture_sizes=[]), SIZES),
        (compiled(max_cudagraph_capture_size=0), SIZES),
        (compiled(max_cudagraph_capture_size=0, cudagraph_mode="NONE"), []),
        (args(whole(), cudagraph_capture_sizes=[1, 2], max_cudagraph_capture_size=4), SIZES),
        (args(compiled(max_cudagraph_capture_size=0), enforce_eager=True), []),
        (args(compiled(max_cudagraph_capture_size=0), optimization_level=0), []),
        (compiled(splitting_ops=[], cudagraph_mode="piecewise"), PIECES),
        (compiled(splitting_ops=[], cudagraph_mode="FULL_AND_PIECEWISE"), PIECES),
        (compiled(mode=0, cudagraph_mode="PIECEWISE"), PIECES),
        (compiled(mode="none", cudagraph_mode="FULL_AND_PIECEWISE"), PIECES),
        (compiled(splitting_ops=[], cudagraph_mode="FULL"), []),
        (compiled(splitting_ops=[]), []),
        (compiled(splitting_ops=[], cudagraph_mode="PIECEWISE", pass_config={"fuse_attn_quant": True}), []),
        (compiled(mode=3, cudagraph_mode="PIECEWISE"), []),
        (args(compiled(mode=0, cudagraph_mode="PIECEWISE"), enforce_eager=True), []),
        (hybrid(), STATES),
        (hybrid(max_num_seqs=256), []),
        (hybrid(max_num_seqs=512), STATES),
        (hybrid(max_num_seqs=350), [("cuda-graph-states", "warning")]),  # inside the estimate's band
        (hybrid(enforce_eager=True), []),
        (hybrid(optimization_level=1), []),
        (hybrid(compilation_config={"cudagraph_mode": "PIECEWISE"}), []),
        (hybrid(compilation_config={"cudagraph_mode": "FULL"}), STATES),
        (hybrid(quantization="fp8"), STATES),
        (hybrid(quantization="fp8", max_num_seqs=512), []),
        (hybrid(num_gpu_blocks_override=128, max_num_seqs=256), STATES),
        (hybrid(num_gpu_blocks_override=256, max_num_seqs=256), []),
        (hybrid(gpu=A100), []),  # 256 by default
        (hybrid(gpu=A100, max_num_seqs=512), STATES),
        (hybrid(NANO), [("cuda-graph-states", "warning")]),
        (hybrid(NANO, max_num_seqs=512), []),
        (hybrid("Qwen/Qwen2.5-7B-Instruct"), []),
        (at(hybrid(), "2.55.0", "0.24.0"), [("cuda-graph-states", "warning")]),
    ],
)  # fmt: skip
def test_graphs(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert said(given) == expected


def test_blocks_are_as_many_as_vllm_counted() -> None:
    """vllm-project/recipes#551: 856 blocks with the FP8 weights on one H100 at 0.95."""
    given = hybrid(quantization="fp8", gpu_memory_utilization=0.95)
    (finding,) = rules.check(given, rules=rules.cuda_graphs.RULES)
    blocks = int(finding.message.split("about ")[1].split()[0])
    assert abs(blocks - 856) < 0.03 * 856
