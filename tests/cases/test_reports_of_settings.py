"""Public reports about what engines hear, keep and wait for: speech, caches of several kinds, lengths, jobs; each with its mended twin."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from policies import stated
from policies.facts.stack import reading
from policies.facts.wire import manifests
from policies.rules import check

from .report import Report, each
from .small import Config, chat
from .test_a_to_b import gpus, one
from .test_reports_of_answers import versions
from .test_reports_of_engines import H8, H200, HYBRID, SUPER, TOKEN, args
from .test_reports_of_manifests import Doc, Pair, started

L4, L40S = gpus("L4"), gpus("L40S")
Q8, G27, WHISPER = "Qwen/Qwen3-8B", "google/gemma-3-27b-it", "openai/whisper-large-v3"
EAGLE = {"method": "eagle3", "model": "AngelSlim/Qwen3-32B_eagle3", "num_speculative_tokens": 3, "disable_padded_drafter_batch": True}  # fmt: skip
SEGMENTS = "expandable_segments:True"
YARN = {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1000000}}  # fmt: skip


def speech(**engine_args: Any) -> Config:
    return one(WHISPER, engine_args={"max_model_len": 448, **engine_args})


def sleeps(name: str) -> Config:
    return one(Q8, env={name: SEGMENTS}, engine_args={"max_model_len": 4096, "enable_sleep_mode": True})


def long(length: int, env: dict[str, str] | None = None, **engine_args: Any) -> Config:
    return one(Q8, env=env or {}, engine_args={"max_model_len": length, **engine_args})


def on_cpus(cache: int) -> Config:
    fields = {"device": "cpu", "kv_cache_gib": cache, "cpu_per_worker": 4}
    return one("Qwen/Qwen3-0.6B", **fields, engine_args={"max_model_len": 40960, "max_num_seqs": 16})


def batch(name: str, **app_args: str) -> Config:
    """The job's own model instead of a service's."""
    job = {"kind": "ray_job", "app": "batch", "auth": None, "fault_tolerance": None}
    return {
        "services": {
            "chat": {
                **job,
                "app_args": {"input": "s3://data/in.jsonl", "output": "s3://data/out", **app_args},
                "models": {"qwen": {"model": name, "replicas": {"min": 1, "max": 2}}},
            }
        }
    }


def lmcache(name: str = Q8, **engine_args: Any) -> Config:
    carried = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
    return args(name, max_num_seqs=4, kv_transfer_config=carried, **engine_args)


REPORTS = (
    Report("RBLN-SW/vllm-rbln PR#527", "model-encoder-decoder", (L4, speech(max_num_batched_tokens=448)), (L4, speech(max_num_batched_tokens=1500))),
    Report("few requests of few tokens are less than a window", "model-encoder-decoder", (L4, speech(max_num_seqs=2)), (L4, speech(max_num_seqs=16))),
    Report("vllm-project/vllm#17797", "fit-context-length", (L4, speech(max_model_len=4096)), (L4, speech(max_model_len=448))),
    Report("vllm-project/vllm PR#44286", "fit-context-length", (H8, long(131072, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})), (H8, long(131072, hf_overrides=YARN)), "warning"),
    Report("NovaSky-AI/SkyRL PR#561", "fit-context-length", (H8, long(262144, hf_overrides=YARN)), (H8, long(131072, hf_overrides=YARN))),
    Report("decoderesearch/interp-engine PR#2", "model-images", (H8, TOKEN, args("google/gemma-4-31B-it", 2, max_num_batched_tokens=512)), (H8, TOKEN, args("google/gemma-4-31B-it", 2, max_num_batched_tokens=512, limit_mm_per_prompt={"video": 0}))),
    Report("a video of few frames", "model-images", (H8, TOKEN, args("google/gemma-4-31B-it", 2, max_num_batched_tokens=2048)), (H8, TOKEN, args("google/gemma-4-31B-it", 2, max_num_batched_tokens=2048, limit_mm_per_prompt={"video": {"count": 1, "num_frames": 16}}))),
    Report("zai-org/GLM-V#15", "model-text-only", (L40S, args(Q8, limit_mm_per_prompt={"image": 32})), (L40S, args("Qwen/Qwen3-VL-8B-Instruct", limit_mm_per_prompt={"image": 4})), "warning"),
    Report("none of a kind that is not read", "model-text-only", (L40S, args(Q8, limit_mm_per_prompt={"video": {"count": 1}})), (L40S, args(Q8, limit_mm_per_prompt={"video": 0})), "warning"),
    Report("vllm-project/vllm PR#40812", "engine-sleep-mode", (versions("2.51.0", "0.11.0"), L40S, sleeps("PYTORCH_CUDA_ALLOC_CONF")), (L40S, sleeps("PYTORCH_CUDA_ALLOC_CONF"))),
    Report("huggingface/trl PR#5794", "engine-sleep-mode", (L40S, sleeps("PYTORCH_ALLOC_CONF")), (L40S, sleeps("PYTORCH_CUDA_ALLOC_CONF")), "warning"),
    Report("vllm-project/vllm#55048", "kv-cache-dtype", (L4, one("BAAI/bge-m3", engine_args={"max_model_len": 8192, "kv_cache_dtype": "fp8"})), (L4, one("Qwen/Qwen3-Embedding-0.6B", engine_args={"max_model_len": 8192, "kv_cache_dtype": "fp8"}))),
    Report("vllm-project/vllm#41830", "fit-memory", (H8, TOKEN, args(G27, max_model_len=65536, max_num_seqs=4, disable_hybrid_kv_cache_manager=True)), (H8, TOKEN, args(G27, max_model_len=65536, max_num_seqs=4))),
    Report("a connector that carries one kind of cache", "fit-memory", (H8, TOKEN, lmcache(G27, max_model_len=65536)), (H8, TOKEN, lmcache(G27, max_model_len=16384))),
    Report("the hybrid cache asked for", "disaggregation-connector", (L40S, lmcache(disable_hybrid_kv_cache_manager=False)), (L40S, lmcache())),
    Report("vllm-project/vllm#48401", "hybrid-blocks", (H200, args(SUPER, 2, max_model_len=2048, max_num_seqs=64, enable_prefix_caching=True)), (H200, args(SUPER, 2, max_model_len=32768, max_num_seqs=64, enable_prefix_caching=True)), "warning"),
    Report("vllm-project/vllm PR#31998", "speculative-decoding", (H8, args("Qwen/Qwen3-32B", 2, async_scheduling=True, speculative_config=EAGLE)), (H8, args("Qwen/Qwen3-32B", 2, speculative_config=EAGLE))),
    Report("vllm-project/vllm#32807", "engine-argument-values", (L40S, args(Q8, load_format="tensorizer")), (L40S, args(Q8, load_format="tensorizer", model_loader_extra_config={"tensorizer_uri": "s3://weights/qwen3-8b/model.tensors"}))),
    Report("weights saved by rank", "engine-argument-values", (H8, args("Qwen/Qwen3-32B", 2, load_format="sharded_state")), (H8, args("Qwen/Qwen3-32B", 2))),
    Report("vllm-project/vllm#29233", "fit-cpu-memory", (on_cpus(4), chat(pool="core")), (on_cpus(8), chat(pool="core"))),
    Report("ray-project/ray#55384", "ray-job-task", (L40S, batch("Qwen/Qwen3-Embedding-0.6B")), (L40S, batch("Qwen/Qwen3-Embedding-0.6B", task="embed")), "warning"),
    Report("an encoder in a job that writes", "ray-job-task", (L40S, batch("BAAI/bge-m3")), (L40S, batch("BAAI/bge-m3", task="embed"))),
)  # fmt: skip


@each(REPORTS)
def test_what_was_reported_is_said_and_its_mended_twin_passes(report: Report) -> None:
    report.holds()


@each(
    Report(source, "fine", (), patches)
    for source, patches in (
        # blocks longer than a step's tokens: vLLM 0.29 goes on inside the block
        ("vllm-project/vllm PR#36734", (H8, args(HYBRID, 2, max_num_seqs=32, enable_prefix_caching=True, max_num_batched_tokens=1024))),
        ("speech as it comes", (L4, speech())),
        ("a video in default steps", (H8, TOKEN, args("google/gemma-4-31B-it", 2))),
    )
)  # fmt: skip
def test_what_was_a_bug_of_older_versions_passes(report: Report) -> None:
    assert {rule for rule, severity in report.said(report.mended) if severity == "error"} == set()


KNOWN = stated.parse({
    "versions": {"vllm": "0.29.0"},
    "pools": {"h100": {"gpu": "H100", "gpus_per_node": 8, "cpu": 190, "memory_gib": 1900, "max": 4, "driver_version": "580.95.05"}},
})  # fmt: skip
INFERENCE: Doc = yaml.safe_load("""
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: qwen, namespace: llm}
spec:
  model: {uri: "hf://Qwen/Qwen3-8B", name: Qwen/Qwen3-8B}
  replicas: 1
  template: {containers: []}
  prefill: {replicas: 1, template: {containers: []}}
  router: {gateway: {}, route: {}, scheduler: {}}
