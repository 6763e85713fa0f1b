"""Public reports about speculation, adapters, parsers and rerankers, and about ranks of plain vLLM, each with its mended twin."""

from __future__ import annotations

from typing import Any

import pytest

from policies import stated
from policies.facts.stack import reading
from policies.facts.wire import manifests
from policies.rules import check

from .report import Report, each
from .small import Config, chat
from .test_a_to_b import gpus, one
from .test_reports_of_engines import A8, GIB, H8, H200, HYBRID, L70, MOE, TOKEN, V3, args, cached, guess, lmcache
from .test_reports_of_manifests import Doc, Pair, started

L4, L40S = gpus("L4"), gpus("L40S")
LOOKUP = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
MTP = {"method": "mtp", "num_speculative_tokens": 1}
SECOND = chat(env={"VLLM_USE_V2_MODEL_RUNNER": "1"})
FIRST = chat(env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
OWN = ["company.processors:NoSwearing"]


def stages(name: str, **engine_args: Any) -> Config:
    """Over two pods of eight."""
    return one(name, parallel={"tensor": 8, "pipeline": 2}, engine_args={"max_model_len": 8192, **engine_args})


def versions(ray: str, vllm: str) -> Config:
    return {"versions": {"ray": ray, "vllm": vllm, "python": "3.11", "cuda": "12.8"}}


def adapted(**fields: Any) -> Config:
    """A model of experts with adapters, its experts spread over four GPUs."""
    lora = {"max_model_len": 8192, "enable_lora": True, "max_lora_rank": 32}
    return one(MOE, parallel={"tensor": 4, "expert": True}, engine_args={**lora, **fields})


def pictures(limit: Any) -> Config:
    return args("Qwen/Qwen3-VL-8B-Instruct", limit_mm_per_prompt={"image": limit})


def embedded(**fields: Any) -> Config:
    batch = {"max_model_len": 8192, "max_num_batched_tokens": 2048}
    return one("Qwen/Qwen3-Embedding-0.6B", engine_args={**batch, **fields})


DSPARK = {"method": "dspark", "model": "company/qwen3-32b-dspark", "num_speculative_tokens": 4}
OFFLOADS = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"cpu_bytes_to_use": 8 * GIB}}  # fmt: skip
RERANKER = "Qwen/Qwen3-Reranker-8B"
SCORES = {"architectures": ["Qwen3ForSequenceClassification"], "classifier_from_token": ["no", "yes"], "is_original_qwen3_reranker": True}  # fmt: skip
HERMES = {"tool_call_parser": "hermes", "enable_auto_tool_choice": True}
OPENAI = {"tool_call_parser": "openai", "enable_auto_tool_choice": True}
Q8 = "Qwen/Qwen3-8B"
REPORTS = (
    Report("vllm-project/vllm#49355", "speculative-decoding", (H200, stages(V3, speculative_config=MTP)), (H200, stages(V3))),
    Report("vllm-project/vllm PR#19482", "speculative-decoding", (H8, guess("Qwen/Qwen3-32B", 2, method="ngram", prompt_lookup_max=4), args("Qwen/Qwen3-32B", 2, speculative_config=LOOKUP, logits_processors=OWN)), (H8, args("Qwen/Qwen3-32B", 2, logits_processors=OWN))),
    Report("intel/intel-xpu-backend-for-triton#7322", "engine-model-runner", (H8, SECOND, args("Qwen/Qwen3-32B", 2, speculative_config=LOOKUP)), (H8, args("Qwen/Qwen3-32B", 2, speculative_config=LOOKUP))),
    Report("processors in the second model runner", "engine-model-runner", (H8, SECOND, args("Qwen/Qwen3-32B", 2, logits_processors=OWN)), (H8, SECOND, args("Qwen/Qwen3-32B", 2))),
    Report("sharded sampling in the first", "engine-model-runner", (H8, FIRST, args("Qwen/Qwen3-32B", 2, enable_batch_sharded_sampling=True)), (H8, FIRST, args("Qwen/Qwen3-32B", 2))),
    Report("vllm-project/vllm PR#40867", "model-adapters", (H8, adapted(fully_sharded_loras=True)), (H8, adapted())),
    Report("vllm-project/vllm#52435", "parallel-tensor", (H200, one(V3, parallel={"tensor": 3, "expert": True})), (H200, one(V3, parallel={"tensor": 8, "expert": True}))),
    Report("vllm-project/vllm PR#39046", "parallel-tensor", (H8, args("MiniMaxAI/MiniMax-M2.5", 8, moe_backend="deep_gemm")), (H8, args("MiniMaxAI/MiniMax-M2.5", 8))),
    Report("experts in FP8 on GPUs without", "parallel-tensor", (A8, args("MiniMaxAI/MiniMax-M2.5", 8)), (A8, one("MiniMaxAI/MiniMax-M2.5", parallel={"tensor": 8, "expert": True}))),
    Report("vllm-project/vllm#55152", "model-tools", (L40S, args(Q8, structured_outputs_config={"backend": "guidance"}, **HERMES)), (L40S, args(Q8, structured_outputs_config={"backend": "xgrammar"}, **HERMES)), "warning"),
    Report("vllm-project/recipes#51", "model-tools", (versions("2.49.0", "0.10.1"), H8, args("openai/gpt-oss-120b", 2, **OPENAI)), (H8, args("openai/gpt-oss-120b", 2, **OPENAI))),
    Report("a parser of another family's calls", "model-tools", (L40S, args(Q8, tool_call_parser="kimi_k2", enable_auto_tool_choice=True)), (L40S, args(Q8, **HERMES)), "warning"),
    Report("vllm-project/recipes#515", "model-reasoning", (H8, TOKEN, args("google/gemma-3-12b-it", 2, reasoning_parser="gemma4")), (H8, TOKEN, args("google/gemma-4-31B-it", 2, reasoning_parser="gemma4")), "warning"),
    Report("intel/llm-scaler#361", "model-runner", (L40S, args(RERANKER, runner="pooling")), (L40S, args(RERANKER, runner="pooling", hf_overrides=SCORES)), "warning"),
    Report("vllm-project/vllm#50851", "speculative-decoding", (H8, stages("Qwen/Qwen3-32B", speculative_config=DSPARK)), (H8, stages("Qwen/Qwen3-32B"))),
    Report("vllm-project/vllm#20609", "disaggregation-connector", (L40S, cached("MultiConnector")), (L40S, cached("MultiConnector", connectors=[OFFLOADS]))),
    Report("parts of a connector have roles", "disaggregation-connector", (L40S, cached("MultiConnector", connectors=[{**OFFLOADS, "kv_role": None}])), (L40S, cached("MultiConnector", connectors=[OFFLOADS]))),
    Report("LMCache/LMCache#1901", "cache-offload", (L40S, cached("LMCacheConnectorV1", env={"LMCACHE_LOCAL_CPU": "False", "LMCACHE_MAX_LOCAL_CPU_SIZE": "0"})), (L40S, lmcache("5", 1))),
    Report("torch-spyre/sendnn-inference#851", "engine-argument-values", (L4, one("BAAI/bge-reranker-v2-m3", engine_args={"max_num_batched_tokens": 1024})), (L4, one("BAAI/bge-reranker-v2-m3", engine_args={"max_model_len": 1024, "max_num_batched_tokens": 1024}))),
    Report("pooling over the whole text", "engine-argument-values", (L4, embedded(pooler_config={"pooling_type": "MEAN"})), (L4, embedded(pooler_config={"pooling_type": "LAST"}))),
    Report("a limit of pictures in words", "engine-argument-kinds", (L40S, pictures("two")), (L40S, pictures(2))),
    Report("a limit of pictures below none", "engine-argument-kinds", (L40S, pictures({"count": -1})), (L40S, pictures({"count": 2, "width": 512}))),
    Report("ray-project/ray#52975", "version-ray-vllm", (versions("2.46.0", "0.9.0"), L40S, args(Q8)), (L40S, args(Q8))),
)  # fmt: skip


