"""Each test changes one thing about how an engine guesses, attends, or uses its model."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts import Stack

from .engine_stacks import args, at, found, gpu_pool, model, sentences, service, stack, whole, with_engine

SPECULATION, BACKEND = ("speculative-decoding", "error"), ("attention-backend", "error")
CACHE = ("attention-cache-dtype", "error")
T4, A100, L4, H100 = ("T4", 15360), ("A100-80G", 81920), ("L4", 23034), ("H100", 81559)
TINY, OSS, GEMMA, LATENT = (
    "Qwen/Qwen2.5-3B-Instruct",
    "openai/gpt-oss-20b",
    "google/gemma-3-4b-it",
    "deepseek-ai/DeepSeek-V2-Lite-Chat",
)


def guess(**speculative: Any) -> Stack:
    return args(whole(), speculative_config={"num_speculative_tokens": 3, **speculative})


def serving(name: str, gpu: str = "", gpu_mib: int = 0, **engine_args: Any) -> Stack:
    """A small model in the same place."""
    given = stack(workloads=(service(engines=(model(name, engine_args={"max_model_len": 4096, **engine_args}),)),))
    return gpu_pool(given, gpu, gpu_mib) if gpu else given


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (guess(method="ngram"), []),
        (guess(method="ngram", prompt_lookup_min=2, prompt_lookup_max=4), []),
        (guess(method="ngram", prompt_lookup_min=5, prompt_lookup_max=4), [SPECULATION]),
        (args(whole(), speculative_config={"method": "ngram", "num_speculative_tokens": 0}), [SPECULATION]),
        (guess(method="eagle3"), [SPECULATION]),
        (guess(method="eagle3", model="team/eagle3-of-ours"), []),
        (guess(method="mtp"), [SPECULATION]),
        (guess(method="deepseek_mtp"), [SPECULATION]),
        (guess(method="mtp", model="team/mtp-of-ours"), []),
        (guess(method="suffix"), [("speculative-decoding", "warning")]),
        (guess(model="Qwen/Qwen2.5-0.5B-Instruct"), [SPECULATION]),  # 151936 tokens beside 152064
        (guess(model="Qwen/Qwen2.5-0.5B-Instruct", use_heterogeneous_vocab=True), []),
        (guess(model="team/unknown", draft_tensor_parallel_size=2), [SPECULATION]),
        (args(guess(method="ngram"), async_scheduling=True), [SPECULATION]),
        (args(guess(method="eagle3", model="team/eagle3-of-ours"), async_scheduling=True), []),
        (at(guess(method="mtp"), "2.55.0", "0.24.0"), [("speculative-decoding", "warning")]),  # read in 0.29
    ],
)  # fmt: skip
def test_speculation(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert [each for each in found(given) if each[0] == "speculative-decoding"] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (args(whole(), attention_backend="FLASHINFER"), []),
        (args(whole(), attention_backend="triton_attn"), []),
        (args(whole(), attention_backend="auto"), []),
        (args(whole(), attention_backend="FLASHMLA"), [BACKEND]),
        (args(whole(), attention_backend="ROCM_ATTN"), [BACKEND]),
        (args(whole(), attention_backend="CPU_ATTN"), [BACKEND]),
        (args(whole(), attention_config={"backend": "FLASH_INFER"}), [BACKEND]),
        (args(whole(), attention_config={"backend": "FLASH_ATTN"}), []),
        (args(whole(), block_size=32), []),
        (args(whole(), block_size=24), [("attention-block-size", "error")]),
    ],
)
def test_attention(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert [each for each in found(given) if each[0].startswith("attention-")] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (serving(TINY, *T4, kv_cache_dtype="fp8"), [CACHE]),
        (serving(TINY, *L4, kv_cache_dtype="fp8"), []),
        (serving(TINY, *A100, kv_cache_dtype="fp8"), []),
        (serving(TINY, *A100, kv_cache_dtype="fp8_e5m2"), []),
        (serving(TINY, *A100, kv_cache_dtype="fp8_inc"), [CACHE]),
        (serving(TINY, *A100, kv_cache_dtype="int8_per_token_head"), []),
        (serving(TINY, *A100, kv_cache_dtype="turboquant_4bit_nc"), []),
        (serving(TINY, *A100, kv_cache_dtype="fp8", attention_backend="FLASH_ATTN"), [CACHE]),
        (serving(TINY, *A100, kv_cache_dtype="fp8", attention_backend="FLASHINFER"), []),
        (serving(OSS, *A100, kv_cache_dtype="fp8"), [CACHE]),
        (serving(OSS, *L4, kv_cache_dtype="fp8"), []),
        (serving(OSS, *H100, kv_cache_dtype="fp8"), []),
        (serving(GEMMA, *A100, kv_cache_dtype="fp8"), [CACHE]),
        (serving(GEMMA, *A100, kv_cache_dtype="fp8", language_model_only=True), []),
        (serving(GEMMA, *H100, kv_cache_dtype="fp8"), []),
        (serving(GEMMA, *H100, attention_backend="FLASHINFER"), [BACKEND]),
        (serving(LATENT, *A100, kv_cache_dtype="fp8"), [CACHE]),
        (serving(LATENT, *H100, kv_cache_dtype="fp8"), []),
        (serving(LATENT, *H100, kv_cache_dtype="fp8_e5m2"), [CACHE]),
        (serving("team/unknown-7B", *A100, kv_cache_dtype="fp8_e5m2"), []),
        (serving("team/unknown-7B", *A100, kv_cache_dtype="fp8_inc"), [CACHE]),
        (at(serving(TINY, *T4, kv_cache_dtype="fp8"), "2.55.0", "0.24.0"), []),  # FlashInfer ran on T4
        (at(serving(OSS, *A100, kv_cache_dtype="fp8"), "2.55.0", "0.24.0"), [("attention-cache-dtype", "warning")]),
    ],
)  # fmt: skip
def test_some_backend_reads_the_cache(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert [each for each in found(given) if each[0].startswith("attention-")] == expected


def test_the_mend_of_a_backend_names_those_that_fit() -> None:
    text = sentences(args(whole(), attention_backend="FLASHMLA"), "attention-backend")[0]
    assert "vLLM chooses (FLASHINFER, FLASH_ATTN, FLEX_ATTENTION, TRITON_ATTN)" in text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (args(whole(), tool_call_parser="hermes", enable_auto_tool_choice=True), []),
        (args(whole(), tool_call_parser="hermes"), [("model-tools", "warning")]),
        (args(whole(), max_loras=4), [("model-adapters", "warning")]),
        (serving("moonshotai/Kimi-K2.5", enable_lora=True), [("model-adapters", "error")]),
        (serving("BAAI/bge-m3", enable_lora=True), [("model-adapters", "error")]),
        (args(whole(), max_loras=4, enable_lora=True), []),
        (args(whole(), num_gpu_blocks_override=100), [("model-cache-blocks", "error")]),
        (args(whole(), num_gpu_blocks_override=513), []),
        (args(whole(), max_model_len=1584, num_gpu_blocks_override=100), []),
        (with_engine(whole(), source="team/Qwen2.5-7B-Instruct-GGUF"), [("model-file-format", "error")]),
        (at(with_engine(whole(), source="team/Qwen2.5-7B-GGUF"), "2.50.0", "0.11.0"), []),
        (serving("BAAI/bge-m3", runner="generate"), [("model-runner", "error")]),
        (serving("BAAI/bge-m3", runner="pooling"), []),
        (serving("BAAI/bge-m3", enable_prefix_caching=True), [("model-runner", "warning")]),
        (args(whole(), runner="pooling"), []),
        (args(whole(), runner="pooling", convert="none"), [("model-runner", "error")]),
        (serving("google/gemma-3-4b-it", max_num_batched_tokens=128, max_num_seqs=8), [("model-images", "error")]),
        (serving("google/gemma-3-4b-it", max_num_batched_tokens=128, max_num_seqs=8, limit_mm_per_prompt={"image": 0}), []),
    ],
)  # fmt: skip
def test_what_a_model_is_used_for(given: Stack, expected: list[tuple[str, str]]) -> None:
    kinds = ("model-tools", "model-adapters", "model-cache-blocks", "model-file-format", "model-runner", "model-images")
    assert [each for each in found(given) if each[0] in kinds] == expected
