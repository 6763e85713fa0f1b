"""Bare manifests of other teams as facts."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts import SecretRef, Workload
from policies.facts.objects import image_versions
from policies.facts.stack import read
from policies.facts.wire import manifests

from .manifests import (
    DATA_ON_EKS,
    KUBERAY_SAMPLE,
    LEADER_WORKER_SET,
    LLM_SERVICE,
    LLM_WORKERS,
    PRODUCTION_STACK,
    load,
    resources,
)

GPU = {"limits": {"nvidia.com/gpu": "1"}}


def one(text: str) -> Workload:
    (found,) = read(resources(text)).workloads
    return found


def pods(kind: str, api: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": spec.pop("annotated", {}), "spec": {"containers": [container]}}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": {"template": template, **spec}}


def test_kuberay_s_own_llm_sample_is_a_workload_with_its_engine_and_versions() -> None:
    got = one(KUBERAY_SAMPLE)
    assert (got.where, got.ray_version) == ("RayService default/ray-serve-llm", "2.46.0")
    assert (got.python_version, got.cuda_version) == ("3.11", "12.4")
    (engine,) = got.engines
    assert (engine.model_id, engine.source) == ("qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct")
    assert engine.engine_args["device"] == "auto"
    assert (engine.min_replicas, engine.max_replicas, engine.target_ongoing_requests) == (1, 4, 64)
    (group,) = got.groups
    assert (group.gpus, group.memory_mib) == (4, 32768)
    assert group.env["HUGGING_FACE_HUB_TOKEN"] == SecretRef(secret="hf-token", key="hf_token")


def test_a_deployment_of_the_production_stack_is_a_workload_with_its_command_line() -> None:
    got = one(PRODUCTION_STACK)
    assert (got.kind, got.where) == ("Deployment", "Deployment serving/vllm-llama3-deployment-vllm")
    assert got.vllm_version == "0.11.0"
    (engine,) = got.engines
    assert (engine.source, engine.tensor, engine.min_replicas) == ("meta-llama/Llama-3.1-8B-Instruct", 2, 2)
    assert engine.engine_args["gpu_memory_utilization"] == 0.95
    assert engine.engine_args["enable_chunked_prefill"] is False
    assert (got.groups[0].shm_mib, got.huggingface_token) == (20480, True)


def test_a_service_of_data_on_eks_is_a_workload_with_its_own_app() -> None:
    got = one(DATA_ON_EKS)
    assert (got.namespace, got.autoscaling, got.engines) == ("rayserve-vllm", True, ())
    assert got.head_service == {"metadata": {"name": "vllm", "namespace": "rayserve-vllm"}}
    assert got.apps[0].deployments[0]["ray_actor_options"] == {"num_cpus": 1, "num_gpus": 1}
    assert got.groups[0].node_selector == {"NodeGroupType": "g5-gpu-karpenter"}


def test_a_leader_worker_set_is_one_engine_over_several_pods() -> None:
    got = one(LEADER_WORKER_SET)
    assert (got.kind, got.where, got.vllm_version) == ("LeaderWorkerSet", "LeaderWorkerSet default/vllm", "0.11.2")
    (engine,) = got.engines
    assert (engine.source, engine.tensor, engine.pipeline) == ("meta-llama/Meta-Llama-3.1-405B-Instruct", 8, 2)
    leader, workers = got.groups
    assert (leader.hosts, leader.replicas, leader.gpus) == (1, 2, 8)
    assert (workers.hosts, workers.replicas, workers.gpus, workers.where) == (1, 2, 8, f"{got.where}: workers")
    assert set(engine.engine_args) == {"tensor_parallel_size", "pipeline_parallel_size", "distributed_executor_backend"}


@pytest.mark.parametrize(
    ("parallelism", "pods", "args"),
    [
        (
            "{tensor: 2, pipeline: 4}",
            4,
            {"tensor_parallel_size": 2, "pipeline_parallel_size": 4, "nnodes": 4, "node_rank": 0},
        ),
        (
            "{data: 16, dataLocal: 8, expert: true}",
            2,
            {"data_parallel_size": 16, "data_parallel_size_local": 8, "data_parallel_start_rank": 0, "enable_expert_parallel": True},
        ),
    ],
)  # fmt: skip
def test_an_llm_inference_service_over_several_nodes_is_one_engine_over_its_pods(
    parallelism: str, pods: int, args: dict[str, Any]
) -> None:
    got = one(LLM_SERVICE.replace("{tensor: 2}", parallelism) + LLM_WORKERS)
    (engine,) = got.engines
    leader, workers = got.groups
    assert engine.groups == (leader.name, workers.name)
    assert (leader.hosts, leader.replicas, workers.hosts, workers.replicas) == (1, 2, pods - 1, 2)
    assert dict(engine.engine_args) == {"max_model_len": 16384, **args}


def test_workers_of_an_llm_inference_service_whose_number_is_not_said_leave_its_engine_open() -> None:
    got = one(LLM_SERVICE + LLM_WORKERS)
    assert (got.engines, [group.hosts for group in got.groups]) == ((), [1, 1])


def test_prefill_of_an_llm_inference_service_is_an_engine_beside_decode() -> None:
    prefill = """  prefill:
    replicas: 3
    parallelism: {tensor: 1}
    template:
      containers: [{name: main, image: "vllm/vllm-openai:v0.29.0", resources: {limits: {nvidia.com/gpu: 1}}}]
