"""Public reports about two sides of a transfer, drafts, adapters, vision towers, parsers and shared memory, each with its mended twin."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .report import Report, each
from .small import Config, chat
from .test_a_to_b import gpus, one
from .test_reports_of_answers import ranked, versions
from .test_reports_of_engines import GIB, H8, H200, HYBRID, L70, TOKEN, V3, args, guess
from .test_reports_of_manifests import Doc, Pair
from .test_reports_of_settings import batch, said

L40S = gpus("L40S")
Q8, Q32, MOE_2507 = "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B-Instruct-2507"
CODER, VISION, GEMMA = "Qwen/Qwen3-Coder-480B-A35B-Instruct", "Qwen/Qwen3-VL-235B-A22B-Instruct", "google/gemma-4-31B"
EAGLE = {"method": "eagle3", "model": "AngelSlim/Qwen3-32B_eagle3", "num_speculative_tokens": 3}
DFLASH = {"method": "dflash", "model": "z-lab/Qwen3-8B-DFlash-b16", "num_speculative_tokens": 16}
LOOKUP = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
OFFLOADS = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"cpu_bytes_to_use": 8 * GIB}}  # fmt: skip
LMCACHE = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
FIRST = chat(env={"VLLM_USE_RAY_V2_EXECUTOR_BACKEND": "0"})


def sides(prefill: dict[str, Any], **decode: Any) -> Config:
    """Prefill and decode over two GPUs each; what decode has, prefill has too unless told otherwise."""
    apart = {"prefill_engine_args": prefill}
    return one(Q32, parallel={"tensor": 2}, disaggregation=apart, engine_args={"max_model_len": 8192, **decode})


def several(*parts: dict[str, Any]) -> dict[str, Any]:
    """A connector made of these."""
    return {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"connectors": list(parts)}}  # fmt: skip


def spread(size: int, name: str = V3, **engine_args: Any) -> Config:
    """Prefill and decode whose caches are cut over `size` of eight GPUs."""
    given = {"max_model_len": 8192, "decode_context_parallel_size": size, **engine_args}
    return one(name, parallel={"tensor": 8}, disaggregation={}, engine_args=given)


def drafts(**engine_args: Any) -> Config:
    return args(Q8, speculative_config=DFLASH, **engine_args)


def sharded(rank: int | None, tensor: int) -> Config:
    return args(L70, tensor, enable_lora=True, max_lora_rank=rank, fully_sharded_loras=True)


def seen(tensor: int = 32, name: str = VISION, **engine_args: Any) -> Config:
    given = {"max_model_len": 8192, "max_num_seqs": 32, **engine_args}
    return one(name, parallel={"tensor": tensor, "expert": name == VISION}, engine_args=given, replicas={"min": 1, "max": 1})  # fmt: skip


def calls(parser: str, name: str, tensor: int = 2, **engine_args: Any) -> Config:
    return args(name, tensor, tool_call_parser=parser, enable_auto_tool_choice=True, **engine_args)


def offloads(**extra: Any) -> Config:
    """KubeRay's pods with a cache in the memory of the host and 4 GiB of /dev/shm."""
    transfer = {**OFFLOADS, "kv_connector_extra_config": {"cpu_bytes_to_use": 16 * GIB, **extra}}
    return args(Q8, kv_transfer_config=transfer)


def embeds(size: int, name: str = "Qwen/Qwen3-Embedding-0.6B", **overrides: Any) -> Config:
    return one(name, engine_args={"max_model_len": 8192, "pooler_config": {"dimensions": size}, "hf_overrides": overrides or None})  # fmt: skip


