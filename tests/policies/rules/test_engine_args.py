"""Each test breaks one thing about the arguments and options of an engine, its application, or its environment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.facts import Object, SecretRef, ServeApp, Stack

from .engine_stacks import (
    args,
    at,
    found,
    large,
    on_cpu,
    plain,
    scaled,
    sentences,
    shared,
    whole,
    with_engine,
    with_service,
    with_workers,
)

NAMES = ("engine-arguments", "error")
VALUES = ("engine-argument-values", "error")


@pytest.mark.parametrize(
    "name",
    [
        "device",
        "swap_space",
        "task",
        "num_scheduler_steps",
        "disable_log_requests",
        "rope_scaling",
        "guided_decoding_backend",
    ],
)
def test_arguments_that_are_gone_are_refused_with_what_to_write_instead(name: str) -> None:
    given = args(whole(), **{name: "auto"})
    assert found(given) == [NAMES]
    text = sentences(given, "engine-arguments")[0]
    assert f"engine argument {name} is gone since vLLM 0." in text
    assert "the engine refuses to start; " in text


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("max_modle_len", "max_model_len"),
        ("tensor_parallel", "tensor_parallel_size"),
        ("gpu_memory_utilisation", "gpu_memory_utilization"),
    ],
)
def test_a_misspelt_argument_gets_the_closest_name(name: str, hint: str) -> None:
    given = args(whole(), **{name: 1})
    assert NAMES in found(given)
    assert f"did you mean '{hint}'?" in sentences(given, "engine-arguments")[0]


def test_an_argument_that_came_later_and_went_again_is_unknown_here() -> None:
    assert found(args(whole(), enable_mamba_fine_grained_prefix_cache=True)) == [NAMES]


@pytest.mark.parametrize("name", ["model", "served_model_name"])
def test_ray_names_the_model_itself(name: str) -> None:
    assert found(args(whole(), **{name: "x"})) == [NAMES]


@pytest.mark.parametrize(
    "changes",
    [
        {"enable_prefix_caching": True, "enable_chunked_prefill": True},
        {"tool_call_parser": "hermes", "enable_auto_tool_choice": True},  # of the front end
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
        {"hf_overrides": {}, "trust_remote_code": True, "seed": 0},
    ],
)
def test_arguments_of_this_vllm_pass(changes: dict[str, Any]) -> None:
    assert found(args(whole(), **changes)) == []


def test_what_exists_depends_on_the_version() -> None:
    assert found(at(args(whole(), swap_space=4), "2.54.1", "0.15.1")) == []
    assert NAMES in found(at(args(whole(), performance_mode="balanced"), "2.53.0", "0.12.0"))
    newer = with_service(args(whole(), something_new=1), vllm_version="0.40.0")
    assert ("engine-arguments", "warning") in found(newer)


def test_the_command_line_of_plain_vllm_has_a_few_more() -> None:
    assert found(args(plain(), api_server_count=2, disable_access_log_for_endpoints="/health")) == []
    assert found(args(plain(), max_modle_len=5)) == [NAMES]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (args(whole(), max_num_batched_tokens=64, max_num_seqs=128), VALUES),
        (args(whole(), max_num_seqs=0), VALUES),
        (args(whole(), enable_chunked_prefill=False, max_num_batched_tokens=4096), VALUES),
        (args(whole(), max_lora_rank=24), VALUES),
        (args(whole(), max_loras=8, max_cpu_loras=4), VALUES),
        (args(whole(), load_format="safetensor"), VALUES),
        (args(whole(), load_format="dummy"), ("engine-argument-values", "warning")),
        (args(whole(), disable_log_stats=True), VALUES),
        (with_engine(whole(), lora={"dynamic_lora_loading_path": "s3://adapters"}), VALUES),
        (with_engine(args(whole(), enable_lora=True), lora={"dynamic_lora_loading_path": "/adapters"}), VALUES),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


@pytest.mark.parametrize(
    "given",
    [
        args(whole(), max_num_batched_tokens=8192, max_num_seqs=128),
        args(whole(), enable_chunked_prefill=False, max_num_batched_tokens=8192),
        args(whole(), enable_lora=True, max_lora_rank=64, max_loras=4, max_cpu_loras=8),
        args(whole(), load_format="runai_streamer"),
        args(with_engine(whole(), llm_config={"log_engine_metrics": False}), disable_log_stats=True),
        with_engine(args(whole(), enable_lora=True), lora={"dynamic_lora_loading_path": "s3://adapters"}),
    ],
)
def test_arguments_that_go_together_pass(given: Stack) -> None:
    assert found(given) == []


SHAPE = ("serve-llm-placement", "error")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"strategy": "PACK"},
        {"bundles": [{"GPU": 1}], "bundle_per_worker": {"GPU": 1}},
        {"bundle_per_worker": {"GPU": 1}, "strategy": "TIGHT"},
        {"bundle_per_worker": {"GPU": 1}, "bundle": []},
    ],
)
def test_placement_group_config_has_bundles_and_one_of_four_strategies(config: dict[str, Any]) -> None:
    assert found(with_engine(whole(), placement_group_config=config)) == [SHAPE]


@pytest.mark.parametrize(
    "config", [{"bundles": [{"GPU": 1, "CPU": 1}]}, {"bundle_per_worker": {"GPU": 1}, "strategy": "STRICT_PACK"}, None]
)
def test_placement_group_config_of_the_right_shape_passes(config: dict[str, Any] | None) -> None:
    assert found(with_engine(whole(), placement_group_config=config)) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_engine(whole(), deployment_config={"placement_group_strategy": "PACK"}), SHAPE),
        (with_engine(whole(), deployment_config={"num_replica": 2}), ("serve-llm-fields", "error")),
        (with_engine(whole(), deployment_config={"health_check_timeouts_s": 30}), ("serve-llm-fields", "error")),
        (with_engine(whole(), llm_config={"engine_kwarg": {}}), ("serve-llm-fields", "error")),
        (with_engine(whole(), llm_config={"resources_per_bundle": {"GPU": 1}}), ("serve-llm-fields", "error")),
        (with_engine(whole(), experimental={"num_router_replicas": 2}), ("serve-llm-fields", "error")),
        (with_engine(whole(), max_replicas_per_node=1), ("serve-llm-fields", "error")),
    ],
)
def test_fields_that_ray_does_not_have_are_refused(given: Stack, expected: tuple[str, str]) -> None:
    assert found(given) == [expected]


def application(*ids: str) -> Stack:
    configs = [{"model_loading_config": {"model_id": name}} for name in ids]
    return with_service(
        whole(), apps=(ServeApp(name="chat", import_path="a:b", route_prefix="/", args={"llm_configs": configs}),)
    )


def test_models_of_an_application_have_names_of_their_own() -> None:
    assert found(application("a", "b")) == []
    assert found(application("a", "a")) == [("serve-llm-applications", "error")]
    assert found(application()) == [("serve-llm-applications", "error")]


REPLICAS, SCALES = ("serve-replica-settings", "error"), ("serve-never-scales", "error")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (scaled(deployment_config={"num_replicas": 2, "autoscaling_config": {}}), [REPLICAS]),
        (with_engine(whole(), deployment_config={"num_replicas": "many"}), [REPLICAS]),
        (scaled(min_replicas=4), [REPLICAS]),
        (scaled(max_replicas=0), [REPLICAS]),
        (scaled(deployment_config={"autoscaling_config": {"initial_replicas": 5}}), [REPLICAS]),
        (scaled(deployment_config={"autoscaling_config": {"target_ongoing_requests": 0}}), [REPLICAS]),
        (scaled(target_ongoing_requests=None), [SCALES]),
        (scaled(target_ongoing_requests=1e9), [SCALES]),
        (scaled(target_ongoing_requests=1.0, max_ongoing_requests=1), [("serve-never-scales", "warning")]),
        (scaled(target_ongoing_requests=300.0), [("serve-never-scales", "warning")]),
        (scaled(max_ongoing_requests=None), []),
        (with_engine(whole(), target_ongoing_requests=None), []),  # a fixed number needs no target
        (with_engine(whole(), deployment_config={"num_replicas": 2}), []),
    ],
)
def test_replicas_that_may_grow_can(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def zero(**over: Any) -> Stack:
    return scaled(**{"min_replicas": 0, "downscale_to_zero_delay_s": 1800.0, **over})


def test_scale_to_zero_waits_longer_than_a_cold_start() -> None:
    assert found(zero()) == []
    assert found(zero(downscale_to_zero_delay_s=None)) == []  # Serve's own 600 s
    assert found(zero(downscale_to_zero_delay_s=30.0)) == [("serve-scale-to-zero", "warning")]
    assert found(zero(downscale_to_zero_delay_s=None, downscale_delay_s=5.0)) == [("serve-scale-to-zero", "warning")]
    assert found(zero(downscale_to_zero_delay_s=40.0, source="/models/qwen")) == [("serve-scale-to-zero", "warning")]


@pytest.mark.parametrize(
    ("ray", "vllm", "said"),
    [
        ("2.50.1", "0.10.2", False),
        ("2.51.1", "0.11.0", True),
        ("2.52.0", "0.11.0", True),
        ("2.55.1", "0.18.0", True),
        ("2.56.0", "0.22.0", False),
    ],
)
def test_some_rays_do_not_go_to_zero(ray: str, vllm: str, said: bool) -> None:
    assert (("serve-scale-to-zero", "warning") in found(at(zero(), ray, vllm))) is said


def test_timeouts_are_longer_than_download_and_load() -> None:
    assert found(with_service(large(), ready_timeout_seconds=60)) == [("startup-timeout", "warning")]
    assert found(with_service(large(), ready_timeout_seconds=900)) == []
    assert found(with_engine(large(), deployment_config={"health_check_timeout_s": 30})) == []  # counts once it runs
    assert found(with_engine(large(), env={"RAYLLM_ENGINE_START_TIMEOUT_S": "60"})) == [("startup-timeout", "error")]


TOKEN = ("model-token", "warning")


def gated(**over: Any) -> Stack:
    name = "meta-llama/Llama-3.2-1B-Instruct"
    return with_service(with_engine(whole(), source=name, catalog_id=name), **over)


def test_a_gated_model_has_a_token_in_every_container() -> None:
    assert found(gated(huggingface_token=True)) == []
    assert found(gated()) == [TOKEN]
    assert found(with_engine(gated(), env={"HF_TOKEN": "hf_x"})) == [TOKEN]
    assert ("model-token", "error") in found(at(with_engine(gated(), env={"HF_TOKEN": "hf_x"}), "2.48.0", "0.9.2"))
    assert found(with_workers(gated(), env={"HF_TOKEN": SecretRef(secret="hf", key="token")})) == []


@pytest.mark.parametrize("source", ["s3://weights/llama", "/models/llama", "unsloth/Llama-3.2-1B-Instruct"])
def test_weights_from_elsewhere_need_no_token(source: str) -> None:
    assert found(with_engine(gated(), source=source)) == []


def test_an_offline_engine_has_its_weights() -> None:
    assert found(with_engine(whole(), env={"HF_HUB_OFFLINE": "1"})) == [("model-offline", "warning")]
    assert found(with_engine(whole(), env={"HF_HUB_OFFLINE": "1"}, source="/opt/models/qwen")) == []
    assert found(with_engine(whole(), env={"HF_HUB_OFFLINE": "1", "HF_HOME": "/cache"})) == []


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"VLLM_LOGGING_LEVEL": "DEBUG"}, []),
        ({"OMP_NUM_THREADS": "4"}, []),
        ({"VLLM_USE_V1": "1"}, [("environment-known", "warning")]),
        ({"VLLM_ATTENTION_BACKEND": "FLASHINFER"}, [("environment-known", "warning")]),
        ({"VLLM_LOGING_LEVEL": "DEBUG"}, [("environment-known", "warning")]),
        ({"VLLM_PORT": "tcp://10.0.0.1:8000"}, [("environment-values", "error")]),
        ({"VLLM_HOST_IP": "10.0.0.1"}, [("environment-values", "error")]),
        ({"CUDA_VISIBLE_DEVICES": "0"}, [("environment-values", "warning")]),
    ],
)
def test_variables_are_read_by_someone_who_can_use_them(env: dict[str, str], expected: list[tuple[str, str]]) -> None:
    assert found(with_engine(whole(), env=env)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_workers(whole(), env={"NVIDIA_VISIBLE_DEVICES": "void"}), [("environment-values", "error")]),
        (with_workers(whole(), env={"NVIDIA_VISIBLE_DEVICES": "all"}), [("environment-values", "warning")]),
        (with_workers(whole(), env={"RAYLLM_ENGINE_START_TIMEOUT_S": "1h"}), [("environment-ray-numbers", "error")]),
        *(
            (with_workers(whole(), env={"RAY_memory_usage_threshold": share}), [("environment-ray-numbers", "error")])
            for share in ("1.1", "95", "-0.1", "95%")
        ),
        *((with_workers(whole(), env={"RAY_memory_usage_threshold": share}), []) for share in ("0.95", "1", "0")),
        (with_engine(on_cpu(), env={"VLLM_CPU_KVCACHE_SPACE": "1.5"}), [("environment-values", "error")]),
        (with_engine(on_cpu(), env={}), [("environment-values", "warning")]),
    ],
)
def test_variables_that_ray_and_the_device_plugin_set_are_left_alone(
    given: Stack, expected: list[tuple[str, str]]
) -> None:
    assert found(given) == expected


def beside(name: str, namespace: str = "default", given: Stack | None = None) -> Stack:
    item = Object(
        api_version="v1",
        kind="Service",
        name=name,
        namespace=namespace,
        where=f"Service {namespace}/{name}",
        manifest={},
    )
    return replace(given or with_workers(plain(), service_links=None), objects=(item,))


LINKS = ("environment-service-links", "error")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (beside("vllm"), [LINKS]),
        (beside("vllm", given=with_workers(whole(), service_links=None)), [LINKS]),
        (beside("vllm-nixl-side-channel"), [LINKS]),
        (beside("vllm", "other"), []),
        (beside("vllm-server"), []),
        (beside("vllm", given=plain()), []),  # enableServiceLinks: false
        (beside("vllm", given=with_workers(plain(), service_links=None, env={"VLLM_PORT": "8000"})), []),
    ],
)
def test_a_service_called_vllm_overwrites_a_variable(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_a_deployment_called_vllm_most_likely_has_such_a_service() -> None:
    given = with_service(with_workers(plain(), service_links=None), name="vllm")
    assert found(given) == [("environment-service-links", "warning")]
    assert found(with_service(plain(), name="vllm")) == []


def test_shares_and_their_variable_are_not_judged_twice() -> None:
    assert found(shared()) == []
