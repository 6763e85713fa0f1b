"""Environment of CPU engines: threads by the pod's cores, bound to none, and a cache that is said once."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import parse
from components.plan import assemble

CPU: dict[str, Any] = {"model": "HuggingFaceTB/SmolLM2-135M-Instruct", "device": "cpu", "pool": "cpu"}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def environment(model: dict[str, Any], **service: Any) -> dict[str, str]:
    config = {
        "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
        "image": "registry.example.com/llm-serve",
        "node_pools": {"cpu": {"kind": "existing", "cpu": 16.5, "memory_gib": 60, "max": 4}},
        "services": {"chat": {"models": {"smollm": {**CPU, **model}}, **service}},
    }
    (engine,) = assemble(parse(config)).specs[0].engines
    return engine.env


@pytest.mark.parametrize(
    ("model", "service", "threads"),
    [
        ({}, {}, "15"),  # all cores of the node but one for the engine's scheduler
        ({}, {"worker": {"cpu": 4}}, "3"),
        ({}, {"worker": {"cpu": 0.5}}, "1"),
        ({"parallel": {"tensor": 2}}, {"worker": {"cpu": 9}}, "4"),
        ({"engine_args": {"kv_transfer_config": NIXL}}, {"worker": {"cpu": 8}}, "6"),
        ({"parallel": {"data": 2}}, {"worker": {"cpu": 9}, "kind": "vllm"}, "4"),  # both ranks are in the pod
        ({"env": {"OMP_NUM_THREADS": "8"}}, {"worker": {"cpu": 4}}, "8"),
    ],
)
def test_a_worker_has_as_many_threads_as_its_pod_has_cores_for_it(
    model: dict[str, Any], service: dict[str, Any], threads: str
) -> None:
    env = environment(model, **service)
    assert env["OMP_NUM_THREADS"] == threads
    assert env["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"


def test_the_binding_may_be_another() -> None:
    assert environment({"env": {"VLLM_CPU_OMP_THREADS_BIND": "auto"}})["VLLM_CPU_OMP_THREADS_BIND"] == "auto"


@pytest.mark.parametrize(
    ("model", "space"),
    [
        ({}, "1"),
        ({"kv_cache_gib": 4}, "4"),
        # VLLM_CPU_KVCACHE_SPACE would go before it
        ({"engine_args": {"kv_cache_memory_bytes": 1 << 29}}, None),
        ({"kv_cache_gib": 4, "engine_args": {"kv_cache_memory_bytes": 1 << 29}}, "4"),  # and a rule says so
    ],
)
def test_the_cache_is_said_once(model: dict[str, Any], space: str | None) -> None:
    assert environment(model).get("VLLM_CPU_KVCACHE_SPACE") == space