@each(REPORTS)
def test_what_was_reported_is_said_and_its_mended_twin_passes(report: Report) -> None:
    report.holds()


@each(
    Report(source, "fine", (), patches)
    for source, patches in (
        # a draft class of Qwen3.5 that is cut by stages
        ("vllm-project/vllm#52069", (H8, one(HYBRID, parallel={"tensor": 2, "pipeline": 2}, engine_args={"max_model_len": 8192, "max_num_seqs": 64, "speculative_config": MTP}))),
        ("vllm-project/vllm#42005", (H8, TOKEN, guess("google/gemma-4-31B-it", 2, model="google/gemma-4-31B-it-assistant"))),
        ("vllm-project/vllm#19775", (H8, TOKEN, guess(L70, 4, model="meta-llama/Llama-3.2-1B-Instruct"))),
        ("vllm-project/vllm#22422", (gpus("A10G"), args("openai/gpt-oss-20b"))),
        ("vllm-project/vllm#15604", (H8, one("deepseek-ai/DeepSeek-V2-Lite-Chat", parallel={"tensor": 8, "expert": True}))),
        ("vllm-project/vllm#39976", (L40S, args(Q8, max_num_batched_tokens=8192))),
        ("vllm-project/vllm#10718", (L4, one("BAAI/bge-m3", engine_args={"max_model_len": 8192}))),
    )
)  # fmt: skip
def test_what_was_a_bug_of_older_versions_passes(report: Report) -> None:
    assert {rule for rule, severity in report.said(report.mended) if severity == "error"} == set()


