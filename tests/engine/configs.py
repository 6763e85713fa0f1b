"""Configs for the differential test: what works, with up to three twists that may or may not."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from components.config import deep_merge
from policies.catalog.engine_args import ENGINE_ARGS, FRONTEND_ARGS, GONE
from tests.components.shapes import H100, L4
from tests.engine import models

_POOLS = {**L4, **H100, "cpu": {"kind": "existing", "cpu": 7.5, "memory_gib": 28, "min": 1, "max": 6}}
_ODD = st.sampled_from([True, False, 0, 1, -1, 2.5, "2", "8k", "no such", [], ["a"], [1], {}, {"a": 1}, None])
_COUNT = st.integers(0, 5)

# What people write, by the part of a model's statement that it changes.
_ENGINE_ARGS: list[dict[str, Any]] = [
    {"enable_prefix_caching": False},
    {"enable_chunked_prefill": False, "max_num_batched_tokens": 4096},
    {"enable_chunked_prefill": False, "max_num_batched_tokens": 512},
    {"max_num_seqs": 64, "max_num_batched_tokens": 32},
    {"max_num_seqs": 16},
    {"max_model_len": 1_000_000},
    {"max_model_len": -1},
    {"kv_cache_dtype": "fp8"},
    {"kv_cache_dtype": "int8"},
    {"quantization": "fp8"},
    {"quantization": "awq"},
    {"quantization": "fp_quant"},
    {"quantization": "bitsandbytes"},
    {"dtype": "float16"},
    {"dtype": "fp16"},
    {"load_format": "runai_streamer"},
    {"gpu_memory_utilization": 1.2},
    {"enable_lora": True, "max_loras": 4, "max_cpu_loras": 2},
    {"enable_lora": True, "max_lora_rank": 12},
    {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}},
    {"speculative_config": {"method": "n-gram", "num_speculative_tokens": 3}},
    {"speculative_config": {"num_speculative_token": 3, "method": "ngram"}},
    {"compilation_config": {"cudagraph_mode": "PIECEWISE"}},
    {"compilation_config": {"mode": 3, "level": 3}},
    {"structured_outputs_config": {"backend": "xgrammar"}},
    {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}},
    {"kv_transfer_config": {"kv_connector": "NoSuchConnector", "kv_role": "kv_both"}},
    {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "both"}},
    {"distributed_executor_backend": "mp"},
    {"distributed_executor_backend": "ray"},
    {"enable_expert_parallel": True},
    {"enable_eplb": True},
    {"decode_context_parallel_size": 2},
    {"disable_log_stats": True},
    {"runner": "pooling", "convert": "embed"},
    {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"},
    {"model": "other/model"},
    {"data_parallel_size": 2},
    {"tensor_parallel_size": 3},
    {"block_size": 32, "seed": 7, "enforce_eager": True},
    {"rope_scaling": {"type": "yarn"}},
    {"trust_remote_code": True, "hf_overrides": {"max_position_embeddings": 65536}},
]
_DEPLOYMENT: list[dict[str, Any]] = [
    {"graceful_shutdown_timeout_s": 60, "health_check_period_s": 20},
    {"graceful_shutdown_timeout_s": -1},
    {"health_check_timeout_s": 0},
    {"health_check_period_s": "often"},
    {"graceful_shutdown_wait_loop_s": 2},
    {"max_ongoing_requests": 0},
    {"max_ongoing_requests": 32},
    {"max_ongoing_requests": 1.5},
    {"max_queued_requests": -2},
    {"max_queued_requests": 100},
    {"num_replicas": "auto"},
    {"num_replicas": 0},
    {"num_replicas": 2},
    {"num_replicas": -1},
    {"num_replicas": 1.5},
    {"max_replicas_per_node": 1},
    {"name": "mine"},
    {"user_config": {"a": 1}},
    {"logging_config": {"log_level": "DEBUG"}},
    {"logging_config": {"level": "DEBUG"}},
    {"logging_config": {"log_level": "LOUD"}},
    {"placement_group_bundles": [{"GPU": 1}]},
    {"placement_group_strategy": "SPREAD"},
    {"placement_strategy": "SPREAD"},
    {"max_surge_percent": 50},
    {"max_surge_percent": 150},
    {"autoscaling_config": {"min_replicas": 1, "max_replicas": 2, "target_ongoing_requests": 8}},
    {"autoscaling_config": {"min_replicas": 2, "max_replicas": 1}},
    {"autoscaling_config": {"min_replicas": 0, "max_replicas": 0}},
    {"autoscaling_config": {"initial_replicas": 9}},
    {"autoscaling_config": {"upscale_delay_s": -1}},
    {"autoscaling_config": {"target_ongoing_requests": 0}},
    {"autoscaling_config": {"target_num_ongoing_requests_per_replica": 5}},
    {"autoscaling_config": {"metrics_interval_s": 0}},
    {"autoscaling_config": {"look_back_period_s": 5, "metrics_interval_s": 10}},
    {"autoscaling_config": {"upscaling_factor": 0}},
    {"autoscaling_config": {"downscaling_factor": 0.5}},
    {"autoscaling_config": {"smoothing_factor": -1}},
    {"autoscaling_config": {"aggregation_function": "median"}},
    {"autoscaling_config": {"max_replica": 3}},
    {"autoscaling_config": {"policy": "mine"}},
    {"request_router_config": {"request_router_class": "ray.serve.llm.request_router.NoSuchRouter"}},
    {"request_router_config": {"request_routing_stats_period_s": -1}},
    {"request_router_config": {"class": "x"}},
    {"ray_actor_options": {"num_cpus": 4}},
    {"gang_scheduling_config": {"gang_size": 2}},
]
_ACTOR: list[dict[str, Any]] = [
    {"num_cpus": 2},
    {"num_cpus": -1},
    {"num_gpus": 0.4},
    {"num_gpus": 1.5},
    {"num_gpu": 1},
    {"memory": 1 << 30},
    {"memory": -5},
    {"resources": {"special": 1}},
    {"resources": {"GPU": 1}},
    {"runtime_env": {"env_vars": {"A": "1"}}},
    {"runtime_env": {"env_vars": {"A": 1}}},
    {"accelerator_type": "L4"},
    {"accelerator_type": "l4"},
    {"max_restarts": 3},
    {"lifetime": "detached"},
    {"label_selector": {"zone": "a"}},
    {"num_cpus": "two"},
]
_PLACEMENT: list[dict[str, Any]] = [
    {"strategy": "SPREAD"},
    {"strategy": "STRICT_SPREAD"},
    {"bundle_per_worker": {"GPU": 1, "CPU": 2}},
    {"bundle_per_worker": {"GPU": 0.5, "CPU": 1}},
    {"bundle_per_worker": {"GPU": 1, "CPU": -1}},
    {"bundle_per_worker": {"CPU": 1}},
    {"bundle_per_worker": {"GPU": 1}, "bundles": [{"GPU": 1}]},
    {"bundles": [{"GPU": 1, "CPU": 1}]},
    {"bundles": [{"GPU": 1, "CPU": 1}, {"GPU": 1, "CPU": 1}]},
    {"bundles": []},
    {"bundles": [{}]},
    {"bundles": [{"GPU": 0}]},
]
_OTHER: list[dict[str, Any]] = [
    *(
        {"accelerator_type": name}
        for name in ("L4", "H100", "A10", "h100", "A100-80G", "TPU-V4", "GB300", "RTX-PRO-4500")
    ),
    *({"routing": {"policy": policy}} for policy in ("prefix_affinity", "session", "kv_aware", "round_robin")),
    {"routing": {"policy": "prefix_affinity", "options": {"match_rate_threshold": 0.2}}},
    {"routing": {"policy": "prefix_affinity", "options": {"no_such_option": 1}}},
    {"routing": {"policy": "session", "options": {"num_virtual_nodes": 50}}},
    {"routing": {"options": {"anything": 1}}},
    {"lora": {"path": "s3://adapters/here"}},
    {"lora": {"path": "/local/adapters"}},
    {"lora": {"path": "s3://adapters/here", "max_rank": 20}},
    {"disaggregation": {}},
    {"disaggregation": {"connector": "LMCacheConnectorV1"}},
    {"disaggregation": {"connector": "Nixl"}},
    {"experimental": {"stream_batching_interval_ms": 20}},
    {"experimental": {"num_router_replicas": 2}},
    {"experimental": {"num_ingress_replicas": 2}},
    {"env": {"VLLM_RAY_PER_WORKER_GPUS": "0.9"}},
    {"source": "s3://weights/model"},
    {"source": "/weights/model"},
    {"device": "cpu"},
    {"gpu": {"share": 0.45}},
    {"gpu": {"share": 0.2, "headroom": 0.1}},
    {"parallel": {"data": 2}},
    {"parallel": {"data": 2, "expert": True}},
    {"parallel": {"tensor": 3}},
    {"parallel": {"tensor": 16}},
    {"parallel": {"tensor": 8, "pipeline": 2}},
    {"cpu_per_worker": 4},
]
_REPLICAS = st.fixed_dictionaries(
    {"min": _COUNT, "max": st.integers(1, 4)},
    optional={
        "initial": _COUNT,
        "target_ongoing_requests": st.sampled_from([0.5, 8, 200, 2e9]),
        "max_ongoing_requests": st.integers(1, 256),
        "max_queued_requests": st.sampled_from([-1, 0, 10]),
        "surge_percent": st.sampled_from([0, 50, 100]),
        "downscale_to_zero_delay_s": st.sampled_from([1.0, 3600.0]),
    },
)


def _one_argument() -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(sorted({*ENGINE_ARGS, *FRONTEND_ARGS, *GONE}))
    return st.builds(lambda name, value: {name: value}, names, _ODD)


def _misspelt() -> st.SearchStrategy[dict[str, Any]]:
    def without(name: str, at: int) -> dict[str, Any]:
        return {name[: at % len(name)] + name[at % len(name) + 1 :]: 1}

    return st.builds(without, st.sampled_from(ENGINE_ARGS), st.integers(0, 40))


def _twists() -> st.SearchStrategy[dict[str, Any]]:
    arguments = st.one_of(st.sampled_from(_ENGINE_ARGS), _one_argument(), _misspelt())
    return st.one_of(
        arguments.map(lambda value: {"engine_args": value}),
        arguments.map(lambda value: {"engine_args": value}),
        st.sampled_from(_DEPLOYMENT).map(lambda value: {"deployment_config": value}),
        st.sampled_from(_ACTOR).map(lambda value: {"ray_actor_options": value}),
        st.sampled_from(_PLACEMENT).map(lambda value: {"placement": value}),
        st.sampled_from(_OTHER),
        _REPLICAS.map(lambda value: {"replicas": value}),
    )


# What fits: (model, pool, tensor)
_FITTING = (
    ("Qwen/Qwen2.5-1.5B-Instruct", "l4", 1),
    ("Qwen/Qwen2.5-7B-Instruct", "l4", 1),
    ("Qwen/Qwen2.5-7B-Instruct", "h100", 4),
    ("google/gemma-3-1b-it", "l4", 1),
    ("Qwen/Qwen3-30B-A3B", "h100", 2),
    ("meta-llama/Llama-3.3-70B-Instruct", "h100", 8),
)
assert {name for name, _, _ in _FITTING} == set(models.NAMES)


@st.composite
def environments(draw: st.DrawFn) -> dict[str, Any]:
    """An environment with one service of one or two models."""
    kind = draw(st.sampled_from(["ray_service"] * 4 + ["vllm"]))
    wanted = 1 if kind == "vllm" else draw(st.sampled_from([1, 1, 1, 2]))
    served: dict[str, Any] = {}
    for index in range(wanted):
        name, pool, tensor = draw(st.sampled_from(_FITTING))
        model: dict[str, Any] = {"model": name, "pool": pool, "engine_args": {"max_model_len": 4096}}
        if tensor > 1:
            model["parallel"] = {"tensor": tensor}
        for twist in draw(st.lists(_twists(), max_size=2 if kind == "ray_service" else 1)):
            model = _merge(model, twist)
        served[f"m{index}"] = model
    service = {"kind": kind, "models": served, "huggingface_token": {"secret": "hf", "key": "token"}}
    return {
        "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
        "image": "registry.example.com/llm-serve",
        "node_pools": copy.deepcopy(_POOLS),
        "services": {"chat": service},
    }


def _merge(model: dict[str, Any], twist: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = deep_merge(model, {k: v for k, v in twist.items() if k != "engine_args"})
    # null is a value of an engine argument, and a deletion to deep_merge
    merged["engine_args"] = {**model["engine_args"], **twist.get("engine_args", {})}
    return merged
