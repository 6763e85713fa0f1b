"""Which GPUs of a replica are in one pod: what exchanges tensors stays together as far as a node holds it."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import parse
from components.derive.spec import GroupSpec
from components.plan import Planned, assemble

MOE, DENSE = "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-14B"
EFA = "vpc.amazonaws.com/efa"


def planned(model: str, parallel: dict[str, Any], *, gpu: str = "H100", **service: Any) -> Planned:
    node = {"cpu": 180, "memory_gib": 1900, "driver_version": "580.95.05", "min": 2, "max": 8}
    four = gpu == "GB200"
    pool = {**node, "kind": "existing", "gpu": gpu, "gpus_per_node": 4 if four else 8, "efa": not four}
    own = {"model": model, "parallel": parallel, "engine_args": {"max_model_len": 8192}}
    return assemble(
        parse(
            {
                "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
                "image": "registry.example.com/llm-serve",
                "node_pools": {"gpu": pool, "cpu": {"kind": "existing", "cpu": 16, "memory_gib": 60}},
                "services": {"chat": {"pool": "gpu", "models": {"m": own}, **service}},
            }
        )
    )


def group(given: Planned) -> GroupSpec:
    (found,) = given.specs[0].groups
    return found


@pytest.mark.parametrize(
    ("model", "parallel", "gpus_per_pod", "pods"),
    [
        (MOE, {"data": 8}, 8, 1),
        (MOE, {"data": 8, "expert": True}, 8, 1),
        (MOE, {"data": 4, "tensor": 2}, 8, 1),
        (MOE, {"data": 16}, 8, 2),
        (MOE, {"data": 12}, 6, 2),  # pods of one shape hold all ranks
        (MOE, {"data": 3, "tensor": 4}, 4, 3),
        (MOE, {"tensor": 8, "pipeline": 2, "data": 2}, 8, 4),
        ("someone/unknown", {"data": 8}, 8, 1),
        (DENSE, {"data": 8}, 1, 8),  # engines of their own: they go where there is room
        (DENSE, {"data": 2, "tensor": 4}, 4, 2),
    ],
)
def test_ranks_that_share_experts_share_pods(
    model: str, parallel: dict[str, Any], gpus_per_pod: int, pods: int
) -> None:
    found = group(planned(model, parallel))
    assert (found.gpus_per_pod, found.min * found.hosts) == (gpus_per_pod, pods)


def test_what_a_person_says_of_the_pod_stays() -> None:
    found = group(planned(MOE, {"data": 8}, worker={"gpus_per_pod": 2}))
    assert (found.gpus_per_pod, found.min) == (2, 4)


def test_ranks_of_a_plain_pod_are_its_own() -> None:
    given = planned(MOE, {"data": 4}, kind="vllm")
    assert group(given).gpus_per_pod == 4
    (engine,) = given.plan.services[0].engines
    assert engine.memory is not None
    assert not [f for f in given.plan.findings if f.rule == "topology-one-pod"]


def worker_limits(given: Planned) -> dict[str, Any]:
    (manifest,) = [m for s in given.plan.services for m in given.stack.workloads if m.name == s.name]
    return dict(manifest.groups[0].limits)


def test_ranks_in_several_pods_get_the_network_cards_of_their_node() -> None:
    assert EFA in worker_limits(planned(MOE, {"data": 16}))
    assert EFA not in worker_limits(planned(MOE, {"data": 8}))
    assert EFA not in worker_limits(planned(DENSE, {"data": 16}))


def test_ranks_on_nodes_that_nvlink_joins_claim_a_channel() -> None:
    assert group(planned(MOE, {"data": 8}, gpu="GB200")).compute_domain
    assert not group(planned(MOE, {"data": 4}, gpu="GB200")).compute_domain


@pytest.mark.parametrize(
    ("device", "pools", "found"),
    [
        ("cpu", ("gpu", "cpu"), "cpu"),
        ("gpu", ("gpu", "cpu"), "gpu"),
        ("cpu", ("gpu", "cpu", "other"), None),  # as for two pools with GPUs: which one is said by hand
        ("cpu", ("gpu",), "gpu"),
    ],
)
def test_an_engine_that_states_no_pool_gets_the_only_one_of_its_kind(
    device: str, pools: tuple[str, ...], found: str | None
) -> None:
    kinds = {
        "gpu": {"kind": "existing", "gpu": "L4", "gpus_per_node": 1, "cpu": 16, "memory_gib": 60},
        "cpu": {"kind": "existing", "cpu": 16, "memory_gib": 60},
        "other": {"kind": "existing", "cpu": 32, "memory_gib": 120},
    }
    planned = assemble(
        parse(
            {
                "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
                "node_pools": {name: kinds[name] for name in pools},
                "services": {"chat": {"models": {"m": {"model": "Qwen/Qwen3-0.6B", "device": device}}}},
            }
        )
    )
    assert group(planned).pool_name == found
