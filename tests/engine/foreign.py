"""What other people declare, by hand: a Serve config and command lines of `vllm serve`, each with one thing wrong in turn."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from policies import stated
from policies.facts.stack import reading
from policies.facts.wire import manifests
from policies.finding import Finding
from policies.rules import check
from tests.cases.test_reports_of_ray_objects import cluster, service

Path = tuple[str | int, ...]

KNOWN = stated.parse(
    {
        "versions": {"vllm": "0.29.0", "ray": "2.60.0", "kuberay": "1.7.0"},
        "pools": {
            "l4": {"gpu": "L4", "gpus_per_node": 1, "cpu": 15, "memory_gib": 58, "max": 4},
            "h100": {"gpu": "H100", "gpus_per_node": 8, "cpu": 190, "memory_gib": 1900, "max": 20},
            "core": {"cpu": 16, "memory_gib": 60, "max": 4},
        },
    }
)

SERVE_CONFIG: dict[str, Any] = {
    "proxy_location": "EveryNode",
    "http_options": {"host": "0.0.0.0", "port": 8000, "request_timeout_s": 600, "keep_alive_timeout_s": 90, "root_path": ""},
    "grpc_options": {"port": 9000},
    "logging_config": {"encoding": "JSON", "log_level": "INFO"},
    "applications": [
        {
            "name": "llm",
            "route_prefix": "/",
            "import_path": "ray.serve.llm:build_openai_app",
            "runtime_env": {"env_vars": {"A": "b"}},
            "logging_config": {"enable_access_log": False},
            "args": {
                "llm_configs": [
                    {
                        "model_loading_config": {"model_id": "qwen", "model_source": "Qwen/Qwen2.5-7B-Instruct"},
                        "accelerator_type": "L4",
                        "engine_kwargs": {"tensor_parallel_size": 1, "max_model_len": 8192},
                        "deployment_config": {
                            "autoscaling_config": {
                                "min_replicas": 1,
                                "max_replicas": 2,
                                "target_ongoing_requests": 32,
                                "upscale_delay_s": 30,
                                "downscale_delay_s": 600,
                            },
                            "max_ongoing_requests": 64,
                            "graceful_shutdown_timeout_s": 120,
                            "health_check_period_s": 10,
                            "health_check_timeout_s": 30,
                        },
                        "runtime_env": {"env_vars": {"VLLM_USE_V1": "1"}},
                        "placement_group_config": {"bundles": [{"CPU": 1, "GPU": 1}], "strategy": "PACK"},
                        "log_engine_metrics": True,
                        "experimental_configs": {"stream_batching_interval_ms": 50},
                    }
                ],
                "ingress_deployment_config": {
                    "num_replicas": 1,
                    "max_ongoing_requests": 200,
                    "ray_actor_options": {"num_cpus": 1},
                    "logging_config": {"encoding": "TEXT"},
                },
            },
            "deployments": [
                {
                    "name": "LLMServer:qwen",
                    "max_ongoing_requests": 100,
                    "max_queued_requests": -1,
                    "health_check_period_s": 5,
                    "autoscaling_config": {"min_replicas": 1, "max_replicas": 3},
                    "ray_actor_options": {"num_cpus": 1},
                    "logging_config": {"log_level": "DEBUG"},
                    "user_config": {"a": 1},
                    "graceful_shutdown_wait_loop_s": 2,
                }
            ],
        }
    ],
}  # fmt: skip
"""A Serve config with most of what people write in one; Ray takes it and no rule has an error."""
_ODD: tuple[Any, ...] = (None, 0, -1, 1.5, 1e9, True, "", "x", "1", [], ["a"], {}, {"a": 1})

COMMAND_LINES = tuple(
    map(
        shlex.split,
        (
            "Qwen/Qwen2.5-7B-Instruct --max-model-len 8192 --gpu-memory-utilization 0.9",
            "Qwen/Qwen3-32B --tensor-parallel-size 2 --reasoning-parser qwen3 --enable-auto-tool-choice --tool-call-parser hermes",
            "meta-llama/Llama-3.1-8B-Instruct --served-model-name llama --enable-prefix-caching --max-num-seqs 128 --kv-cache-dtype fp8",
            "Qwen/Qwen2.5-7B-Instruct --quantization fp8 --dtype bfloat16 --max-num-batched-tokens 16384",
            "Qwen/Qwen2.5-7B-Instruct --enable-lora --max-loras 4 --max-lora-rank 32 --lora-modules sql=/adapters/sql",
            'Qwen/Qwen2.5-7B-Instruct --speculative-config \'{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}\'',
            "Qwen/Qwen2.5-VL-7B-Instruct --limit-mm-per-prompt '{\"image\": 2}' --trust-remote-code --seed 0 --disable-log-stats",
            "Qwen/Qwen3-Embedding-0.6B --runner pooling --port 8000 --host 0.0.0.0 --uvicorn-log-level warning --enforce-eager",
        ),
    )
)
"""Command lines after `vllm serve`, each of another kind of use."""
_WORDS = (
    "0",
    "-1",
    "1.5",
    "1e3",
    "8k",
    "4096.0",
    "true",
    "TRUE",
    "None",
    "null",
    "auto",
    "foo",
    "a b",
    "",
    "[1]",
    "{}",
)
_STRAY = ("--foo", "extra", "--max-len", "--tensor", "-tp2", "--swap-space", "--enable-prefix-cache", "--no-max-model-len", "--disable-log-requests", "--task")  # fmt: skip


def serve_configs() -> Iterator[tuple[str, dict[str, Any]]]:
    """(what is wrong, the config): each part gone, misspelt, beside a key that nobody knows, or with an odd value."""
    for path in _paths(SERVE_CONFIG):
        place = ".".join(map(str, path))
        for how, change in _changes(path[-1]):
            config = copy.deepcopy(SERVE_CONFIG)
            parent: Any = config
            for key in path[:-1]:
                parent = parent[key]
            if change(parent):
                yield f"{place} {how}", config


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))


def _changes(key: str | int) -> Iterator[tuple[str, Any]]:
    def gone(parent: Any) -> bool:
        del parent[key]
        return True

    def misspelt(parent: Any) -> bool:
        if isinstance(key, str):
            parent[f"{key[:2]}{key[3:]}"] = parent.pop(key)
        return isinstance(key, str)

    def beside(parent: Any) -> bool:
        if isinstance(parent[key], dict):
            parent[key]["extra_key"] = 1
        return isinstance(parent[key], dict)

    yield "left out", gone
    yield "misspelt", misspelt
    yield "with an extra key", beside
    for value in _ODD:

        def odd(parent: Any, value: Any = value) -> bool:
            parent[key] = copy.deepcopy(value)
            return True

        yield f"= {value!r}", odd


def command_lines() -> Iterator[list[str]]:
    """Each command line with one word wrong: a flag misspelt, shortened, in capitals, without its value or with another, or one more."""
    for line in COMMAND_LINES:
        for place, word in enumerate(line):
            if not word.startswith("--"):
                continue
            before, after = line[:place], line[place + 1 :]
            valued = bool(after) and not after[0].startswith("--")
            yield [*before, word[:-2] + word[-1], *after]
            yield [*before, word[:-3], *after]
            yield [*before, word.replace("-", "_").replace("__", "--", 1), *after]
            yield [*before, word.upper(), *after]
            yield from ([*before, f"{word}={other}", *(after[1:] if valued else after)] for other in _WORDS)
            if valued:
                yield [*before, word, *after[1:]]
                yield [*before, f"{word} {after[0]}", *after[1:]]
                yield from ([*before, word, other, *after[1:]] for other in _WORDS)
        yield from ([*line, stray] for stray in _STRAY)


def of_serve_config(config: dict[str, Any]) -> list[Finding]:
    """Errors in a RayService with this Serve config."""
    made = service(ray=cluster(group={"minReplicas": 3, "replicas": 3, "maxReplicas": 3}))
    made["spec"]["serveConfigV2"] = yaml.safe_dump(config)
    return _errors(made)


def of_command_line(words: list[str]) -> list[Finding]:
    """Errors in a Deployment that runs `vllm serve` with these words."""
    deployment: Any = copy.deepcopy(_DEPLOYMENT)
    deployment["spec"]["template"]["spec"]["containers"][0]["args"] = words
    return _errors(deployment)


def _errors(manifest: dict[str, Any]) -> list[Finding]:
    found = check(reading(manifests([manifest], "foreign.yaml"), KNOWN).stack)
    return [finding for finding in found if finding.severity == "error"]


_DEPLOYMENT: dict[str, Any] = yaml.safe_load("""
apiVersion: apps/v1
kind: Deployment
metadata: {name: m, namespace: d}
spec:
  replicas: 1
  selector: {matchLabels: {app: m}}
  template:
    metadata: {labels: {app: m}}
    spec:
      nodeSelector: {llm-serving/pool: h100}
      tolerations: [{key: nvidia.com/gpu, operator: Exists}]
      enableServiceLinks: false
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.29.0
          command: [vllm, serve]
          env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}]
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /health, port: 8000}}
          startupProbe: {httpGet: {path: /health, port: 8000}, failureThreshold: 720, periodSeconds: 10}
          resources:
            requests: {cpu: "64", memory: 900Gi, nvidia.com/gpu: "2"}
            limits: {cpu: "64", memory: 900Gi, nvidia.com/gpu: "2"}
          volumeMounts: [{name: shm, mountPath: /dev/shm}]
      volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}]
""")