REPORTS = (
    Report("vllm-project/vllm PR#49230", "disaggregation-pair", (H8, sides({"speculative_config": None}, speculative_config=EAGLE)), (H8, sides({}, speculative_config=EAGLE))),
    Report("a draft of another revision", "disaggregation-pair", (H8, sides({"speculative_config": {**EAGLE, "revision": "a1"}}, speculative_config=EAGLE)), (H8, sides({"speculative_config": {**EAGLE, "num_speculative_tokens": 5}}, speculative_config=EAGLE))),
    Report("ai-dynamo/dynamo PR#12821", "disaggregation-pair", (H8, sides({"kv_transfer_config": several(NIXL, LMCACHE)}, kv_transfer_config=NIXL)), (H8, sides({"kv_transfer_config": several(NIXL, LMCACHE)}, kv_transfer_config=NIXL, disable_hybrid_kv_cache_manager=True))),
    Report("parts that do not meet", "disaggregation-pair", (H8, sides({"kv_transfer_config": several(OFFLOADS)}, kv_transfer_config=several(NIXL))), (H8, sides({"kv_transfer_config": several(NIXL, OFFLOADS)}, kv_transfer_config=NIXL))),
    Report("vllm-project/vllm#42895", "disaggregation-pair", (H8, sides({"block_size": 32}, block_size=16)), (H8, sides({"block_size": 16}, block_size=32))),
    Report("vllm-project/vllm PR#50611", "parallel-context", (H200, spread(4)), (H200, spread(8))),
    Report("copies of KV heads that NIXL does not cut", "parallel-context", (H8, spread(2, Q32)), (H8, spread(1, Q32))),
    Report("vllm-project/vllm#50708", "speculative-decoding", (versions("2.57.0", "0.26.0"), L40S, drafts(max_num_seqs=256)), (L40S, drafts(max_num_seqs=256))),
    Report("a step of drafts alone", "speculative-decoding", (L40S, drafts(max_num_batched_tokens=16, max_num_seqs=8)), (L40S, drafts(max_num_batched_tokens=2048, max_num_seqs=8))),
    Report("vllm-project/vllm#20944", "model-adapters", (gpus("H100", 16), TOKEN, sharded(8, 16)), (H8, TOKEN, sharded(8, 8))),
    Report("vllm-project/vllm#55517", "model-vision-tower", (H8, seen()), (H8, seen(mm_encoder_tp_mode="data"))),
    Report("QwenLM/Qwen3-Coder#537", "model-tools", (H200, calls("hermes", CODER, 8)), (H200, calls("qwen3_coder", CODER, 8)), "warning"),
    Report("ai-dynamo/dynamo#13176", "model-tools", (H8, calls("qwen3_coder", MOE_2507)), (H8, calls("hermes", MOE_2507)), "warning"),
    Report("vllm-project/vllm#39279", "model-tools", (H8, TOKEN, calls("gemma4", GEMMA)), (H8, TOKEN, calls("gemma4", f"{GEMMA}-it")), "warning"),
    Report("microsoft/agent-lightning#57", "model-tools", (L40S, TOKEN, args("meta-llama/Llama-3.2-1B", reasoning_parser="qwen3")), (L40S, TOKEN, args("meta-llama/Llama-3.2-1B")), "warning"),
    Report("vllm-project/vllm PR#25887", "topology-backend", (versions("2.51.0", "0.11.0"), H8, args(Q32, 2, async_scheduling=True)), (H8, args(Q32, 2, async_scheduling=True))),
    Report("gpustack/gpustack#4979", "topology-backend", (H8, FIRST, args(Q32, 2, async_scheduling=True)), (H8, FIRST, args(Q32, 2))),
    Report("vllm-project/vllm PR#52496", "fit-shared-memory", (L40S, chat(worker={"shm_gib": 4}), offloads()), (L40S, chat(worker={"shm_gib": 4}), offloads(cpu_bytes_to_use=2 * GIB))),
    Report("QwenLM/Qwen3-Embedding#85", "model-embedding-size", (L40S, embeds(256)), (L40S, embeds(256, is_matryoshka=True)), "warning"),
    Report("vllm-project/vllm PR#46313", "model-embedding-size", (L40S, embeds(2048, is_matryoshka=True)), (L40S, embeds(1024, is_matryoshka=True))),
    Report("vllm-project/vllm PR#48057", "model-embedding-size", (L40S, embeds(8, "BAAI/bge-m3", matryoshka_dimensions=[16, 32])), (L40S, embeds(16, "BAAI/bge-m3", matryoshka_dimensions=[16, 32]))),
    Report("ray-project/ray PR#58571", "serve-app-args", (L40S, batch(Q8, compute="4")), (L40S, batch(Q8))),
    Report("vllm-project/vllm#28857", "dtype-capability", (gpus("T4", 8), TOKEN, args("google/gemma-3-12b-it", 8, dtype="half")), (H8, TOKEN, args("google/gemma-3-12b-it", 2))),
    Report("vllm-project/vllm#13122", "quantisation-method", (gpus("L40S", 8), args("unsloth/DeepSeek-R1-Distill-Llama-70B-bnb-4bit", 8, quantization="bitsandbytes")), (gpus("L40S", 8), args("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", 8))),
)  # fmt: skip