""")
SCALER: Doc = yaml.safe_load("""
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: chat, namespace: llm}
spec:
  minReplicaCount: 1
  maxReplicaCount: 4
  triggers:
  - type: prometheus
    metadata: {serverAddress: "http://prometheus.monitoring:9090", query: "sum(vllm:num_requests_waiting)", threshold: "5"}
""")
HPA: Doc = yaml.safe_load("""
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: llm}
spec:
  minReplicas: 1
  maxReplicas: 4
  metrics: [{type: Pods, pods: {metric: {name: vllm_num_requests_waiting}, target: {type: AverageValue, averageValue: "5"}}}]
""")
NIXL = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'


def both(*words: str) -> tuple[Doc, ...]:
    """Prefill and decode of an LLMInferenceService with these arguments."""
    amounts = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}
    address = {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container = {
        "name": "main",
        "image": "vllm/vllm-openai:v0.29.0",
        "args": ["--max-model-len", "8192", *words],
        "env": [address],
        "resources": {"limits": amounts, "requests": amounts},
    }
    made = copy.deepcopy(INFERENCE)
    made["spec"]["template"]["containers"] = [container]
    made["spec"]["prefill"]["template"]["containers"] = [copy.deepcopy(container)]
    return (made,)


def scales(base: Doc, **target: str) -> tuple[Doc, ...]:
    made = copy.deepcopy(base)
    made["spec"]["scaleTargetRef"] = {"name": "chat", **target}
    return (made,)


def joined(model: str, *server: str, **extra: Any) -> tuple[Doc, ...]:
    """vLLM on two GPUs with LMCache's server in its pod."""
    config = {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}
    made = started(
        model, "--tensor-parallel-size", "2", "--max-model-len", "8192", "--kv-transfer-config", json.dumps(config)
    )  # fmt: skip
    pod = made["spec"]["template"]["spec"]
    pod["nodeSelector"] = {"llm-serving/pool": "h100"}
    amounts = {"nvidia.com/gpu": 2, "cpu": 16, "memory": "128Gi"}
    pod["containers"][0]["resources"] = {"limits": amounts, "requests": dict(amounts)}
    small = {"cpu": "4", "memory": "32Gi"}
    args = ["--l1-size-gb", "20", "--port", "5555", *server]
    pod["containers"].append(
        {
            "name": "lmcache",
            "image": "lmcache/standalone:v0.5.1",
            "command": ["lmcache", "server"],
            "args": args,
            "resources": {"limits": small, "requests": small},
        }
    )
    return (made,)


