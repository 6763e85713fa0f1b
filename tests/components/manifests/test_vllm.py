"""Plain vLLM: /dev/shm wherever the engine's processes talk over it, and a rule where it was made too small."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import deep_merge, parse
from components.plan import Planned, assemble
from tests.components.environments import WHOLE_GPU

CPU: dict[str, Any] = {
    "pool": "cpu",
    "models": {"qwen": {"device": "cpu", "engine_args": {"max_model_len": 1024}}},
}


def planned(**changes: Any) -> Planned:
    service = deep_merge({"kind": "vllm"}, changes)
    return assemble(parse(deep_merge(WHOLE_GPU, {"services": {"chat": service}})))


def shm(plan: Planned) -> str | None:
    pod = plan.manifests["chat"][0]["spec"]["template"]["spec"]
    sizes = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in pod.get("volumes", [])}
    mounts = {m["name"]: m["mountPath"] for m in pod["containers"][0].get("volumeMounts", [])}
    assert mounts == dict.fromkeys(sizes, "/dev/shm")
    return sizes.get("dshm")


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({}, None),  # engine and worker are one process
        ({"models": {"qwen": {"parallel": {"tensor": 2}}}}, "8Gi"),
        ({"models": {"qwen": {"parallel": {"data": 2}}}}, "8Gi"),
        ({"models": {"qwen": {"engine_args": {"distributed_executor_backend": "mp"}}}}, "1Gi"),
        (CPU, "1Gi"),
        (deep_merge(CPU, {"worker": {"shm_gib": 2}}), "2Gi"),
    ],
)
def test_shared_memory_is_mounted_where_processes_talk_over_it(changes: dict[str, Any], size: str | None) -> None:
    assert shm(planned(**changes)) == size


def test_a_worker_of_its_own_process_does_not_start_in_less_than_its_queue() -> None:
    def said(**changes: Any) -> list[str]:
        return [each.message for each in planned(**changes).plan.findings if each.rule == "network-shared-memory"]

    assert said(**deep_merge(CPU, {"worker": {"shm_gib": 0.1}})) == [
        "/dev/shm is 102 MiB (as declared) and the engine of model 'qwen' talks to its worker over it: vLLM takes 160 MiB and refuses to start"
    ]
    for kind in ("vllm", "ray_service"):
        assert said(kind=kind, **CPU) == []
    bare = {"spec": {"template": {"spec": {"containers": [{"name": "vllm", "volumeMounts": None}]}}}}
    assert len(said(**CPU, patch=bare)) == 1
    assert said(patch=bare) == []