"""
    got = one(LLM_SERVICE + prefill)
    assert [(each.role, each.tensor, each.min_replicas, each.source) for each in got.engines] == [
        ("decode", 2, 2, "Qwen/Qwen2.5-7B-Instruct"),
        ("prefill", 1, 3, "Qwen/Qwen2.5-7B-Instruct"),
    ]
    assert [group.gpus for group in got.groups] == [2, 1]


@pytest.mark.parametrize(
    ("script", "args"),
    [
        ("vllm serve a/b --max-model-len 1024; echo --done", {"max_model_len": 1024}),
        ("pip install x --upgrade && exec vllm serve a/b --dtype half | tee --append log", {"dtype": "half"}),
        ("vllm serve a/b \\\n  --dtype half \\\n  --seed 1\nsleep 3 --forever", {"dtype": "half", "seed": 1}),
        ("X=1 python3 -m vllm.entrypoints.openai.api_server --model a/b --seed 1 > /log --x", {"seed": 1}),
        (
            """vllm serve a/b --kv-transfer-config '{"kv_role": "kv_both; x"}' &""",
            {"kv_transfer_config": {"kv_role": "kv_both; x"}},
        ),
        ("vllm serve a/b --served-model-name 'never closed", {}),
    ],
)
def test_of_a_shell_script_only_the_vllm_command_is_read(script: str, args: dict[str, Any]) -> None:
    container = {"name": "v", "image": "vllm/vllm-openai:v0.11.0", "command": ["sh", "-c"], "args": [script]}
    (got,) = read(manifests([pods("Deployment", "apps/v1", container)])).workloads
    assert got.engines[0].source == "a/b"
    assert got.engines[0].engine_args == args


@pytest.mark.parametrize(
    ("kind", "api", "replicas"), [("StatefulSet", "apps/v1", 3), ("Deployment", "apps/v1", 1), ("Job", "batch/v1", 2)]
)
def test_whatever_takes_a_gpu_is_a_workload_though_it_serves_no_model(kind: str, api: str, replicas: int) -> None:
    spec = {"StatefulSet": {"replicas": 3.0}, "Deployment": {}, "Job": {"parallelism": 2}}[kind]
    (got,) = read(manifests([pods(kind, api, {"image": "train:1", "resources": GPU}, **spec)])).workloads
    assert (got.kind, got.engines, got.groups[0].replicas, got.groups[0].gpus) == (kind, (), replicas, 1)


def test_a_bare_pod_and_a_cron_job_are_read_too() -> None:
    container = {"name": "a", "image": "train:1", "resources": GPU}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c"},
        "spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [container]}}}}},
    }
    got = read(manifests([pod, cron])).workloads
    assert [(each.kind, each.groups[0].gpus) for each in got] == [("Pod", 1), ("CronJob", 1)]
    assert got[0].spec == pod["spec"]


@pytest.mark.parametrize(
    "limit", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "volcano.sh/vgpu-number"]
)
def test_every_form_of_a_gpu_makes_a_workload(limit: str) -> None:
    container = {"image": "a:1", "resources": {"limits": {limit: 1}}}
    assert len(read(manifests([pods("Deployment", "apps/v1", container)])).workloads) == 1


def test_a_fraction_by_annotation_makes_one_as_well() -> None:
    manifest = pods("Deployment", "apps/v1", {"image": "a:1"}, annotated={"annotations": {"gpu-fraction": "0.5"}})
    (got,) = read(manifests([manifest])).workloads
    assert got.groups[0].annotations == {"gpu-fraction": "0.5"}


def test_anything_else_is_an_object_with_its_place() -> None:
    web = pods("Deployment", "apps/v1", {"image": "nginx:1.29"})
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "team"}, "spec": {}}
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
    stack = read(manifests([web, service, policy]))
    assert stack.workloads == ()
    assert [each.where for each in stack.objects] == [
        "Deployment default/x",
        "Service team/s",
        "ClusterPolicy cluster-policy",
    ]
    assert stack.objects[1].manifest == service


@pytest.mark.parametrize(
    ("image", "versions"),
    [
        ("rayproject/ray-llm:2.52.0-py311-cu128", {"python": "3.11", "cuda": "12.8"}),
        ("vllm/vllm-openai:v0.11.2", {"vllm": "0.11.2"}),
        ("rayproject/ray-llm:2.60.0-py312-cu130", {"python": "3.12", "cuda": "13.0", "vllm": "0.29.0"}),
        ("vllm/vllm-openai:latest", {}),
        ("lmcache/vllm-openai:2025-05-27-v1", {}),
        ("lmcache/lmstack-router:0.1.7", {}),
        ("registry.example.com:5000/team/app@sha256:aaa", {}),
        ("", {}),
    ],
)
def test_versions_are_taken_from_an_image_only_where_its_tag_says_them(image: str, versions: dict[str, str]) -> None:
    assert image_versions(image) == versions


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": None, "spec": None},
        {"kind": "RayService", "apiVersion": "ray.io/v1", "metadata": {}, "spec": {"serveConfigV2": ["odd"]}},
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": 3}, "spec": {"containers": "none"}},
        {"kind": "NodePool", "apiVersion": "karpenter.sh/v1", "spec": {"template": [], "limits": "x"}},
        {"kind": "Queue", "apiVersion": "scheduling.run.ai/v2", "spec": {"resources": {"gpu": 4}}},
        {"kind": "EC2NodeClass", "apiVersion": "karpenter.k8s.aws/v1", "spec": None},
    ],
)
def test_odd_content_is_read_without_an_exception(manifest: dict[str, Any]) -> None:
    read(manifests([manifest]))


def test_a_ray_service_of_another_group_is_no_workload() -> None:
    manifest = {**load(KUBERAY_SAMPLE), "apiVersion": "example.com/v1"}
    assert read(manifests([manifest])).workloads == ()