def bound(cores: str, limit: int = 8) -> tuple[Doc, ...]:
    """A CPU engine whose threads have these cores."""
    amounts = {"cpu": limit, "memory": "64Gi"}
    made = started(
        Q8,
        "--max-model-len",
        "8192",
        image="vllm/vllm-openai-cpu:v0.29.0",
        resources={"limits": amounts, "requests": amounts},
        env=[
            {"name": "VLLM_CPU_KVCACHE_SPACE", "value": "20"},
            {"name": "VLLM_CPU_OMP_THREADS_BIND", "value": cores},
        ],
    )
    made["spec"]["template"]["spec"].pop("nodeSelector")
    return (made,)


def limited(cores: float, *parallel: str) -> tuple[Doc, ...]:
    """An engine on GPUs whose container may use so many cores."""
    gpus = parallel[1] if parallel else "1"
    amounts = {"cpu": cores, "memory": "64Gi", "nvidia.com/gpu": gpus}
    return (started(Q8, "--max-model-len", "8192", *parallel, resources={"limits": amounts, "requests": amounts}),)


def heard(image: str) -> tuple[Doc, ...]:
    return (started(WHISPER, image=image, pod={"nodeSelector": {"llm-serving/pool": "h100"}}),)


MP = {"lmcache.mp.port": 5555}
PAIRS = (
    Pair("kserve/kserve#5987", "disaggregation-pair", both(), both("--kv-transfer-config", NIXL), "warning"),
    Pair("llm-d/llm-d-autoscaling PR#1517", "scaler-target", scales(SCALER, kind="LeaderWorkerSet", apiVersion="leaderworkerset.x-k8s.io/v1alpha1"), scales(SCALER, kind="LeaderWorkerSet", apiVersion="leaderworkerset.x-k8s.io/v1")),
    Pair("KEDA takes apps/v1 where nothing is said", "scaler-target", scales(SCALER, kind="LeaderWorkerSet"), scales(SCALER)),
    Pair("an HPA looks nowhere but where it is told", "scaler-target", scales(HPA, kind="Deployment"), scales(HPA, kind="Deployment", apiVersion="apps/v1")),
    Pair("LMCache/LMCache#4782", "hybrid-blocks", joined(HYBRID, **MP), joined(HYBRID, "--chunk-size", "784", **MP), "warning"),
    Pair("short blocks divide every chunk", "hybrid-blocks", joined(HYBRID, "--chunk-size=1024", **MP), joined("Qwen/Qwen3-32B", **MP), "warning"),
    Pair("LMCache/LMCache#4267", "disaggregation-connector", joined("Qwen/Qwen3-32B", lmcache_mp_server_url="tcp://localhost:5555"), joined("Qwen/Qwen3-32B", **MP), "warning"),
    Pair("vllm-project/vllm PR#17930", "cpu-threads", bound("0-31"), bound("nobind"), "warning"),
    Pair("as many cores as the limit", "cpu-threads", bound("0-3,8-12"), bound("0-3,8-11"), "warning"),
    Pair("lists for two workers", "cpu-threads", bound("0-3|4-7"), bound("0-7")),
    Pair("vllm-project/vllm#52916", "engine-cores", limited(4, "--tensor-parallel-size", "4"), limited(5, "--tensor-parallel-size", "4"), "warning"),
    Pair("less than the engine core", "engine-cores", limited(0.5), limited(1), "warning"),
    Pair("vllm-project/vllm#13675", "model-sound", heard("vllm/vllm-openai:v0.29.0"), heard("registry.internal/vllm-openai-audio:v0.29.0"), "warning"),
    Pair("a word that is none", "cpu-threads", bound("all"), bound("auto")),
)  # fmt: skip


def said(docs: tuple[Doc, ...]) -> Iterator[tuple[str, str]]:
    found = check(reading(manifests(list(docs), "x"), KNOWN).stack, {})
    return ((each.rule, each.severity) for each in found)


@pytest.mark.parametrize("pair", [pytest.param(p, id=f"{p.source} {p.rule}") for p in PAIRS])
def test_what_was_reported_of_manifests_is_said_and_its_mended_twin_passes(pair: Pair) -> None:
    assert (pair.rule, pair.severity) in set(said(pair.broken))
    mended = set(said(pair.mended))
    assert {rule for rule, severity in mended if severity == "error"} == set()
    assert pair.rule not in {rule for rule, _ in mended}
