"""Parallel sizes that vLLM refuses, by public reports, beside those that must pass."""

import pytest

from policies.catalog import models
from policies.fit import EngineShape, divisibility, valid_tensor_parallel_sizes
from policies.fit.divisible import finer_blocks


@pytest.mark.parametrize(
    ("model", "quantization", "valid"),
    [
        ("LLaMA-33B", None, (1, 2, 4)),  # 52 heads; vllm issue 414
        ("Llama-2-13B", None, (1, 2, 4, 8)),  # 40 heads and intermediate_size 13824; vllm issue 596
        ("Qwen/Qwen2-7B", None, (1, 2, 4)),  # 28 heads, 4 KV heads; vllm issue 11797
        ("Qwen/Qwen2.5-1.5B", None, (1, 2, 4)),  # 12 heads, 2 KV heads
        ("Llama-3.1-70B", None, (1, 2, 4, 8, 16, 32, 64)),
        ("Baichuan2-7B", "gptq", (1, 2)),  # 86 groups; vllm issue 2419
        ("Baichuan2-7B", None, (1, 2, 4, 8, 16, 32)),
        ("Qwen/Qwen-14B", "awq", (1,)),  # 107 groups; vllm issue 1816
        ("Qwen/Qwen3-30B-A3B-FP8", None, (1, 2, 4, 8)),  # expert size 768 in blocks of 128, read in blocks of 64 and 32
        ("Qwen/Qwen3-235B-A22B-FP8", None, (1, 2, 4, 8, 16)),
        ("Qwen/Qwen3-235B-A22B", None, (1, 2, 4, 8, 16, 32, 64)),
        ("deepseek-ai/DeepSeek-V3", None, (1, 2, 4, 8, 16)),
        ("openai/gpt-oss-120b", None, (1, 2, 4, 8, 16, 32, 64)),  # MXFP4 experts are padded
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", None, (1, 2, 4, 8, 16)),
        ("HuggingFaceTB/SmolLM2-135M", None, (1, 3)),  # 9 heads, 3 KV heads
    ],
)
def test_valid_tensor_parallel_sizes(model: str, quantization: str | None, valid: tuple[int, ...]) -> None:
    shape = EngineShape(quantization=quantization)
    assert valid_tensor_parallel_sizes(models.get(model), shape) == valid
    for size in (1, 2, 3, 4, 8):
        problems = divisibility(models.get(model), EngineShape(quantization=quantization, tensor_parallel_size=size))
        assert bool(problems) == (size not in valid)


def test_expert_parallel_allows_sizes_that_cut_expert_blocks() -> None:
    model = models.get("Qwen/Qwen3-235B-A22B-FP8")
    assert divisibility(model, EngineShape(tensor_parallel_size=32))
    assert not divisibility(model, EngineShape(tensor_parallel_size=32, enable_expert_parallel=True))


def test_experts_of_which_tensor_parallel_cuts_blocks_are_read_in_finer_ones() -> None:
    model = models.get("Qwen/Qwen3-30B-A3B-FP8")
    assert [finer_blocks(model, EngineShape(tensor_parallel_size=size)) for size in (1, 2, 4, 8, 16)] == [
        None,
        None,
        64,
        32,
        None,
    ]
    assert finer_blocks(model, EngineShape(tensor_parallel_size=4, enable_expert_parallel=True)) is None
    assert finer_blocks(models.get("Qwen/Qwen3-30B-A3B"), EngineShape(tensor_parallel_size=4)) is None


def test_the_message_names_the_model_the_reason_and_the_valid_sizes() -> None:
    (problem,) = divisibility(models.get("Qwen/Qwen2-7B"), EngineShape(tensor_parallel_size=8))
    assert problem.message == (
        "tensor_parallel_size 8 does not suit Qwen/Qwen2-7B-Instruct: 28 attention heads are not a multiple of 8; "
        "valid: 1, 2, 4"
    )
    (problem,) = divisibility(models.get("Baichuan2-7B"), EngineShape(tensor_parallel_size=4, quantization="gptq"))
    assert problem.message == (
        "tensor_parallel_size 4 does not suit baichuan-inc/Baichuan2-7B-Chat: intermediate_size 11008 is 86 gptq groups "
        "of 128, which 4 does not divide; valid: 1, 2"
    )


def test_more_stages_than_layers_are_refused() -> None:
    (problem,) = divisibility(models.get("Llama-3.2-1B"), EngineShape(pipeline_parallel_size=17))
    assert (problem.argument, problem.valid[-1]) == ("pipeline_parallel_size", 16)
    assert not divisibility(models.get("Llama-3.2-1B"), EngineShape(pipeline_parallel_size=16))


def test_a_partition_must_name_every_stage_and_every_layer() -> None:
    model = models.get("Llama-3.2-1B")
    fine = EngineShape(pipeline_parallel_size=2, pipeline_partition=(6, 10))
    assert not divisibility(model, fine)
    (problem,) = divisibility(model, EngineShape(pipeline_parallel_size=2, pipeline_partition=(6, 9)))
    assert problem.reason == "VLLM_PP_LAYER_PARTITION 6,9 must have 2 parts that add up to 16 layers"


def test_more_expert_parallel_ranks_than_experts_are_refused() -> None:
    model = models.get("Mixtral-8x7B")
    assert not divisibility(
        model, EngineShape(tensor_parallel_size=2, data_parallel_size=4, enable_expert_parallel=True)
    )
    (problem,) = divisibility(
        model, EngineShape(tensor_parallel_size=2, data_parallel_size=8, enable_expert_parallel=True)
    )
    assert problem.message.endswith("16 expert-parallel ranks share 8 experts; valid: 1, 2, 3, 4")