KNOWN = stated.parse({
    "versions": {"vllm": "0.29.0"},
    "pools": {"h100": {"gpu": "H100", "gpus_per_node": 8, "cpu": 190, "memory_gib": 1900, "max": 4, "driver_version": "580.95.05"}},
})  # fmt: skip


def ranked(*words: str, gpus: int = 4, shm: str = "8Gi", model: str = MOE) -> tuple[Doc, ...]:
    """A Deployment of one pod with this command line."""
    made = started(model, "--max-model-len", "8192", *words)
    made["spec"]["replicas"] = 1
    pod = made["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"llm-serving/pool": "h100"}
    pod["volumes"][0]["emptyDir"]["sizeLimit"] = shm
    amounts = {"nvidia.com/gpu": gpus, "cpu": 16, "memory": "128Gi"}
    pod["containers"][0]["resources"] = {"limits": amounts, "requests": dict(amounts)}
    return (made,)


def of_module(*words: str) -> tuple[Doc, ...]:
    """As the image before `vllm serve` was started."""
    (made,) = ranked(gpus=1)
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    container["args"] = [*words, "--max-model-len", "8192"]
    return (made,)


def spread(leader: tuple[str, ...], worker: tuple[str, ...]) -> tuple[Doc, ...]:
    """A LeaderWorkerSet of two pods of eight that share the ranks of one vLLM."""
    joined = (
        "--tensor-parallel-size",
        "4",
        "--data-parallel-size",
        "4",
        "--data-parallel-address",
        "$(LWS_LEADER_ADDRESS)",
    )
    first, second = (ranked(*RANKS[:1], *joined, *words, gpus=8)[0]["spec"]["template"] for words in (leader, worker))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        second["spec"]["containers"][0].pop(probe, None)
    pods = {"size": 2, "leaderTemplate": first, "workerTemplate": second}
    spec = {"replicas": 1, "leaderWorkerTemplate": pods}
    return (
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "chat"},
            "spec": spec,
        },
    )


def disk(size: str) -> tuple[Doc, ...]:
    """LMCache with so much (GB) on a volume of 100 GiB."""
    transfer = '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}'
    (made,) = ranked("--kv-transfer-config", transfer, gpus=1, model=Q8)
    pod = made["spec"]["template"]["spec"]
    container = pod["containers"][0]
    pod["volumes"].append({"name": "spill", "emptyDir": {"sizeLimit": "100Gi"}})
    container["volumeMounts"].append({"name": "spill", "mountPath": "/spill"})
    stated = {"LMCACHE_LOCAL_DISK": "file:///spill/kv", "LMCACHE_MAX_LOCAL_DISK_SIZE": size}
    container["env"] = [*container.get("env", []), *({"name": name, "value": value} for name, value in stated.items())]
    return (made,)


def probed(volume: Doc | None = None, **probes: Doc) -> tuple[Doc, ...]:
    """70 billion parameters on eight GPUs with these probes and no other."""
    (made,) = ranked("--tensor-parallel-size", "8", gpus=8, model=L70)
    pod = made["spec"]["template"]["spec"]
    container = pod["containers"][0]
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        container.pop(name, None)
    container.update(
        {f"{name}Probe": {"httpGet": {"path": "/health", "port": 8000}, **probe} for name, probe in probes.items()}
    )
    pod["volumes"] += [{"name": "hub", **volume}] if volume else []
    return (made,)


