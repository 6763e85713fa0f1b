"""One environment for each way a model uses GPUs and is served. Golden files, Ray's own LLMConfig and KubeRay's own CRDs all judge these."""

from __future__ import annotations

from typing import Any

_CPU = {"kind": "existing", "cpu": 7.5, "memory_gib": 28, "min": 1, "max": 6}


def _pool(gpu: str, gpus: int, cpu: float, memory: float, **more: Any) -> dict[str, Any]:
    return {
        "kind": "existing",
        "gpu": gpu,
        "gpus_per_node": gpus,
        "cpu": cpu,
        "memory_gib": memory,
        "min": 1,
        "max": 8,
        "driver_version": "580.95.05",
        **more,
    }


def _env(pools: dict[str, Any], services: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
        "image": "registry.example.com/llm-serve",
        "node_pools": {"cpu": _CPU, **pools},
        "services": services,
        # one replica and no Redis keep the shapes small; both are warned about elsewhere
        "policy": {"head-fault-tolerance": "off", "probe-single-replica": "off"},
        **more,
    }


L4 = {"l4": _pool("L4", 1, 7, 28)}
H100 = {"h100": _pool("H100", 8, 190, 1900, efa=True)}
QWEN = {"model": "Qwen/Qwen2.5-7B-Instruct", "engine_args": {"max_model_len": 8192}}
SMALL = {"model": "Qwen/Qwen2.5-1.5B-Instruct", "engine_args": {"max_model_len": 4096}}
TOKEN = {"huggingface_token": {"secret": "hf", "key": "token"}}
LLAMA_70B = {
    "model": "meta-llama/Llama-3.3-70B-Instruct",
    "parallel": {"tensor": 4},
    "engine_args": {"max_model_len": 16384},
}