DRAFT = {"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3}
MTP = {"method": "mtp", "num_speculative_tokens": 1}
BATCHES = "num_speculative_tokens_per_batch_size"


def guesses(base: dict[str, Any], name: str = Q32, tensor: int = 2, **keys: Any) -> Config:
    return args(name, tensor, speculative_config={**base, **keys})


def spreads(communicator: str, **config: Any) -> Config:
    """Experts that are balanced over four GPUs."""
    balance = {"enable_eplb": True, "eplb_config": {"communicator": communicator, **config}}
    return one(MOE_2507, parallel={"tensor": 4, "expert": True}, engine_args={"max_model_len": 4096, **balance})


SETTINGS = (
    Report("how many tokens", "speculative-decoding", (H8, guesses(DRAFT, num_speculative_tokens=None)), (H8, guesses(DRAFT))),
    Report("a draft longer than its target", "speculative-decoding", (H8, guesses(DRAFT, max_model_len=8192)), (H8, guesses(DRAFT, max_model_len=2048))),
    Report("answers made up by halves", "speculative-decoding", (H8, guesses(DRAFT, synthetic_acceptance_length=2.0)), (H8, guesses(DRAFT, rejection_sample_method="synthetic", synthetic_acceptance_length=2.0))),
    Report("no rate to make answers up by", "speculative-decoding", (H8, guesses(DRAFT, rejection_sample_method="synthetic")), (H8, guesses(DRAFT, rejection_sample_method="synthetic", synthetic_acceptance_rates=[0.9, 0.5, 0.1]))),
    Report("more accepted than guessed", "speculative-decoding", (H8, guesses(DRAFT, rejection_sample_method="synthetic", synthetic_acceptance_length=5)), (H8, guesses(DRAFT, rejection_sample_method="synthetic", synthetic_acceptance_length=4))),
    Report("two vocabularies of one method", "speculative-decoding", (H8, guesses(EAGLE, use_heterogeneous_vocab=True)), (H8, guesses(DRAFT, use_heterogeneous_vocab=True))),
    Report("two vocabularies and sampling", "speculative-decoding", (H8, guesses(DRAFT, use_heterogeneous_vocab=True, draft_sample_method="probabilistic")), (H8, guesses(DRAFT, use_heterogeneous_vocab=True, draft_sample_method="greedy"))),
    Report("an index of the checkpoint's own layers", "speculative-decoding", (H8, guesses(DRAFT, index_share_for_mtp_iteration=True)), (H200, guesses(MTP, V3, 8, index_share_for_mtp_iteration=True))),
    Report("batches twice", "speculative-decoding", (H8, guesses(DRAFT, **{BATCHES: [[1, 32, 2], [16, 64, 1]]})), (H8, guesses(DRAFT, **{BATCHES: [[33, 64, 1], [1, 32, 2]]}))),
    Report("batches from two", "speculative-decoding", (H8, guesses(DRAFT, **{BATCHES: [[2, 32, 2]]})), (H8, guesses(DRAFT, **{BATCHES: [[1, 32, 2], [40, 64, 0]]}))),
    Report("vllm-project/vllm PR#21068", "model-adapters", (H8, args(Q32, 2, enable_lora=True, max_num_seqs=256, max_num_batched_tokens=512, speculative_config=EAGLE)), (H8, args(Q32, 2, enable_lora=True, max_num_seqs=128, max_num_batched_tokens=512, speculative_config=EAGLE))),
    Report("guesses for the requests of the default", "model-adapters", (H8, args(Q32, 2, enable_lora=True, max_num_seqs=1024, speculative_config={**LOOKUP, "num_speculative_tokens": 8})), (H8, args(Q32, 2, enable_lora=True, max_num_seqs=1024, speculative_config={**LOOKUP, "num_speculative_tokens": 7}))),
    Report("query heads that copies do not divide", "parallel-context", (gpus("H100", 14), args("Qwen/Qwen2.5-7B-Instruct", 14, decode_context_parallel_size=2)), (H8, args("Qwen/Qwen3-30B-A3B", 8, decode_context_parallel_size=2))),
    Report("experts moved by what blocks", "engine-argument-needs", (H8, spreads("pynccl")), (H8, spreads("torch_gloo"))),
    Report("experts moved in step", "engine-argument-needs", (H8, spreads("torch_nccl")), (H8, spreads("torch_nccl", use_async=False))),
    Report("a backend twice", "engine-argument-needs", (L40S, args(Q8, attention_backend="FLASHINFER", attention_config={"backend": "FLASHINFER"})), (L40S, args(Q8, attention_backend="FLASHINFER", attention_config={"backend": "auto"}))),
    Report("sizes twice", "engine-argument-needs", (L40S, args(Q8, cudagraph_capture_sizes=[1, 2], compilation_config={"cudagraph_capture_sizes": [1, 2]})), (L40S, args(Q8, cudagraph_capture_sizes=[1, 2], compilation_config={"cudagraph_mode": "PIECEWISE"}))),
    Report("a cache that threads share", "engine-argument-needs", (L40S, args("Qwen/Qwen3-VL-8B-Instruct", runner="pooling", convert="embed", renderer_num_workers=2)), (L40S, args("Qwen/Qwen3-VL-8B-Instruct", runner="pooling", convert="embed", renderer_num_workers=2, mm_processor_cache_gb=0))),
    Report("guesses twice", "engine-argument-needs", (H8, args(Q32, 2, spec_tokens=3, speculative_config=LOOKUP)), (H8, args(Q32, 2, speculative_config=LOOKUP))),
    Report("prompts without logits", "engine-argument-needs", (H8, args(Q32, 2, speculative_config=EAGLE, kv_sharing_fast_prefill=True)), (H8, args(Q32, 2, speculative_config=LOOKUP, kv_sharing_fast_prefill=True))),
    Report("graphs of what is left out", "engine-argument-needs", (L40S, args("Qwen/Qwen3-VL-8B-Instruct", language_model_only=True, compilation_config={"cudagraph_mm_encoder": True})), (L40S, args("Qwen/Qwen3-VL-8B-Instruct", compilation_config={"cudagraph_mm_encoder": True}))),
)  # fmt: skip


@each((*REPORTS, *SETTINGS))
def test_what_was_reported_is_said_and_its_mended_twin_passes(report: Report) -> None:
    report.holds()


@each(
    Report(source, rule, (), patches)
    for source, rule, patches in (
        ("a guess from the text has no layers in the cache", "disaggregation-pair", (H8, sides({"speculative_config": None}, speculative_config=LOOKUP))),
        ("both of several parts", "disaggregation-pair", (H8, sides({}, kv_transfer_config=several(NIXL, OFFLOADS)))),
        ("as many ranks of an adapter as GPUs", "model-adapters", (H8, TOKEN, sharded(None, 8))),
        ("a tower as wide as the tensor", "model-vision-tower", (gpus("H200", 16), seen(16))),
        ("a tower that is not built", "model-vision-tower", (H8, seen(limit_mm_per_prompt={"image": 0, "video": 0}))),
        ("Qwen3.5 writes as coders do", "model-tools", (H8, calls("qwen3_coder", HYBRID, max_num_seqs=32))),
        ("a template of one's own", "model-tools", (H8, TOKEN, calls("gemma4", GEMMA, chat_template="{{ messages }}"))),
        ("vllm-project/vllm PR#52193", "speculative-decoding", (H8, guess("Qwen/Qwen3-30B-A3B", 2, method="draft_model", model="Qwen/Qwen3-4B"))),
        ("vllm-project/vllm#14429", "model-tools", (H8, calls("hermes", Q32, reasoning_parser="qwen3"))),
        ("vllm-project/vllm#45425", "speculative-decoding", (H200, args(V3, 8, decode_context_parallel_size=8, speculative_config={"method": "mtp", "num_speculative_tokens": 1}))),
        ("ray-project/ray#64326", "routing-router", (L40S, chat(expose={"direct_streaming": True}), one(Q8, routing={"policy": "prefix_affinity"}))),
    )
)  # fmt: skip
def test_what_works_or_was_a_bug_of_older_versions_passes(report: Report) -> None:
    found = report.said(report.mended)
    assert {rule for rule, severity in found if severity == "error"} == set()
    assert report.rule not in {rule for rule, _ in found}


def small(*words: str, model: str = Q8, shm: str = "8Gi", env: dict[str, str] | None = None) -> tuple[Doc, ...]:
    """A Deployment on one GPU with this much /dev/shm."""
    (made,) = ranked(*words, gpus=1, model=model, shm=shm)
    first = made["spec"]["template"]["spec"]["containers"][0]
    first["env"] = [*first.get("env", []), *({"name": name, "value": value} for name, value in (env or {}).items())]
    return (made,)


def tiered(size: int) -> tuple[str, str]:
    extra = {"spec_name": "TieringOffloadingSpec", "cpu_bytes_to_use": size * GIB, "secondary_tiers": [{"type": "fs_python", "root_dir": "/tmp/kv"}]}  # fmt: skip
    return "--kv-transfer-config", json.dumps({**OFFLOADS, "kv_connector_extra_config": extra})


SEES, INPUTS = "Qwen/Qwen3-VL-8B-Instruct", ("--mm-processor-cache-type", "shm")
SIMPLE = {"VLLM_USE_SIMPLE_KV_OFFLOAD": "1"}
PAIRS = (
    Pair("opendatahub-io/kserve PR#1842", "fit-shared-memory", small("--kv-offloading-size", "32"), small("--kv-offloading-size", "32", shm="40Gi")),
    Pair("vllm-project/vllm#44888", "fit-shared-memory", small(*tiered(16)), small(*tiered(6))),
    Pair("a cache that is no file", "fit-shared-memory", small("--kv-offloading-size", "32"), small("--kv-offloading-size", "32", env=SIMPLE)),
    Pair("tensors in shared memory of forked workers", "engine-argument-needs", small("--mm-tensor-ipc", "torch_shm", model=SEES), small("--mm-tensor-ipc", "torch_shm", model=SEES, env={"VLLM_WORKER_MULTIPROC_METHOD": "spawn"})),
    Pair("vllm-project/vllm PR#48879", "fit-shared-memory", small(*INPUTS, model=SEES, shm="2Gi"), small(*INPUTS, model=SEES), "warning"),
    Pair("inputs for several servers", "fit-shared-memory", small(*INPUTS, model=SEES, shm="2Gi"), small(*INPUTS, "--api-server-count", "2", model=SEES, shm="2Gi"), "warning"),
)  # fmt: skip


@pytest.mark.parametrize("pair", [pytest.param(p, id=f"{p.source} {p.rule}") for p in PAIRS])
def test_what_was_reported_of_manifests_is_said_and_its_mended_twin_passes(pair: Pair) -> None:
    assert (pair.rule, pair.severity) in set(said(pair.broken))
    mended = set(said(pair.mended))
    assert {rule for rule, severity in mended if severity == "error"} == set()
    assert pair.rule not in {rule for rule, _ in mended}
