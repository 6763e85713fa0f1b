"""Each test breaks one value of an engine argument, or takes away what it needs; tests/engine asks vLLM about all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.facts.ray import engine
from policies.facts.vllm import command_line

from .engine_stacks import args, found, large, plain, sentences, whole, with_engine

KINDS = ("engine-argument-kinds", "error")
KEYS = ("engine-argument-keys", "error")
NEEDS = ("engine-argument-needs", "error")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("enforce_eager", "maybe", "true or false"),
        ("seed", "abc", "a whole number"),
        ("max_logprobs", 2.5, "a whole number"),
        ("block_size", 0, "a whole number from 1"),
        ("optimization_level", 4, "a whole number from 0 to 3"),
        ("kv_cache_metrics_sample", 0, "a number over 0 to 1"),
        ("watermark", 1, "a number from 0 below 1"),
        ("cpu_offload_gb", -1, "a number from 0"),
        ("download_dir", 7, "text"),
        ("compilation_config", 3, "a mapping"),
        ("model_class_overrides", {"A": 1}, "a mapping of texts"),
        ("cudagraph_capture_sizes", [1, "x"], "a list of whole numbers"),
        ("allowed_media_domains", "example.com", "a list of texts"),
        ("collect_detailed_traces", ["gpu"], "a list of all, model, worker"),
        ("scheduling_policy", "lifo", "fcfs, priority"),
        (
            "numa_bind_cpus",
            [],
            "a list of CPUs in numactl's words, ranges ascending, such as 0-3 or 0,2,4-7, at least one",
        ),
        ("tokenizer", "two words", "a repository of the hub (organisation/name) or a folder"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_what_is_allowed(name: str, value: Any, allowed: str) -> None:
    given = args(whole(), **{name: value})
    assert found(given) == [KINDS]
    assert f"engine argument {name} is " in sentences(given, KINDS[0])[0]
    assert f"allowed: {allowed};" in sentences(given, KINDS[0])[0]


def test_null_is_a_value_that_most_arguments_do_not_take() -> None:
    null = with_engine(
        whole(), engine_args={"max_model_len": 8192, "enforce_eager": None, "enable_prefix_caching": None}
    )
    (text,) = sentences(null, KINDS[0])
    assert "enforce_eager is null; allowed: a value, not null; leave it out" in text


def test_the_whole_sentence() -> None:
    (text,) = sentences(args(whole(), attention_backend="FLASH_ATN"), KINDS[0])
    assert text.startswith(
        "service 'chat': model 'm': engine argument attention_backend is 'FLASH_ATN'; allowed: FLASH_ATTN, FLASH_ATTN_DIFFKV,"
    )
    assert text.endswith("and 25 more; did you mean 'FLASH_ATTN'? [engine-argument-kinds]")


@pytest.mark.parametrize(
    "changes",
    [
        {"enforce_eager": 1, "enable_prefix_caching": "true"},
        {"seed": "7", "max_logprobs": 20.0, "optimization_level": 3},
        {"attention_backend": "flashinfer", "mm_encoder_tp_mode": "data"},
        {"tokenizer": "/models/tokenizer", "download_dir": "/weights"},
        {"tokenizer": "Qwen/Qwen2.5-7B-Instruct", "ignore_patterns": "*.bin"},
        {
            "collect_detailed_traces": ["model", "worker"],
            "otlp_traces_endpoint": "http://traces:4317",
            "cudagraph_capture_sizes": [1, 2, 4],
        },
        {"hf_overrides": {"rope_parameters": {"rope_theta": 1e6}}, "limit_mm_per_prompt": {"image": 0}},
        {"reasoning_parser": "mine", "reasoning_parser_plugin": "/plugins/mine.py"},  # a plugin brings more
        {
            "speculative_config": {"method": "mtp", "model": "org/mtp"},
            "structured_outputs_config": {"backend": "xgrammar"},
        },
    ],
)
def test_values_that_vllm_takes_pass(changes: dict[str, Any]) -> None:
    assert found(args(whole(), **changes)) == []


@pytest.mark.parametrize(
    ("flags", "kept", "broken"),
    [
        ("--device-ids 0,1 --seed 1", [0, 1], False),
        ("--device-ids=GPU-8d1c,MIG-77ae", ["GPU-8d1c", "MIG-77ae"], False),
        ("--device-ids $GPUS", ["$GPUS"], False),
        ("--device-ids 0,0", [0, 0], True),
        ("--device-ids=0,GPU-8d1c", [0, "GPU-8d1c"], True),
        ("--numa-bind --numa-bind-nodes 0 1", [0, 1], False),
        ("--numa-bind --numa-bind-nodes 0 -1", [0, -1], True),
        ("--numa-bind --numa-bind-cpus 0-3 4,6-7", ["0-3", "4,6-7"], False),
        ("--numa-bind --numa-bind-cpus 0 3-3", ["0", "3-3"], False),
        ("--numa-bind --numa-bind-cpus 0-3 7-4", ["0-3", "7-4"], True),
        ("--numa-bind --numa-bind-cpus 0:3", ["0:3"], True),
    ],
)
def test_lists_of_gpus_cpus_and_nodes_are_read_from_words_and_from_a_script(
    flags: str, kept: list[Any], broken: bool
) -> None:
    for line in (["vllm", "serve", "m", *flags.split()], ["sh", "-c", f"vllm serve m {flags}"]):
        _, given = command_line(line)
        assert kept in given.values()
        assert ("engine-argument-kinds" in {rule for rule, _ in found(args(plain(), **given))}) is broken


def test_gpus_by_number_mean_nothing_where_ray_gives_them() -> None:
    assert found(args(whole(), device_ids=[0])) == [("topology-backend", "warning")]
    assert found(args(whole(), device_ids="0")) == sorted([KINDS, ("topology-backend", "warning")])
    assert found(args(plain(), device_ids="0")) == []  # the flag has one text


def test_another_vllm_may_have_more_choices_so_it_is_a_warning_there() -> None:
    later = args(whole(), scheduling_policy="lifo")
    later = replace(later, workloads=tuple(replace(w, vllm_version="0.32.0") for w in later.workloads))
    assert ("engine-argument-kinds", "warning") in found(later)


def test_lora_values_count_when_lora_is_on() -> None:
    assert found(args(whole(), enable_lora=True, max_loras="many")) == [KINDS]
    assert found(args(whole(), max_loras="many")) == [
        ("model-adapters", "warning")
    ]  # nobody looks at it without enable_lora


@pytest.mark.parametrize(
    ("name", "key", "hint"),
    [
        ("speculative_config", "num_speculative_token", "did you mean 'num_speculative_tokens'?"),
        ("structured_outputs_config", "backends", "did you mean 'backend'?"),
        ("eplb_config", "window", "window_size"),
    ],
)
def test_a_key_that_the_config_class_does_not_have_is_refused(name: str, key: str, hint: str) -> None:
    given = args(
        whole(), **{name: {"method": "ngram", "num_speculative_tokens": 3, key: 1} if "spec" in name else {key: 1}}
    )
    assert found(given) == [KEYS]
    assert f"{name} has no key '{key}'" in sentences(given, KEYS[0])[0]
    assert hint in sentences(given, KEYS[0])[0]


def test_a_choice_inside_a_mapping_is_one_of_vllms() -> None:
    given = args(whole(), speculative_config={"method": "n-gram", "num_speculative_tokens": 3})
    assert found(given) == [KEYS]
    assert "speculative_config.method is 'n-gram'; allowed: " in sentences(given, KEYS[0])[0]
    assert "did you mean 'ngram'?" in sentences(given, KEYS[0])[0]


_CLEAN: dict[str, dict[str, Any]] = {
    "profiler_config": {"profiler": "torch", "torch_profiler_dir": "/traces", "delay_iterations": 0},
    "speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4},
    "eplb_config": {"window_size": 1, "communicator": None},
}


@pytest.mark.parametrize(
    ("name", "key", "value", "allowed"),
    [
        ("eplb_config", "log_balancedness_interval", 0, "a whole number from 1"),
        ("eplb_config", "communicator", "nccl", "nixl, pynccl, torch_gloo, torch_nccl"),
        ("profiler_config", "active_iterations", 0, "a whole number from 1"),
        ("profiler_config", "max_iterations", -1, "a whole number from 0"),
        ("profiler_config", "profiler", "pytorch", "cuda, proton, torch"),
        ("speculative_config", "prompt_lookup_min", 0, "a whole number from 1"),
        ("speculative_config", "draft_sample_method", "random", "greedy, probabilistic"),
    ],
)
def test_a_number_or_a_word_inside_a_mapping_is_one_that_vllm_takes(
    name: str, key: str, value: Any, allowed: str
) -> None:
    clean = args(plain(), **{name: _CLEAN[name]})
    assert KEYS not in found(clean)
    (text,) = sentences(args(clean, **{name: {**_CLEAN[name], key: value}}), KEYS[0])
    assert f"{name}.{key} is {value!r}; allowed: {allowed};" in text


def test_switches_are_read_as_vllm_reads_them() -> None:
    for on in (True, 1, "true"):
        config = {"model_loading_config": {"model_id": "m"}, "engine_kwargs": {"enable_expert_parallel": on}}
        assert engine(config, "serve", "here", {}, {}).expert


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"enable_auto_tool_choice": True}, "tool_call_parser"),
        ({"enable_dbo": True}, "all2all_backend"),
        ({"enable_elastic_ep": True}, "enable_eplb"),
        ({"enable_fault_tolerance": True}, "data_parallel_rank or data_parallel_external_lb"),
        ({"numa_bind_nodes": [0]}, "numa_bind"),
        ({"spec_tokens": 3}, "spec_model, spec_method or speculative_config"),
        ({"speculative_config": {"method": "ngram"}}, "num_speculative_tokens in it"),
        ({"default_mm_loras": {"image": "/lora"}}, "a multimodal model"),
        ({"pooler_config": {"pooling_type": "MEAN", "seq_pooling_type": "CLS"}}, "pooling_type alone"),
        ({"profiler_config": {"profiler": "torch"}}, "profiler torch and torch_profiler_dir together"),
        ({"profiler_config": {"torch_profiler_dir": "/traces"}}, "profiler torch and torch_profiler_dir together"),
        ({"use_replayssm": True}, "a model with Mamba layers"),
        ({"kv_transfer_config": {}}, "kv_connector in it"),
        ({"collect_detailed_traces": ["model"]}, "otlp_traces_endpoint"),
        ({"long_prefill_token_threshold": 9000}, "a max_model_len that is not less"),
        (
            {"structured_outputs_config": {"backend": "outlines", "disable_any_whitespace": True}},
            "backend xgrammar or guidance",
        ),
        (
            {"structured_outputs_config": {"backend": "xgrammar", "disable_additional_properties": True}},
            "backend xgrammar or",
        ),
        (
            {"enable_return_routed_experts": True, "decode_context_parallel_size": 2},
            "one pipeline stage, no context parallel",
        ),
    ],
)
def test_an_argument_without_what_it_needs_is_refused(changes: dict[str, Any], needed: str) -> None:
    given = args(whole(), **changes)
    assert NEEDS in found(given)
    assert f"needs {needed}" in sentences(given, NEEDS[0])[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"},
        {"enable_auto_tool_choice": False, "enable_dbo": False, "ubatch_size": 0},
        {"numa_bind": True, "numa_bind_nodes": [0]},
        {"collect_detailed_traces": ["model"], "otlp_traces_endpoint": "http://traces:4317"},
        {"long_prefill_token_threshold": 2048},
        {"structured_outputs_config": {"backend": "guidance", "disable_additional_properties": True}},
        {"enable_return_routed_experts": True},
        {"mm_shm_cache_max_object_size_mb": 64},  # no images here
        {"load_format": "runai_streamer"},
        {"pooler_config": {"pooling_type": "MEAN"}, "profiler_config": {"profiler": "cuda"}},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
        {"speculative_config": {"model": "org/draft"}},  # an MTP or EAGLE head says how many itself
    ],
)
def test_arguments_with_what_they_need_pass(changes: dict[str, Any]) -> None:
    assert NEEDS not in found(args(whole(), **changes))


def test_experts_are_balanced_only_when_they_are_spread() -> None:
    assert NEEDS in found(args(large(), enable_eplb=True))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_weights": "s3://weights/m"}, "nothing on the command line, which does not have it"),
        ({"max_num_seqs": "8k"}, "a whole number from 1"),
        ({"enforce_eager": "true"}, "the flag without a value, or its --no- form"),
        ({"ray_workers_use_nsight": True}, "needs Ray"),
        ({"lora_target_modules": []}, "at least one value after the flag"),
    ],
)
def test_the_command_line_of_plain_vllm_has_rules_of_its_own(changes: dict[str, Any], says: str) -> None:
    assert says in " ".join(
        sentences(args(plain(), **changes), KINDS[0]) + sentences(args(plain(), **changes), NEEDS[0])
    )


@pytest.mark.parametrize("changes", [{"max_num_batched_tokens": "8k"}, {"tokenizer_revision": 3}, {"seed": 1}])
def test_numbers_for_people_are_numbers_on_the_command_line(changes: dict[str, Any]) -> None:
    assert KINDS not in found(args(plain(), **changes))


def test_words_after_a_list_flag_are_its_values_and_a_switch_with_a_value_is_told_from_the_flag() -> None:
    words = [
        "serve",
        "org/m",
        "--cudagraph-capture-sizes",
        "1",
        "2",
        "--enforce-eager=true",
        "--enable-lora",
        "--seed",
        "3",
    ]
    model, given = command_line(["vllm", *words])
    assert model == "org/m"
    assert given == {"cudagraph_capture_sizes": [1, 2], "enforce_eager": "true", "enable_lora": True, "seed": 3}


def test_the_beginning_of_a_flag_is_the_flag_where_only_one_begins_so() -> None:
    _, given = command_line(
        ["vllm", "serve", "org/m", "--tensor-parallel=2", "--cudagraph-capture-size", "8", "--max-num=3"]
    )
    assert given == {"tensor_parallel_size": 2, "cudagraph_capture_sizes": [8], "max_num": 3}