READY = {"timeoutSeconds": 5}
LATE = {"initialDelaySeconds": 120, "timeoutSeconds": 5}
HOUR = {"failureThreshold": 360}
CLAIM = {"persistentVolumeClaim": {"claimName": "hub"}}
LOCAL = ("--data-parallel-size-local", "2")
HEAD = (*LOCAL, "--data-parallel-start-rank", "0")
NEXT = (*LOCAL, "--data-parallel-start-rank", "2")
RANKS = ("--enable-expert-parallel", "--data-parallel-size")
PAIRS = (
    Pair("vllm-project/vllm PR#49124 two ways to spread", "engine-argument-needs", ranked(*RANKS, "4", "--data-parallel-size-local", "2", "--data-parallel-hybrid-lb", "--data-parallel-external-lb"), ranked(*RANKS, "4")),
    Pair("vllm-project/vllm PR#49124 nodes and Ray", "engine-argument-needs", ranked("--tensor-parallel-size", "8", "--nnodes", "2", "--node-rank", "0", "--data-parallel-backend", "ray"), ranked("--tensor-parallel-size", "8", "--nnodes", "2", "--node-rank", "0")),
    Pair("a node beyond the last", "engine-argument-needs", ranked("--tensor-parallel-size", "8", "--nnodes", "2", "--node-rank", "2"), ranked("--tensor-parallel-size", "8", "--nnodes", "2", "--node-rank", "1")),
    Pair("vllm-project/vllm PR#53743", "engine-argument-needs", ranked("--data-parallel-size", "4", "--data-parallel-rank", "0", gpus=1, model="Qwen/Qwen3-8B"), ranked(*RANKS, "4", "--data-parallel-rank", "0", gpus=1)),
    Pair("a rank beyond the last", "engine-argument-needs", ranked(*RANKS, "4", "--data-parallel-rank", "4", gpus=1), ranked(*RANKS, "4", "--data-parallel-rank", "3", gpus=1)),
    Pair("vllm-project/vllm#18567", "topology-one-pod", ranked(*RANKS, "4", "--tensor-parallel-size", "2"), ranked(*RANKS, "4", "--tensor-parallel-size", "2", gpus=8)),
    Pair("ranks of one node of two", "topology-one-pod", ranked(*RANKS, "16", "--data-parallel-size-local", "8"), ranked(*RANKS, "16", "--data-parallel-size-local", "8", gpus=8)),
    Pair("kserve/kserve#5062", "probe-kills-loading", probed(liveness=LATE, readiness=READY), probed(liveness=READY, readiness=READY, startup=HOUR), "warning"),
    Pair("weights that are there already", "probe-kills-loading", probed(liveness=LATE, readiness=READY), probed(CLAIM, liveness=LATE, readiness=READY), "warning"),
    Pair("vllm-project/aibrix#1054", "probe-kills-loading", probed(startup={"failureThreshold": 6}), probed(startup=HOUR), "warning"),
    Pair("vllm-project/aibrix PR#2264", "probe-none", probed(), probed(readiness=READY), "warning"),
    Pair("llmos-ai/llmos#40", "topology-one-pod", ranked(gpus=2, model=Q8), ranked("--tensor-parallel-size", "2", gpus=2, model=Q8), "warning"),
    Pair("vllm-project/vllm#27389", "engine-words", of_module(Q8), of_module("--model", Q8)),
    Pair("llm-d/llm-d#352", "network-shared-memory", ranked(*RANKS, "8", gpus=8, shm="64Mi"), ranked(*RANKS, "8", gpus=8)),
    Pair("gpustack/gpustack#6221", "engine-headless", spread(HEAD, (*NEXT, "--headless")), spread(LOCAL, (*NEXT, "--headless"))),
    Pair("the second pod serves too", "engine-headless", spread(LOCAL, NEXT), spread((*LOCAL, "--data-parallel-hybrid-lb"), NEXT)),
    Pair("headless without a head", "engine-headless", ranked("--headless", gpus=1, model=Q8), ranked(gpus=1, model=Q8)),
    Pair("headless with servers", "engine-headless", ranked(*RANKS, "16", *NEXT, "--headless", "--api-server-count", "2"), ranked(*RANKS, "16", *NEXT, "--headless")),
    Pair("LMCache/LMCache#1399", "cache-offload", disk("640"), disk("60"), "warning"),
    Pair("gpustack/gpustack#5438", "model-adapters", ranked("--lora-modules", "sql=org/sql-adapter"), ranked("--enable-lora", "--max-lora-rank", "64", "--lora-modules", "sql=org/sql-adapter")),
)  # fmt: skip


def said(docs: tuple[Doc, ...]) -> set[tuple[str, str]]:
    return {(found.rule, found.severity) for found in check(reading(manifests(list(docs), "x"), KNOWN).stack, {})}


@pytest.mark.parametrize("pair", [pytest.param(p, id=f"{p.source} {p.rule}") for p in PAIRS])
def test_ranks_of_plain_vllm(pair: Pair) -> None:
    assert (pair.rule, pair.severity) in said(pair.broken)
    mended = said(pair.mended)
    assert {rule for rule, severity in mended if severity == "error"} == set()
    assert pair.rule not in {rule for rule, _ in mended}
