"""Threads and caches of CPU engines in pods that have a part of their node."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import parse
from components.plan import assemble

AUTO = {"VLLM_CPU_OMP_THREADS_BIND": "auto"}


def found(rule: str, model: dict[str, Any], **service: Any) -> list[str]:
    config = {
        "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
        "image": "registry.example.com/llm-serve",
        "node_pools": {"cpu": {"kind": "existing", "cpu": 16, "memory_gib": 60, "max": 4}},
        "services": {
            "chat": {
                "pool": "cpu",
                "models": {"smollm": {"model": "HuggingFaceTB/SmolLM2-135M-Instruct", "device": "cpu", **model}},
                **service,
            }
        },
    }
    return [each.message for each in assemble(parse(config)).plan.findings if each.rule == rule]


def test_cores_of_the_node_are_not_those_of_the_pod() -> None:
    (message,) = found("cpu-threads", {"env": AUTO}, worker={"cpu": 4})
    assert "its pod has 4 of 16 cores" in message


def test_two_workers_in_a_pod_need_two_numa_nodes() -> None:
    (message,) = found("cpu-threads", {"env": AUTO, "parallel": {"tensor": 2}})
    assert message.startswith("2 workers of a CPU engine")


@pytest.mark.parametrize(
    ("model", "service"),
    [
        ({}, {"worker": {"cpu": 4}}),  # what is derived
        ({"parallel": {"tensor": 2}}, {}),
        ({"env": AUTO}, {}),  # the node is the pod's own
        ({"env": AUTO, "parallel": {"data": 2}}, {}),  # a pod for each rank
    ],
)
def test_threads_that_are_not_bound_or_have_the_node_pass(model: dict[str, Any], service: dict[str, Any]) -> None:
    assert found("cpu-threads", model, **service) == []


def test_a_cache_stated_twice_is_told() -> None:
    stated = {"engine_args": {"kv_cache_memory_bytes": 1 << 29}}
    (message,) = found("environment-values", {"kv_cache_gib": 2, **stated})
    assert "goes before kv_cache_memory_bytes" in message
    assert found("environment-values", stated) == found("environment-values", {"kv_cache_gib": 2}) == []
