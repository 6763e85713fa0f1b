"""Public reports about shares of a GPU and about parallel sizes (classes A and B), each as a small config."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts import ray as ray_facts

from .small import EXISTING, KAI, Config, chat, found, manifest, model, planned, pool

SMALL = "Qwen/Qwen2.5-1.5B-Instruct"


def gpus(name: str, count: int = 1, nodes: int = 8, **fields: Any) -> Config:
    """Nodes that are there, with `count` GPUs of a kind each."""
    return pool(gpu=name, gpus_per_node=count, cpu=8.0 * count, memory_gib=32.0 * count, max=nodes, **fields)


def one(name: str, **fields: Any) -> Config:
    """One replica of one model."""
    given: dict[str, Any] = {"model": name, "engine_args": {"max_model_len": 4096}, "replicas": {"min": 2, "max": 2}}
    return model(**{**given, **fields})


def case(*patches: Config) -> set[tuple[str, str]]:
    return found(*patches, base=EXISTING)


def errors(*patches: Config) -> set[str]:
    return {rule for rule, severity in case(*patches) if severity == "error"}


# A: fractional GPU and memory share


def test_a1_a_share_writes_bundle_memory_and_variable_in_step() -> None:
    share = one(SMALL, gpu={"share": 0.25})
    workload = ray_facts.read(manifest(share, base=EXISTING))
    engine = workload.engines[0]
    assert [dict(bundle) for bundle in engine.bundles] == [{"CPU": 1, "GPU": 0.25}]
    assert engine.env["VLLM_RAY_PER_WORKER_GPUS"] == "0.25"
    assert 0 < engine.engine_args["gpu_memory_utilization"] < 0.25
    assert engine.ray_actor_options == {}
    assert (
        errors(
            one(
                "Qwen/Qwen2.5-0.5B-Instruct",
                gpu={"share": 0.25},
                engine_args={"max_model_len": 2048, "enforce_eager": True},
            )
        )
        == set()
    )


def test_a2_two_models_that_lower_memory_only_do_not_share_one_gpu() -> None:
    two = chat(models={
        "qwen": {"model": "Llama-3.1-8B", "engine_args": {"max_model_len": 4096, "gpu_memory_utilization": 0.5}, "replicas": {"min": 1, "max": 1}},
        "embed": {"model": "Qwen/Qwen3-0.6B", "engine_args": {"max_model_len": 4096, "gpu_memory_utilization": 0.3}, "replicas": {"min": 1, "max": 1}},
    })  # fmt: skip
    assert {"gpu-memory-only", "capacity-pool"} <= errors(gpus("A100-80G", nodes=1), two)


def test_a2_with_shares_they_do() -> None:
    two = chat(upgrade={"strategy": "none"}, models={
        "qwen": {"model": "Llama-3.1-8B", "gpu": {"share": 0.49}, "engine_args": {"max_model_len": 4096, "gpu_memory_utilization": 0.4}, "replicas": {"min": 1, "max": 1}},
        "embed": {"model": "Qwen/Qwen3-0.6B", "gpu": {"share": 0.49}, "engine_args": {"max_model_len": 4096, "gpu_memory_utilization": 0.4}, "replicas": {"min": 1, "max": 1}},
    })  # fmt: skip
    assert errors(gpus("A100-80G", nodes=1), two) == set()


@pytest.mark.parametrize(("used", "rule"), [(0.9, "gpu-memory-share"), (0.5, "gpu-memory-sum")])
def test_a4_memory_of_engines_on_one_gpu_is_held_below_the_whole(used: float, rule: str) -> None:
    args = {"max_model_len": 4096, "gpu_memory_utilization": used}
    assert rule in errors(one(SMALL, gpu={"share": 0.5}, engine_args=args))


def test_a5_a_fraction_for_two_workers_needs_bundles_of_it() -> None:
    wide = {"parallel": {"tensor": 2}, "engine_args": {"max_model_len": 2048, "quantization": "awq"}}
    by_variable = one("Qwen/Qwen2.5-32B-Instruct", **wide, env={"VLLM_RAY_PER_WORKER_GPUS": "0.6"})
    assert "gpu-share-environment" in errors(gpus("A100-80G", 2), by_variable)
    by_share = one("Qwen/Qwen2.5-32B-Instruct", **wide, gpu={"share": 0.6})
    engine = planned(gpus("A100-80G", 2), by_share, base=EXISTING).stack.workloads[0].engines[0]
    assert [bundle["GPU"] for bundle in engine.bundles] == [0.6, 0.6]


@pytest.mark.parametrize("args", [{"gpu_memory_utilization": 0.92}, {"gpu_memory_utilization": 0.3}])
def test_a7_kai_counts_memory_and_does_not_cap_it(args: dict[str, Any]) -> None:
    part = one(SMALL, gpu={"share": 0.25}, engine_args={"max_model_len": 2048, **args})
    assert "gpu-memory-share" in errors(KAI, gpus("A100-80G", sharing={"strategy": "kai"}), part)


def test_a7_the_derived_memory_stays_within_the_kai_share() -> None:
    assert errors(KAI, gpus("A100-80G", sharing={"strategy": "kai"}), one(SMALL, gpu={"share": 0.25})) == set()


def test_the_documented_pattern_of_two_replicas_on_an_l4_has_no_finding() -> None:
    args = {"max_model_len": 4096, "gpu_memory_utilization": 0.4}
    assert case(one(SMALL, gpu={"share": 0.49}, engine_args=args)) == set()


# B: parallel sizes against topology and heads


@pytest.mark.parametrize(
    ("nodes", "name", "tensor", "args"),
    [
        (("V100-32G", 3), "LLaMA-33B", 3, {"max_model_len": 2048}),  # B1
        (("A10G", 3), "Llama-2-13B", 3, {"max_model_len": 2048}),  # B3
        (("A100-80G", 8), "Qwen2-7B", 8, {"max_model_len": 4096}),  # B4
        (("A10G", 4), "Baichuan2-7B", 4, {"max_model_len": 4096, "quantization": "gptq"}),  # B6
        (("A10G", 4), "Qwen-14B", 2, {"max_model_len": 4096, "quantization": "awq"}),  # B6
    ],
    ids=["b1", "b3", "b4", "b6 gptq", "b6 awq"],
)
def test_tensor_parallel_that_does_not_divide_is_refused(
    nodes: tuple[str, int], name: str, tensor: int, args: Config
) -> None:
    assert "parallel-tensor" in errors(gpus(*nodes), one(name, parallel={"tensor": tensor}, engine_args=args))


@pytest.mark.parametrize(
    ("nodes", "name", "tensor", "args"),
    [
        (("V100-32G", 4), "LLaMA-33B", 4, {"max_model_len": 2048}),
        (("A10G", 2), "Llama-2-13B", 2, {"max_model_len": 2048}),
        (("A100-80G", 8), "Qwen2-7B", 4, {"max_model_len": 4096}),
        (("A10G", 4), "Baichuan2-7B", 2, {"max_model_len": 4096, "quantization": "gptq"}),
        (("A10G", 4), "Qwen-14B", 1, {"max_model_len": 2048, "quantization": "awq"}),
    ],
    ids=["b1", "b3", "b4", "b6 gptq", "b6 awq"],
)
def test_the_right_tensor_parallel_passes(nodes: tuple[str, int], name: str, tensor: int, args: Config) -> None:
    given = (gpus(*nodes), one(name, parallel={"tensor": tensor}, engine_args=args))
    gone = {"version-model"} if name in ("Baichuan2-7B", "Qwen-14B") else set()  # vLLM 0.23 was the last to run them
    assert errors(*given) == gone
    assert not gone or errors(*given, {"versions": {"ray": "2.56.0", "vllm": "0.23.0"}}) == set()


def test_b4_the_sentence_lists_valid_sizes_and_a_split() -> None:
    given = planned(gpus("A100-80G", 8), one("Qwen2-7B", parallel={"tensor": 8}), base=EXISTING)
    text = next(f for f in given.plan.findings if f.rule == "parallel-tensor")
    assert "valid: 1, 2, 4" in text.message
    assert text.mend.startswith("set parallel.tensor: 4 with 2 replicas")


def test_b7_tensor_parallel_over_nodes_is_a_warning_and_the_split_passes() -> None:
    whole = {"engine_args": {"max_model_len": 4096}, "replicas": {"min": 1, "max": 1}}
    given = case(gpus("A100-80G", 4, 16), one("Llama-3.1-405B", parallel={"tensor": 16}, **whole))
    assert ("topology-tensor-spans-pods", "warning") in given
    assert not {rule for rule, severity in given if severity == "error"}
    right = case(gpus("A100-80G", 4, 16), one("Llama-3.1-405B", parallel={"tensor": 4, "pipeline": 4}, **whole))
    assert not {rule for rule, _ in right if rule.startswith("topology")}


@pytest.mark.parametrize(
    ("count", "fields", "rule"),
    [
        (1, {"ray_actor_options": {"num_gpus": 1}}, "gpu-share-form"),  # B9
        (2, {"ray_actor_options": {"num_gpus": 0.1}, "parallel": {"tensor": 2}}, "gpu-share-form"),  # B10
        (
            1,
            {"parallel": {"pipeline": 2}, "engine_args": {"distributed_executor_backend": "mp", "max_model_len": 4096}},
            "topology-backend",
        ),  # B12
    ],
    ids=["b9", "b10", "b12"],
)
def test_gpus_of_the_actor_and_other_backends_are_refused(count: int, fields: Config, rule: str) -> None:
    assert rule in errors(gpus("A100-80G", count), one("Qwen2-7B", **fields))


def test_b9_a_70b_model_on_one_gpu_is_refused_and_on_two_passes() -> None:
    assert "fit-memory" in errors(gpus("A100-80G"), one("Llama-3.1-70B"))
    assert errors(gpus("A100-80G", 2), one("Llama-3.1-70B", parallel={"tensor": 2})) == set()


def test_b10_the_driver_without_a_gpu_passes() -> None:
    assert (
        errors(gpus("A100-80G", 2), one("Qwen2-7B", parallel={"tensor": 2}, ray_actor_options={"num_gpus": 0})) == set()
    )


def test_b12_plain_vllm_counts_the_gpus_of_its_pod_and_ray_spans_pods() -> None:
    two = one("Qwen2-7B", parallel={"pipeline": 2})
    assert "topology-one-pod" in errors(gpus("A100-80G"), two, chat(kind="vllm"))
    assert errors(gpus("A100-80G"), two) == set()


def test_b13_one_engine_over_two_gpu_types_is_a_warning() -> None:
    mixed = {"node_pools": {"l4": {"instance_types": ["p4d.24xlarge", "p5.48xlarge"], "kind": "karpenter"}}}
    assert ("topology-gpu-types", "warning") in found(
        mixed, one("Llama-3.1-405B", parallel={"tensor": 8, "pipeline": 2})
    )
