"""Each test breaks one thing about parallel sizes and where their workers go."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts import Engine, PodGroup, Stack

from .engine_stacks import (
    MIDDLE,
    args,
    at,
    found,
    large,
    model,
    on_cpu,
    plain,
    sentences,
    sparse,
    two_nodes,
    whole,
    with_engine,
    with_pool,
    with_workers,
)
from .stacks import core, h100, l4, service, stack, workers

TENSOR = ("parallel-tensor", "error")


def wide(name: str, tensor: int, **extra: Any) -> Stack:
    """A model on one pod with as many GPUs as its tensor parallel size."""
    own = model(
        name, tensor=tensor, engine_args={"tensor_parallel_size": tensor, "max_model_len": 2048, **extra}, bundles=({"GPU": 1, "CPU": 1},) * tensor,
        groups=("h100",), min_replicas=1, max_replicas=1,
    )  # fmt: skip
    group = workers(
        name="h100",
        node_selector={"llm-serving/pool": "h100"},
        gpus=float(tensor),
        resources={"CPU": "60", "GPU": str(tensor)},
    )
    return stack(
        workloads=(service(engines=(own,), groups=(group,), huggingface_token=True),), pools=(core(), h100(efa=False))
    )


@pytest.mark.parametrize(
    ("name", "tensor", "extra"),
    [
        ("LLaMA-33B", 3, {}),
        ("Llama-2-13B", 3, {}),
        ("Qwen/Qwen2-7B-Instruct", 8, {}),
        ("Qwen/Qwen2-7B-Instruct", 7, {}),  # 28 heads divide by it, 4 KV heads neither divide nor are copied evenly
        ("Baichuan2-7B", 4, {"quantization": "gptq"}),
        ("Qwen/Qwen-14B", 2, {"quantization": "awq"}),
        ("Qwen/Qwen3-235B-A22B-FP8", 8, {"moe_backend": "deep_gemm"}),  # of the kernels only Triton's read finer blocks
        ("Qwen/Qwen3-235B-A22B-FP8", 32, {}),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 32, {}),
    ],
)  # fmt: skip
def test_tensor_parallel_that_does_not_divide_is_refused(name: str, tensor: int, extra: dict[str, Any]) -> None:
    assert TENSOR in found(wide(name, tensor, **extra))


@pytest.mark.parametrize(
    ("name", "tensor", "extra"),
    [
        ("LLaMA-33B", 4, {}),
        ("Llama-2-13B", 8, {}),
        ("Qwen/Qwen2-7B-Instruct", 4, {}),
        ("Baichuan2-7B", 2, {"quantization": "gptq"}),
        ("Qwen/Qwen-14B", 2, {}),
        ("Qwen/Qwen2.5-72B-Instruct", 8, {"quantization": "awq"}),  # its AWQ checkpoint is padded
        ("Llama-2-70B", 8, {"quantization": "awq"}),
        ("meta-llama/Llama-3.1-8B-Instruct", 16, {}),  # more than its KV heads, which are copied
        ("openai/gpt-oss-120b", 8, {}),  # MXFP4 is padded
        ("Qwen/Qwen3-235B-A22B-FP8", 8, {}),  # 192 a GPU, read in blocks of 64
        ("Qwen/Qwen3-235B-A22B-FP8", 8, {"moe_backend": "triton"}),
    ],
)  # fmt: skip
def test_tensor_parallel_that_divides_passes(name: str, tensor: int, extra: dict[str, Any]) -> None:
    assert TENSOR not in found(wide(name, tensor, **extra))


def test_the_sentence_lists_valid_sizes_and_a_split_of_the_same_gpus() -> None:
    assert sentences(wide("Qwen/Qwen2-7B-Instruct", 8), "parallel-tensor") == [
        "service 'chat': model 'm': tensor parallel 8 does not suit Qwen/Qwen2-7B-Instruct: 28 attention heads are not a multiple of 8; "
        "valid: 1, 2, 4; set parallel.tensor: 4 with 2 replicas (or pipeline: 2) on the same 8 GPUs [parallel-tensor]"
    ]


def test_experts_are_not_sliced_under_expert_parallel() -> None:
    given = wide("Qwen/Qwen3-235B-A22B-FP8", 32, enable_expert_parallel=True)
    assert TENSOR not in found(with_engine(given, expert=True))


@pytest.mark.parametrize("name", ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"])
def test_sizes_are_no_text_to_ray_which_multiplies_them(name: str) -> None:
    size = name.removesuffix("_parallel_size")
    given = with_engine(args(plain(), **{name: "1"}), **{size: 1})
    assert "parallel-numbers" not in {rule for rule, _ in found(given)}
    assert ("parallel-numbers", "error") in found(args(whole(), **{name: "1"}))


@pytest.mark.parametrize("value", [0, -2, "two", 1.5, [4]])
@pytest.mark.parametrize("name", ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"])
def test_sizes_are_whole_numbers(name: str, value: Any) -> None:
    assert ("parallel-numbers", "error") in found(args(whole(), **{name: value}))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_engine(two_nodes(), pipeline=100, bundles=({"GPU": 1},) * 800), ("parallel-pipeline", "error")),
        (with_engine(two_nodes(), env={"VLLM_PP_LAYER_PARTITION": "40,41"}), ("parallel-pipeline", "error")),
        (with_engine(two_nodes(), env={"VLLM_PP_LAYER_PARTITION": "40,20,20"}), ("parallel-pipeline", "error")),
        (with_engine(two_nodes(), env={"VLLM_PP_LAYER_PARTITION": "forty,forty"}), ("parallel-pipeline", "error")),
        (with_engine(whole(), catalog_id="BAAI/bge-m3", pipeline=2), ("parallel-pipeline", "error")),
        (with_engine(whole(), expert=True), ("parallel-expert", "error")),
        (args(large(), enable_eplb=True), ("parallel-expert", "error")),
        (with_engine(sparse(), data=256), ("parallel-expert", "error")),
        (args(sparse(), eplb_config={"num_redundant_experts": 4}), ("parallel-expert", "error")),
        (
            args(sparse(), enable_eplb=True, eplb_config={"num_redundant_experts": 2}),
            ("parallel-expert", "error"),
        ),
        (with_engine(args(sparse(), enable_eplb=True), tensor=1, data=1), ("parallel-expert", "error")),
        (with_engine(whole(), data=2), ("parallel-data", "error")),
        (with_engine(whole(), data=2, role="data_parallel"), ("parallel-data", "warning")),
        (args(large(), decode_context_parallel_size=3), ("parallel-context", "error")),
        (args(large(), decode_context_parallel_size=2), ("parallel-context", "error")),
    ],
)
def test_sizes_that_the_model_cannot_have_are_said(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


def test_experts_are_balanced_over_ranks_that_get_as_many_each() -> None:
    given = args(sparse(), enable_eplb=True, eplb_config={"num_redundant_experts": 4})
    assert ("parallel-expert", "error") not in found(given)


def test_an_even_partition_of_layers_passes() -> None:
    assert found(with_engine(two_nodes(), env={"VLLM_PP_LAYER_PARTITION": "42,38"})) == []


PLACEMENT = ("topology-placement", "error")


def cpu_bundles(given: Stack, cpu: float) -> Stack:
    own = given.workloads[0].engines[0]
    return with_engine(given, bundles=tuple({**bundle, "CPU": cpu} for bundle in own.bundles))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_engine(two_nodes(), strategy="STRICT_PACK"), [PLACEMENT]),
        (with_engine(large(), strategy="STRICT_SPREAD"), [PLACEMENT]),
        (with_engine(large(), strategy="SPREAD"), [("topology-placement", "warning")]),
        (with_engine(large(), strategy="STRICT_PACK"), []),
        (cpu_bundles(whole(), 8), [PLACEMENT]),
        (cpu_bundles(large(), 60), [PLACEMENT]),
        (with_engine(cpu_bundles(large(), 30), min_replicas=1), [("topology-placement", "warning")]),
        (cpu_bundles(large(), 20), []),
        (with_engine(whole(), ray_actor_options={"num_cpus": 7}), [PLACEMENT]),
        (with_engine(cpu_bundles(whole(), 7), ray_actor_options={"num_cpus": 0}), []),
        (cpu_bundles(on_cpu(), 7), [PLACEMENT]),
    ],
)
def test_a_placement_group_that_is_never_ready_is_refused(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_old_serve_llm_packs_strictly_and_data_parallel_longer() -> None:
    spread = with_engine(two_nodes(), tensor=16, pipeline=1)
    assert PLACEMENT in found(at(spread, "2.50.1", "0.10.2"))
    assert PLACEMENT not in found(at(spread, "2.51.2", "0.11.0"))
    gang = with_engine(sparse(), tensor=16, data=2, bundles=({"GPU": 1},) * 16)
    assert PLACEMENT in found(at(gang, "2.54.1", "0.15.0"))
    assert PLACEMENT not in found(at(gang, "2.55.1", "0.18.0"))


def test_tensor_parallel_over_the_network_is_a_warning_with_a_better_split() -> None:
    spread = args(with_engine(two_nodes(), tensor=16, pipeline=1), tensor_parallel_size=16, pipeline_parallel_size=None)
    assert [finding for finding in found(spread) if finding[0].startswith("topology")] == [
        ("topology-tensor-spans-pods", "warning")
    ]
    text = sentences(spread, "topology-tensor-spans-pods")[0]
    assert "tensor parallel 16 spans pods of 8 GPUs" in text
    assert "use parallel.tensor: 8 with pipeline: 2" in text


def test_ranks_that_share_experts_in_pods_smaller_than_a_node_are_a_warning() -> None:
    def pods_of(gpus: int, **over: Any) -> Stack:
        own = {"gpus": float(gpus), "limits": {"nvidia.com/gpu": f"{gpus}"}, "resources": {"GPU": f"{gpus}"}}
        return with_workers(with_engine(sparse(), **over), min=1, replicas=1, max=2, **own)

    rule = "topology-expert-ranks"
    assert sentences(pods_of(2), rule) == [
        "service 'chat': model 'm': its 2 data-parallel ranks exchange tokens in each layer with experts, and node pool 'h100' has 8 GPUs a node "
        "and pods of 2: NCCL takes each pod for a host of its own and goes over the network where NVLink or PCIe would do; "
        "leave worker.gpus_per_pod out, or set it to 4 [topology-expert-ranks]"
    ]
    assert sentences(pods_of(4), rule) == sentences(sparse(), rule) == []
    assert sentences(with_engine(whole(), data=2), rule) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (args(whole(), distributed_executor_backend="mp"), ("topology-backend", "error")),
        (args(whole(), nnodes=2), ("topology-backend", "error")),
        (args(plain(), distributed_executor_backend="dask"), ("topology-backend", "error")),
        (with_engine(args(plain(), pipeline_parallel_size=2), pipeline=2), ("topology-one-pod", "error")),
        (with_engine(args(plain(), tensor_parallel_size=2), tensor=2), ("topology-one-pod", "error")),
    ],
)
def test_the_backend_places_the_workers(given: Stack, expected: tuple[str, str]) -> None:
    assert expected in found(given)


@pytest.mark.parametrize(
    "given", [args(whole(), distributed_executor_backend="ray"), args(plain(), distributed_executor_backend="mp")]
)
def test_the_right_backend_passes(given: Stack) -> None:
    assert found(given) == []


def test_one_engine_over_gpus_of_different_types_is_a_warning() -> None:
    mixed = with_pool(two_nodes(), instance_types=("p5.48xlarge", "p4d.24xlarge"))
    assert ("topology-gpu-types", "warning") in found(mixed)
    single = with_pool(whole(), instance_types=("g6.2xlarge", "g5.2xlarge"))
    assert found(single) == []  # replicas of one GPU each may differ
    pinned = with_engine(mixed, accelerator_type="H100")
    assert ("topology-gpu-types", "warning") not in found(pinned)


def test_groups_on_pools_of_different_gpus_are_one_engine_over_two_types() -> None:
    groups: tuple[PodGroup, ...] = (workers(), workers(name="h100", node_selector={"llm-serving/pool": "h100"}))
    own: Engine = model(MIDDLE, groups=())
    given = stack(workloads=(service(engines=(own,), groups=groups),), pools=(core(), l4(), h100(efa=False)))
    assert ("topology-gpu-types", "warning") in found(given)


def test_resources_in_bundles_are_declared_by_a_group() -> None:
    wants = with_engine(whole(), bundles=({"GPU": 1, "CPU": 1, "group-a": 0.001},))
    assert found(wants) == [("topology-custom-resources", "error")]
    assert found(with_workers(wants, resources={"CPU": "7", "GPU": "1", "group-a": "1"})) == []
    assert found(with_workers(wants, ray_start_params={"resources": "'{\"group-a\": 1}'"}, resources={})) == []
