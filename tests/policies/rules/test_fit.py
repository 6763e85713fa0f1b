"""Each test breaks one thing about memory, formats of numbers, or accelerator names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.facts import Stack

from .engine_stacks import (
    MIDDLE,
    args,
    at,
    found,
    gpu_pool,
    large,
    model,
    on_cpu,
    plain,
    sentences,
    shared,
    whole,
    with_engine,
    with_pool,
    with_service,
    with_workers,
)
from .stacks import service, stack, workers

FIT = ("fit-memory", "error")
TIGHT = ("fit-memory", "warning")
YARN = {"rope_type": "yarn", "original_max_position_embeddings": 32768}


def serving(name: str, **over: Any) -> Stack:
    """One model on the L4 pool."""
    return stack(workloads=(service(engines=(model(name, **over),), huggingface_token=True),))


def on(gpu: str, mib: int, name: str = MIDDLE, **engine_args: Any) -> Stack:
    """One model on one GPU of a kind."""
    return gpu_pool(serving(name, engine_args={"max_model_len": 2048, **engine_args}), gpu, mib)


T4, V100, A10G, L40S, A100 = ("T4", 15360), ("V100-32G", 32768), ("A10G", 23028), ("L40S", 46068), ("A100-80G", 81920)
B200, H100 = ("B200", 183359), ("H100", 81559)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (args(whole(), max_model_len=8192), []),
        (args(whole(), max_model_len=32768), []),
        (serving("Qwen/Qwen2.5-14B-Instruct", engine_args={"max_model_len": 4096}), [FIT]),
        (serving("Qwen/Qwen2.5-14B-Instruct", engine_args={"max_model_len": 4096, "quantization": "fp8"}), []),
        (serving("Qwen/Qwen2.5-32B-Instruct", engine_args={"max_model_len": 2048}), [FIT]),
        (args(whole(), gpu_memory_utilization=0.5), [FIT, ("gpu-memory-only", "warning")]),
        (args(whole(), kv_cache_dtype="fp8", max_model_len=32768), []),
        (args(shared(), gpu_memory_utilization=0.12), [FIT]),
    ],
)
def test_a_model_fits_its_gpu_with_one_longest_request(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_the_reported_13b_with_4096_tokens_and_room_for_fewer() -> None:
    given = gpu_pool(
        serving("Llama-2-13B", engine_args={"max_model_len": 4096, "gpu_memory_utilization": 0.68}), "A100-40G", 40960
    )
    text = sentences(given, "fit-memory")[0]
    assert text.startswith(
        "service 'chat': model 'm': meta-llama/Llama-2-13b-chat-hf does not fit: one request of 4096 tokens needs 3.1 GiB"
    )
    assert FIT in found(given)
    wider = with_engine(given, tensor=2, bundles=({"GPU": 1, "CPU": 1},) * 2)
    assert FIT not in found(with_pool(wider, gpus_per_node=2))


def test_a_part_of_a_gpu_holds_a_part_of_the_model() -> None:
    """g6f nodes have an eighth, a quarter or a half of an L4, and 3B parameters in 16 bits are 5.8 GiB."""
    three_b = "Qwen/Qwen2.5-3B-Instruct"
    assert found(on("L4", 23034, three_b)) == []
    assert found(on("L4", 23034 // 2, three_b)) == []
    quarter = on("L4", 23034 // 4, three_b)
    assert found(quarter) == [FIT]
    assert "0.92 of L4 5.5 GiB" in sentences(quarter, "fit-memory")[0]
    assert "larger share" not in sentences(quarter, "fit-memory")[0]  # the node has no more of it


def test_inside_the_error_band_it_is_a_warning() -> None:
    given = gpu_pool(
        serving("Llama-2-13B", engine_args={"max_model_len": 4096, "gpu_memory_utilization": 0.74}), "A100-40G", 40960
    )
    assert TIGHT in found(given)
    assert "the estimate may be off by" in sentences(given, "fit-memory")[0]


def test_the_mend_names_what_would_fit_cheapest_first() -> None:
    text = sentences(serving("Qwen/Qwen2.5-14B-Instruct", engine_args={"max_model_len": 4096}), "fit-memory")[0]
    assert "what would fit, cheapest first: quantization fp8 (USD 0.98/h)" in text
    assert "instance_type" in text
    shared_text = sentences(args(shared(), gpu_memory_utilization=0.12), "fit-memory")[0]
    assert "a larger share or slice of the GPU" in shared_text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (args(whole(), max_model_len=65536), ("fit-context-length", "error")),
        (
            args(whole(), max_model_len=40000, hf_overrides={"rope_parameters": {**YARN, "factor": 1.0}}),
            ("fit-context-length", "error"),
        ),
        (args(whole(), max_model_len="long"), ("fit-context-length", "error")),
        (args(whole(), max_model_len=0), ("fit-context-length", "error")),
        (args(whole(), max_model_len="8k"), ("fit-context-length", "error")),  # only vLLM's command line reads 8k
        (args(plain(), max_model_len="1e3"), ("fit-context-length", "error")),
        (args(plain(), max_model_len="4096.0"), ("fit-context-length", "error")),
        (args(plain(), max_model_len="1.5K"), ("fit-context-length", "error")),
        (args(plain(), max_model_len="48k"), ("fit-context-length", "error")),
    ],
)
def test_a_length_that_the_model_is_not_made_for_is_refused(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


@pytest.mark.parametrize(
    "given",
    [
        args(whole(), max_model_len="auto"),
        args(whole(), max_model_len=-1),
        args(plain(), max_model_len="8k"),
        args(plain(), max_model_len="25.6k"),
        args(plain(), max_model_len="16K"),
        with_engine(args(whole(), max_model_len=40000), env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}),
        args(whole(), max_model_len=40000, hf_overrides={"rope_parameters": {**YARN, "factor": 4.0}}),
    ],
)
def test_a_length_on_purpose_passes(given: Stack) -> None:
    assert ("fit-context-length", "error") not in found(given)


def test_a_cpu_engine_fits_the_memory_of_its_pod() -> None:
    assert found(with_workers(on_cpu(), memory_mib=4096)) == [("fit-cpu-memory", "error")]
    assert found(with_workers(on_cpu(), memory_mib=6000)) == [("fit-cpu-memory", "warning")]
    assert found(with_engine(on_cpu(), env={"VLLM_CPU_KVCACHE_SPACE": "12"})) == [("fit-cpu-memory", "error")]


@pytest.mark.parametrize(("size", "expected"), [(2**30, []), (2**20, [("fit-cpu-memory", "error")]), (12 * 2**30, [("fit-cpu-memory", "error")])])  # fmt: skip
def test_a_cpu_cache_given_in_bytes_holds_a_request_and_fits_the_pod(
    size: int, expected: list[tuple[str, str]]
) -> None:
    assert found(with_engine(args(on_cpu(), kv_cache_memory_bytes=size), env={})) == expected


def test_what_is_offloaded_fits_the_pod() -> None:
    assert found(args(whole(), cpu_offload_gb=2, kv_offloading_size=4)) == []
    assert found(args(whole(), kv_offloading_size=23)) == [("fit-offload", "warning")]
    assert found(args(whole(), cpu_offload_gb=10, kv_offloading_size=20)) == [("fit-offload", "error")]
    assert found(args(large(), cpu_offload_gb=500)) == [("fit-offload", "error")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (args(whole(), kv_cache_memory_bytes=2**30), []),
        (args(whole(), kv_cache_memory_bytes=2**20), [FIT]),  # not one request
        (args(whole(), kv_cache_memory_bytes=40 * 2**30), [FIT]),
        (args(whole(), kv_cache_memory_bytes=int(6.0 * 2**30)), [TIGHT]),
        (args(shared(), kv_cache_memory_bytes=2**30), []),
        (args(shared(), kv_cache_memory_bytes=10 * 2**30), [FIT]),  # more than its share holds
    ],
)
def test_a_cache_given_in_bytes_fits_the_gpu_or_the_share_of_it(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_a_model_nobody_knows_is_said_once_where_everything_is_known() -> None:
    unknown = serving("meta-llama/Lama-3.1-8B-Instruct", engine_args={})
    assert found(unknown) == [("fit-model-known", "warning")]
    assert "did you mean 'meta-llama/Llama-3.1-8B-Instruct'" in sentences(unknown, "fit-model-known")[0]
    assert found(replace(unknown, complete=False)) == []


def test_a_row_given_inline_is_judged_and_must_be_whole() -> None:
    row = {
        "architecture": "LlamaForCausalLM",
        "layers": 32,
        "hidden_size": 4096,
        "vocab_size": 32000,
        "attention_heads": 32,
    }
    given = serving("own/model", engine_args={"max_model_len": 2048})
    assert ("fit-model-row", "error") in found(replace(given, models={"own/model": row}))
    whole_row = {
        **row,
        "kv_heads": 8,
        "head_dim": 128,
        "intermediate_size": 14336,
        "max_position_embeddings": 8192,
        "parameters": 8_000_000_000,
    }
    assert found(replace(given, models={"own/model": whole_row})) == []
    assert ("fit-model-row", "error") in found(replace(given, models={"own/model": "8B"}))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (on(*T4, "Qwen/Qwen2.5-3B-Instruct", dtype="bfloat16"), ("dtype-capability", "error")),
        (on(*V100, "Qwen/Qwen2.5-3B-Instruct", dtype="bfloat16"), ("dtype-capability", "error")),
        (on(*L40S, "google/gemma-2-9b-it", dtype="half"), ("dtype-capability", "error")),
        (on(*T4, "google/gemma-3-1b-it"), ("dtype-capability", "warning")),
        (on(*A10G, dtype="bf16"), ("dtype-capability", "error")),
        (on(*V100, "Llama-2-13B", quantization="awq"), ("quantisation-capability", "error")),
        (on(*V100, quantization="fp8"), ("quantisation-capability", "error")),
        (on(*A10G, quantization="fp8"), ("quantisation-capability", "warning")),
        (on(*A100, quantization="fp8"), ("quantisation-capability", "warning")),
        (on(*T4, "Qwen/Qwen2.5-3B-Instruct", quantization="fp8"), ("quantisation-capability", "warning")),
        (on(*T4, "openai/gpt-oss-20b"), ("quantisation-capability", "error")),
        (on(*A10G, quantization="awk"), ("quantisation-method", "error")),
        (on(*A10G, quantization="bitsandbytes"), ("quantisation-method", "error")),
        (on(*A10G, quantization="fbgemm_fp8"), ("quantisation-method", "error")),
        (on(*A10G, quantization="awq"), ("quantisation-method", "error")),  # of a repository that is not quantised
        (on(*A10G, quantization="mxfp4"), ("quantisation-method", "warning")),
        (on(*H100, "Qwen/Qwen3-30B-A3B-FP8", quantization="gptq"), ("quantisation-method", "warning")),
        (on(*A100, kv_cache_dtype="nvfp4"), ("kv-cache-dtype", "error")),
        (on(*T4, "Qwen/Qwen2.5-3B-Instruct", kv_cache_dtype="bfloat16"), ("kv-cache-dtype", "error")),
        (on(*V100, kv_cache_dtype="fp8"), ("kv-cache-dtype", "error")),
        (on(*A10G, kv_cache_dtype="fp9"), ("kv-cache-dtype", "error")),
        (on(*V100, dtype="half"), ("gpu-too-old", "warning")),
    ],
)
def test_number_formats_are_judged_by_compute_capability(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


@pytest.mark.parametrize(
    "given",
    [
        on(*T4, "Qwen/Qwen2.5-3B-Instruct"),  # auto falls back to float16
        on(*T4, "Qwen/Qwen2.5-3B-Instruct", dtype="half"),
        on(*A100, kv_cache_dtype="fp8_e5m2"),  # storage only: works
        on(*A100, kv_cache_dtype="fp8"),
        on("L4", 23034, quantization="fp8"),
        on(*A100, "openai/gpt-oss-20b"),
        on(*B200, kv_cache_dtype="nvfp4"),
        on(*H100, "Qwen/Qwen3-30B-A3B-FP8", quantization="fp8"),
        on(*A10G, dtype="bfloat16"),
    ],
)
def test_formats_that_the_gpu_has_pass(given: Stack) -> None:
    assert found(given) == []


def test_a_quantised_checkpoint_from_elsewhere_is_taken_on_trust() -> None:
    given = with_engine(on(*A10G, quantization="awq"), source="s3://weights/qwen-7b-awq")
    assert found(given) == []


def test_fp8_on_a_t4_depends_on_the_version_of_vllm() -> None:
    given = on(*T4, "Qwen/Qwen2.5-3B-Instruct", quantization="fp8")
    assert ("quantisation-capability", "error") in found(at(given, "2.53.0", "0.12.0"))


def test_chunked_prefill_on_a_v100_with_cuda_12() -> None:
    given = with_service(on(*V100, dtype="half"), cuda_version="12.6")
    assert ("gpu-too-old", "warning") in found(given)
    assert found(args(given, enable_chunked_prefill=False)) == []


NAME, DETECTED, POOL = ("accelerator-name", "error"), ("accelerator-detected", "error"), ("accelerator-pool", "error")


def asking(kind: str, given: Stack | None = None) -> Stack:
    return with_engine(given or whole(), accelerator_type=kind)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (asking("L4"), []),
        (asking("L5"), [NAME]),
        (asking("l4"), [NAME]),
        (asking("A100"), [POOL]),
        (asking("H20"), [POOL]),
        (asking("A100-80G"), [DETECTED]),
        (asking("A100-40G", on(*A100)), [DETECTED]),
        (asking("A100", on(*A100)), []),
        (asking("A10G", on(*A10G)), []),
        (asking("A10", on(*A10G)), []),  # Ray rewrites it
        (with_engine(whole(), bundles=({"GPU": 1, "CPU": 1, "accelerator_type:T4": 0.001},)), [POOL]),
        (
            with_workers(
                asking("A100-80G", on(*A100)), resources={"CPU": "7", "GPU": "1", "accelerator_type:A100-80G": "1"}
            ),
            [],
        ),
        (asking("L4", on_cpu()), [NAME]),
    ],
)
def test_accelerator_types_are_names_that_pods_have(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


@pytest.mark.parametrize(
    ("kind", "ray", "vllm", "refused"),
    [
        ("H20", "2.44.1", "0.8.5", True),
        ("H20", "2.45.0", "0.8.5", False),
        ("B200", "2.48.0", "0.9.2", True),
        ("B200", "2.49.2", "0.10.0", False),
    ],
)
def test_accelerator_types_came_with_a_ray(kind: str, ray: str, vllm: str, refused: bool) -> None:
    given = with_engine(asking(kind), bundles=(), bundles_form="none")
    assert (NAME in found(at(given, ray, vllm))) is refused


def test_the_sentence_of_a_misspelt_accelerator_type_names_the_pools_own() -> None:
    assert sentences(asking("A-100", on(*A100)), "accelerator-name")[0].startswith(
        "service 'chat': model 'm': accelerator_type 'A-100' is none that Ray 2.60.0 takes; did you mean 'A100'? for node pool 'l4' it is A100;"
    )


def test_a_group_that_starts_at_zero_declares_its_accelerator_type() -> None:
    own = model(MIDDLE, accelerator_type="L4", min_replicas=0, max_replicas=2, autoscaled=True, target_ongoing_requests=8.0,
                max_ongoing_requests=64, downscale_to_zero_delay_s=1800.0)  # fmt: skip
    group = workers(min=0, replicas=0, max=2)
    given = stack(workloads=(service(engines=(own,), groups=(group,), autoscaling=True, autoscaler_version="v2"),))
    assert found(given) == [("accelerator-from-zero", "warning")]
    assert found(with_workers(given, resources={"CPU": "7", "GPU": "1", "accelerator_type:L4": "1"})) == []
    assert found(with_workers(given, min=1)) == []


def test_models_on_large_nodes_are_judged_by_one_gpu() -> None:
    assert found(large()) == []
    assert FIT in found(
        with_engine(large(), tensor=1, bundles=({"GPU": 1, "CPU": 1},), engine_args={"max_model_len": 8192})
    )
