"""Whatever stands in an LLMConfig, an application or a command line, a rule finds something or nothing and never raises."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies import rules
from policies.facts import Stack
from policies.facts import ray as ray_facts
from policies.facts import vllm as vllm_facts

from .engine_stacks import ENGINE, NIXL, whole
from .stacks import VERSIONS
from .test_odd_facts import JUNK, MANIFEST, paths

CONFIG: dict[str, Any] = {
    "model_loading_config": {"model_id": "m", "model_source": "Qwen/Qwen2.5-7B-Instruct"},
    "accelerator_type": "L4",
    "accelerator_config": {"kind": "gpu"},
    "placement_group_config": {"bundles": [{"GPU": 0.5, "CPU": 1}], "strategy": "PACK"},
    "engine_kwargs": {
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "decode_context_parallel_size": 1,
        "enable_expert_parallel": False,
        "gpu_memory_utilization": 0.4,
        "kv_cache_memory_bytes": 1,
        "max_model_len": 4096,
        "max_num_seqs": 32,
        "max_num_batched_tokens": 2048,
        "dtype": "auto",
        "quantization": "awq",
        "kv_cache_dtype": "auto",
        "load_format": "auto",
        "max_lora_rank": 16,
        "speculative_config": {"model": "x", "num_speculative_tokens": 2},
        "limit_mm_per_prompt": {"image": 1},
        "kv_transfer_config": {**NIXL, "kv_connector_extra_config": {"connectors": [NIXL]}},
        "distributed_executor_backend": "ray",
        "nnodes": 1,
    },
    "deployment_config": {
        "num_replicas": 1,
        "autoscaling_config": {"min_replicas": 0, "max_replicas": 2, "initial_replicas": 1, "target_ongoing_requests": 2, "downscale_delay_s": 5},
        "max_ongoing_requests": 5,
        "max_replicas_per_node": 1,
        "ray_actor_options": {"num_gpus": 0, "num_cpus": 1, "resources": {"a": 1}},
        "request_router_config": {"request_router_class": "a:b", "request_router_kwargs": {}},
    },
    "lora_config": {"dynamic_lora_loading_path": "s3://a"},
    "experimental_configs": {"NIXL_SIDE_CHANNEL_PORT_BASE": 40000},
    "runtime_env": {"env_vars": {"VLLM_RAY_PER_WORKER_GPUS": "0.5", "VLLM_PP_LAYER_PARTITION": "1,2", "VLLM_PORT": "1"}},
}  # fmt: skip
PATHS = paths(CONFIG)


def broken(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG)
    target: Any = config
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    return config


def around(args: dict[str, Any]) -> Stack:
    manifest = copy.deepcopy(MANIFEST)
    serve = {"applications": [{"name": "a", "import_path": "x:y", "route_prefix": "/", "args": args}]}
    manifest["spec"]["serveConfigV2"] = json.dumps(serve, default=str)
    base = whole()
    return Stack(
        workloads=(ray_facts.read(manifest),), pools=base.pools, versions=VERSIONS, complete=True, batch_scheduler="kai"
    )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(path=st.sampled_from(PATHS), value=JUNK)
def test_odd_values_anywhere_in_an_llm_config(path: tuple[Any, ...], value: Any) -> None:
    config = broken(path, value)
    rules.check(around({"llm_configs": [config, CONFIG]}), rules=ENGINE)
    rules.check(around({"prefill_config": config, "decode_config": CONFIG}), rules=ENGINE)
    rules.check(around({"llm_config": config}), rules=ENGINE)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(args=JUNK)
def test_odd_arguments_of_an_application(args: Any) -> None:
    rules.check(around(args), rules=ENGINE)
    rules.check(around({"llm_configs": args, "ingress_cls_config": args}), rules=ENGINE)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    words=st.lists(
        st.sampled_from([f"--{name.replace('_', '-')}" for name in CONFIG["engine_kwargs"]]) | st.text(max_size=6),
        max_size=6,
    )
)
def test_odd_command_lines(words: list[str]) -> None:
    container = {
        "image": "vllm/vllm-openai:v0.29.0",
        "command": ["vllm", "serve"],
        "args": words,
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    manifest = {
        "kind": "Deployment",
        "metadata": {"name": "x"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    base = whole()
    rules.check(Stack(workloads=(vllm_facts.read(manifest),), pools=base.pools, versions=VERSIONS), rules=ENGINE)
