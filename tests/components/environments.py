"""Environments that tests start from: each compliant, each test breaks one thing."""

from __future__ import annotations

import copy
from typing import Any

from components.config import Environment, deep_merge, parse

# One L4 node pool, one model on a whole GPU.
WHOLE_GPU: dict[str, Any] = {
    "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
    "image": "registry.example.com/llm-serve",
    "node_pools": {
        "l4": {
            "kind": "existing",
            "gpu": "L4",
            "gpus_per_node": 1,
            "cpu": 7,
            "memory_gib": 28,
            "min": 1,
            "max": 4,
            "driver_version": "580.95.05",
        },
        "cpu": {"kind": "existing", "cpu": 7, "memory_gib": 28, "min": 1, "max": 4},
    },
    # one replica and no Redis keep it small; both are warned about in the rules' own tests
    "policy": {"head-fault-tolerance": "off", "probe-single-replica": "off"},
    "services": {
        "chat": {
            "pool": "l4",
            "models": {"qwen": {"model": "Qwen/Qwen2.5-7B-Instruct", "engine_args": {"max_model_len": 8192}}},
        }
    },
}


def environment(base: dict[str, Any] = WHOLE_GPU, **changes: Any) -> Environment:
    """`base` with `changes` merged over its top-level keys (None deletes)."""
    return parse(deep_merge(copy.deepcopy(base), changes))


def with_model(changes: dict[str, Any], base: dict[str, Any] = WHOLE_GPU, **service: Any) -> Environment:
    """`base` with changes to the model and to the service of its first service."""
    values = copy.deepcopy(base)
    name = next(iter(values["services"]))
    current = values["services"][name]
    model = next(iter(current["models"]))
    current["models"][model] = deep_merge(current["models"][model], changes)
    values["services"][name] = deep_merge(current, service)
    return parse(values)
