"""Environments of many services, for benchmarks of the plan and of `pulumi preview`."""

from __future__ import annotations

from typing import Any

# Shapes that teams mix: whole GPUs, shares, tensor parallel, autoscaled; each on its own pool.
_MODELS: tuple[dict[str, Any], ...] = (
    {"model": "Qwen/Qwen2.5-7B-Instruct", "pool": "l4", "engine_args": {"max_model_len": 8192}},
    {
        "model": "Qwen/Qwen2.5-1.5B-Instruct",
        "pool": "l4",
        "gpu": {"share": 0.45},
        "engine_args": {"max_model_len": 4096},
    },
    {
        "model": "Qwen/Qwen2.5-72B-Instruct",
        "pool": "h100",
        "parallel": {"tensor": 4},
        "engine_args": {"max_model_len": 16384},
    },
    {
        "model": "Qwen/Qwen3-32B",
        "pool": "h100",
        "parallel": {"tensor": 2},
        "replicas": {"min": 1, "max": 3},
        "engine_args": {"max_model_len": 16384},
    },
)


def values(count: int) -> dict[str, Any]:
    """Config of `count` services over three pools that hold them all."""
    pools: dict[str, Any] = {
        "cpu": {"kind": "existing", "cpu": 15.5, "memory_gib": 60, "min": 1, "max": 2 * count + 2},
        "l4": {
            "kind": "existing",
            "gpu": "L4",
            "gpus_per_node": 1,
            "cpu": 7,
            "memory_gib": 28,
            "max": 4 * count + 4,
            "driver_version": "580.95.05",
        },
        "h100": {
            "kind": "existing",
            "gpu": "H100",
            "gpus_per_node": 8,
            "cpu": 190,
            "memory_gib": 1900,
            "max": 4 * count + 4,
            "driver_version": "580.95.05",
        },
    }
    services = {f"service-{i:04d}": {"models": {"model": _MODELS[i % len(_MODELS)]}} for i in range(count)}
    return {
        "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
        "image": "registry.example.com/llm-serve",
        "node_pools": pools,
        "services": services,
    }