SHAPES: dict[str, dict[str, Any]] = {
    "whole_gpu": _env(L4, {"chat": {"pool": "l4", "models": {"qwen": QWEN}}}),
    "shares_of_one_gpu": _env(
        L4,
        {
            "pair": {
                "pool": "l4",
                "models": {
                    "a": {**SMALL, "gpu": {"share": 0.45}},
                    "b": {**SMALL, "gpu": {"share": 0.45}, "replicas": {"min": 1, "max": 3}},
                },
            }
        },
    ),
    "tensor_parallel": _env(H100, {"big": {"pool": "h100", "models": {"llama": LLAMA_70B}, **TOKEN}}),
    "two_nodes": _env(
        H100,
        {
            "huge": {
                "pool": "h100",
                "models": {"llama": {**LLAMA_70B, "parallel": {"tensor": 8, "pipeline": 2}}},
                **TOKEN,
            }
        },
    ),
    "two_nodes_joined_by_nvlink": _env(
        {
            "cpu": {**_CPU, "architecture": "arm64"},
            "gb200": _pool("GB200", 4, 140, 850, efa=True, architecture="arm64"),
        },
        {
            "huge": {
                "pool": "gb200",
                "models": {"llama": {**LLAMA_70B, "parallel": {"tensor": 4, "pipeline": 2}}},
                **TOKEN,
            }
        },
    ),
    "autoscaled_from_zero": _env(
        L4, {"chat": {"pool": "l4", "models": {"qwen": {**QWEN, "replicas": {"min": 0, "max": 4}}}}}
    ),
    "two_pools": _env(
        {**L4, **H100},
        {
            "mixed": {
                "models": {"qwen": {**QWEN, "pool": "l4"}, "llama": {**LLAMA_70B, "pool": "h100"}},
                **TOKEN,
            }
        },
    ),
    "prefill_decode": _env(
        H100,
        {
            "apart": {
                "pool": "h100",
                "models": {"qwen": {**QWEN, "disaggregation": {"prefill_replicas": {"min": 2, "max": 2}}}},
            }
        },
    ),
    "prefix_affinity": _env(
        L4,
        {
            "chat": {
                "pool": "l4",
                "models": {
                    "qwen": {**QWEN, "replicas": {"min": 2, "max": 2}, "routing": {"policy": "prefix_affinity"}}
                },
            }
        },
    ),
    "kai_fraction": _env(
        {"l4": _pool("L4", 1, 7, 28, sharing={"strategy": "kai"})},
        {"small": {"pool": "l4", "queue": "team", "models": {"a": {**SMALL, "gpu": {"share": 0.45}}}}},
        software={"batch_scheduler": "kai"},
        queues={"root": {"gpu": {"quota": 8}}, "team": {"parent": "root", "gpu": {"quota": 4}}},
    ),
    "mig_mixed": _env(
        {
            "a100": _pool(
                "A100-80", 8, 90, 1000, sharing={"strategy": "mig", "mig_strategy": "mixed", "mig_profile": "2g.20gb"}
            )
        },
        {"small": {"pool": "a100", "models": {"qwen": {**SMALL}}}},
    ),
    "time_sliced": _env(
        {"l4": _pool("L4", 1, 7, 28, sharing={"strategy": "time_slicing", "replicas": 2})},
        {"small": {"pool": "l4", "models": {"a": {**SMALL, "gpu": {"share": 0.45}}}}},
    ),
    "volcano_gang": _env(
        L4,
        {"chat": {"pool": "l4", "queue": "team", "models": {"qwen": {**QWEN, "replicas": {"min": 2, "max": 2}}}}},
        software={"batch_scheduler": "volcano"},
        queues={
            "team": {
                "gpu": {"quota": 4, "limit": 8},
                "cpu": {"quota": 40, "limit": 80},
                "memory_gib": {"quota": 150, "limit": 300},
            }
        },
    ),
    "cpu_engine": _env(
        {},
        {
            "tiny": {
                "pool": "cpu",
                "models": {
                    "smollm": {
                        "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
                        "device": "cpu",
                        "engine_args": {"max_model_len": 1024, "dtype": "bfloat16"},
                    }
                },
                "worker": {"cpu": 4, "memory_gib": 8},
            }
        },
    ),
    "batch_job": _env(
        L4,
        {
            "batch": {
                "kind": "ray_job",
                "app": "batch",
                "app_args": {
                    "input": "s3://documents/in.jsonl",
                    "output": "s3://documents/out",
                    "prompt": "Summarise: {text}",
                },
                "pool": "l4",
                "models": {"qwen": {**QWEN, "replicas": {"min": 1, "max": 2}}},
            }
        },
    ),
    "plain_vllm": _env(L4, {"plain": {"kind": "vllm", "pool": "l4", "models": {"qwen": QWEN}}}),
    "data_parallel_experts": _env(
        H100,
        {
            "sparse": {
                "pool": "h100",
                "models": {
                    "qwen": {
                        "model": "Qwen/Qwen3-30B-A3B",
                        "parallel": {"data": 4, "expert": True},
                        "engine_args": {"max_model_len": 16384},
                    }
                },
            }
        },
    ),
    "quantised": _env(
        H100,
        {
            "big": {
                "pool": "h100",
                "models": {
                    "qwen": {
                        "model": "Qwen/Qwen3-235B-A22B-FP8",
                        "parallel": {"tensor": 4, "expert": True},
                        "engine_args": {"max_model_len": 16384},
                    }
                },
            }
        },
    ),
    "mps": _env(
        {"l4": _pool("L4", 1, 7, 28, sharing={"strategy": "mps", "replicas": 2})},
        {"small": {"pool": "l4", "models": {"a": {**SMALL, "gpu": {"share": 0.45}}}}},
    ),
    "volcano_vgpu": _env(
        {"l4": _pool("L4", 1, 7, 28, sharing={"strategy": "volcano_vgpu"})},
        {"small": {"pool": "l4", "queue": "team", "models": {"a": {**SMALL, "gpu": {"share": 0.45}}}}},
        software={"batch_scheduler": "volcano"},
        queues={"team": {"cpu": {"quota": 40, "limit": 80}, "memory_gib": {"quota": 150, "limit": 300}}},
    ),
    "lora_adapters": _env(
        L4, {"chat": {"pool": "l4", "models": {"qwen": {**QWEN, "lora": {"path": "s3://adapters/qwen"}}}}}
    ),
    "session_routing": _env(
        L4,
        {
            "chat": {
                "pool": "l4",
                "models": {"qwen": {**QWEN, "replicas": {"min": 2, "max": 2}, "routing": {"policy": "session"}}},
            }
        },
    ),
    "kv_aware_routing": _env(
        L4,
        {
            "chat": {
                "pool": "l4",
                "models": {"qwen": {**QWEN, "replicas": {"min": 2, "max": 2}, "routing": {"policy": "kv_aware"}}},
            }
        },
        # the image has ai-dynamo
        policy={"head-fault-tolerance": "off", "probe-single-replica": "off", "routing-kv-aware": "off"},
    ),
    "embeddings": _env(
        L4,
        {
            "embed": {
                "pool": "l4",
                "models": {
                    "vectors": {
                        "model": "Qwen/Qwen3-Embedding-0.6B",
                        "engine_args": {"runner": "pooling", "convert": "embed", "max_model_len": 8192},
                    }
                },
            }
        },
    ),
    "speculation_tools_and_structured_output": _env(
        L4,
        {
            "chat": {
                "pool": "l4",
                "models": {
                    "qwen": {
                        **QWEN,
                        "engine_args": {
                            "max_model_len": 8192,
                            "enable_auto_tool_choice": True,
                            "speculative_config": {"method": "ngram", "num_speculative_tokens": 4},
                            "structured_outputs_config": {"backend": "xgrammar"},
                            "tool_call_parser": "hermes",
                        },
                    }
                },
            }
        },
    ),
    "plain_vllm_scaled_behind_an_ingress": _env(
        L4,
        {
            "plain": {
                "kind": "vllm",
                "pool": "l4",
                "models": {"qwen": {**QWEN, "replicas": {"min": 2, "max": 6}}},
                "api_keys": {"engine": {"secret": "keys", "key": "chat"}},
                "expose": {
                    "ingress": {
                        "host": "chat.example.com",
                        "class_name": "alb",
                        "certificate_arn": "arn:aws:acm:us-east-1:111122223333:certificate/1",
                        "internal": False,
                    }
                },
                "logs": {"format": "json"},
                "tracing": {"otlp_endpoint": "http://otel-collector.observability:4317"},
            }
        },
        software={"monitoring": {"install": True}},
    ),
    "published_by_a_gateway_with_keys": _env(
        L4,
        {
            "chat": {
                "pool": "l4",
                "models": {"qwen": {**QWEN, "replicas": {"min": 2, "max": 2}}},
                "api_keys": {"teams": ["team-keys"]},
                "expose": {
                    "gateway": {"host": "chat.example.com", "tls_secret": "chat-tls", "load_balancer": "internet"}
                },
                "metrics": {"pod_monitor": True, "labels": {"release": "prometheus"}},
                "logs": {"format": "json", "access": False},
                "tracing": {"otlp_endpoint": "https://otel.example.com/v1/traces", "protocol": "http/protobuf"},
                "network": {
                    "clients": [{"namespace": "apps"}, {"cidr": "10.0.0.0/16"}],
                    "operators": [{"namespace": "platform", "pods": {"app": "notebook"}}],
                    "egress": [{"cidr": "0.0.0.0/0"}],
                },
                "secrets": {
                    "team-keys": {"store": "aws", "keys": {"search": {"name": "prod/keys", "property": "search"}}}
                },
            }
        },
        software={"gateway": {"install": True, "class_name": "envoy"}, "monitoring": {"install": False}},
    ),
    "shared_cluster": _env(L4, {"shared": {"kind": "ray_cluster", "pool": "l4", "worker": {"min": 1, "max": 2}}}),
}
