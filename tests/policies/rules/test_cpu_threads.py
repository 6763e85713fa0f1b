"""Threads, caches and memory of CPU engines in pods that have a part of their node."""

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


@pytest.mark.parametrize(("memory", "said"), [(7.5, 0), (6, 1), (2.25, 1)])
def test_a_pod_holds_old_and_new_engine_where_a_change_makes_the_new_one_first(memory: float, said: int) -> None:
    """Weights and cache 1.5 GiB, engines 3.5, Ray 1.6. With caches of 1 GiB this comes to 7.6, and 7.7 were measured."""
    model = {"engine_args": {"kv_cache_memory_bytes": 1 << 29}, "replicas": {"surge_percent": 100}}
    messages = found("fit-cpu-memory", model, worker={"memory_gib": memory, "max": 1})
    assert len(messages) == said
    assert all("2 times in one pod" in message for message in messages)
    assert found("fit-cpu-memory", {**model, "replicas": {}}, worker={"memory_gib": 6, "max": 1}) == []
