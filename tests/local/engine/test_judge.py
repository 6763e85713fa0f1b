"""The judge answers with Ray's and vLLM's own words, and goes on after what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.engine import model
from local.engine.client import JudgeClient, Refused

pytestmark = pytest.mark.engine

COMMON = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "dtype": "bfloat16",
}
LATENT = {
    **COMMON,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_attention_heads": 8,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 256,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 8,
    "moe_intermediate_size": 128,
}
SLIDING = {
    **COMMON,
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "num_hidden_layers": 6,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
}
SHARED_GPU: dict[str, Any] = {
    "model_loading_config": {"model_id": "m", "model_source": "org/model"},
    "engine_kwargs": {"max_model_len": 512},
    "placement_group_config": {"bundle_per_worker": {"GPU": 0.4, "CPU": 1}},
}


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeClient]:
    folder = tmp_path_factory.mktemp("models")
    for name, config in {"latent": LATENT, "sliding": SLIDING}.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
    with JudgeClient(folders={"/opt/test": Path(folder)}) as client:
        yield client


def test_a_share_of_a_gpu_becomes_one_bundle_and_vllms_variable(judge: JudgeClient) -> None:
    result = judge.llm_config(SHARED_GPU)
    assert result["deployment"]["bundles"] == [{"CPU": 2.0, "GPU": 0.4}]
    assert result["engine"]["env_vars"] == {"VLLM_RAY_PER_WORKER_GPUS": "0.4"}


def test_num_gpus_of_the_replica_is_added_to_the_bundle_not_taken_from_it(judge: JudgeClient) -> None:
    both = {**SHARED_GPU, "deployment_config": {"ray_actor_options": {"num_gpus": 0.4}}}
    assert judge.llm_config(both)["deployment"]["bundles"] == [{"CPU": 2.0, "GPU": 0.8}]


def test_autoscaling_without_a_target_never_scales_up(judge: JudgeClient) -> None:
    scaled = {**SHARED_GPU, "deployment_config": {"autoscaling_config": {"min_replicas": 1, "max_replicas": 2}}}
    assert judge.llm_config(scaled)["deployment"]["autoscaling"]["target_ongoing_requests"] == 1e9


def test_an_unknown_key_is_refused_in_rays_words_and_the_judge_goes_on(judge: JudgeClient) -> None:
    with pytest.raises(Refused, match="Extra inputs are not permitted") as refusal:
        judge.llm_config({**SHARED_GPU, "use_cpu": True})
    assert refusal.value.kind == "ValidationError"
    with pytest.raises(Refused, match="Unknown engine argument: swap_space"):
        judge.llm_config({**SHARED_GPU, "engine_kwargs": {"swap_space": 4}})
    assert judge.llm_config(SHARED_GPU)["deployment"]["name"] == "LLMServer:m"


def test_our_app_builds_to_an_ingress_and_a_deployment_for_each_model(judge: JudgeClient) -> None:
    args = {"llm_configs": [SHARED_GPU]}
    built = judge.build_app("serve_apps.openai_chat.app:build", args)
    assert built["ingress"] == "OpenAiIngress"
    assert [deployment["name"] for deployment in built["deployments"]] == ["LLMServer:m", "OpenAiIngress"]


def test_a_serve_config_is_judged_by_serves_schema(judge: JudgeClient) -> None:
    application = {"name": "chat", "import_path": "serve_apps.openai_chat.app:build", "route_prefix": "/"}
    assert judge.serve_schema({"applications": [application]})["applications"][0]["name"] == "chat"
    with pytest.raises(Refused, match="route_prefix"):
        judge.serve_schema({"applications": [application, {**application, "name": "other"}]})


def test_engine_arguments_are_resolved_against_the_model(judge: JudgeClient) -> None:
    resolved = judge.engine_args(model.FOLDER, max_model_len=1024, dtype="bfloat16")
    assert resolved["architecture"] == "LlamaForCausalLM"
    assert resolved["max_model_len"] == 1024
    with pytest.raises(Refused, match="greater than the derived max_model_len"):
        judge.engine_args(model.FOLDER, max_model_len=100_000)
    with pytest.raises(Refused, match="attention heads"):
        judge.engine_args(model.FOLDER, tensor_parallel_size=2)  # nine heads


def test_the_servers_command_line_is_parsed_by_vllm(judge: JudgeClient) -> None:
    parsed = judge.command_line(f"--model={model.FOLDER}", "--max-model-len=512", "--enforce-eager")
    assert parsed == {"model": model.FOLDER, "max_model_len": 512, "enforce_eager": True}
    with pytest.raises(Refused, match="unrecognized arguments: --swap-space=4"):
        judge.command_line("--swap-space=4")


def test_kv_bytes_are_those_of_the_layers_that_vllm_makes(judge: JudgeClient) -> None:
    per_layer = 2 * 3 * 64 * 2  # key and value, three heads of 64, two bytes
    assert judge.kv_bytes_per_token(model.FOLDER) == 30 * per_layer
    assert judge.kv_bytes_per_token(model.FOLDER, tensor_parallel_size=3) == 30 * per_layer / 3
    assert judge.kv_bytes_per_token(model.FOLDER, pipeline_parallel_size=2) == 15 * per_layer
    assert judge.kv_bytes_per_token(model.FOLDER, kv_cache_dtype="fp8") == 15 * per_layer


def test_latent_attention_keeps_one_vector_a_token_whatever_the_tensor_parallel_size(judge: JudgeClient) -> None:
    for size in (1, 2):
        layers = judge.kv_layers("/opt/test/latent", tensor_parallel_size=size)
        assert [layer["kind"] for layer in layers] == ["MLAAttention"] * 3
        assert {layer["bytes_per_token"] for layer in layers} == {(512 + 64) * 2}


def test_sliding_layers_say_their_window(judge: JudgeClient) -> None:
    layers = judge.kv_layers("/opt/test/sliding")
    assert [layer["sliding_window"] for layer in layers] == [512] * 5 + [None]
