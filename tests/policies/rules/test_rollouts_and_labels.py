"""Rolling updates on a full pool, probes of another port, labels that nodes get from their GPU, and GPUs of several containers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.small import AWS, EXISTING, Config, chat, found, model, pool

PLAIN: Config = {"services": {"chat": {"kind": "vllm", "fault_tolerance": None}}}


def said(*patches: Config, base: Config = EXISTING) -> set[tuple[str, str]]:
    return found(*patches, base=base)


def container(**fields: Any) -> Config:
    return chat(patch={"spec": {"template": {"spec": {"containers": [{"name": "vllm", **fields}]}}}})


def strategy(**fields: Any) -> Config:
    return chat(patch={"spec": {"strategy": fields}})


def select(**labels: str) -> Config:
    given = {"llm-serving/pool": "l4", **{key.replace("__", "/").replace("_", "."): v for key, v in labels.items()}}
    return chat(worker={"node_selector": given})


def extra(gpus: int) -> Config:
    """A second container of the worker pods."""
    side = {
        "name": "side",
        "image": "registry/side:1",
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {},
    }
    group = {"groupName": "l4", "template": {"spec": {"containers": [side]}}}
    return chat(patch={"spec": {"rayClusterConfig": {"workerGroupSpecs": [group]}}})


@pytest.mark.parametrize(
    ("patches", "speaks"),
    [
        ((pool(max=2),), True),
        ((pool(max=3),), False),
        ((pool(max=2), strategy(type="Recreate")), False),
        ((pool(max=2), strategy(rollingUpdate={"maxSurge": 0, "maxUnavailable": 1})), False),
        ((pool(max=2), strategy(rollingUpdate={"maxSurge": "50%", "maxUnavailable": "50%"})), False),
        ((pool(max=4), model(replicas={"min": 4, "max": 4})), False),  # a quarter of four may be missing
    ],
)
def test_a_rolling_update_needs_a_gpu_or_gives_one_up(patches: tuple[Config, ...], speaks: bool) -> None:
    assert (("upgrade-rollout", "warning") in said(PLAIN, *patches)) is speaks


@pytest.mark.parametrize(
    ("probe", "refused"),
    [
        ({"httpGet": {"path": "/health", "port": 8000}}, False),
        ({"httpGet": {"path": "/health", "port": "serve"}}, False),
        ({"httpGet": {"path": "/health", "port": 8080}}, True),
        ({"httpGet": {"path": "/health", "port": "http"}}, True),
        ({"httpGet": None, "tcpSocket": {"port": 9000}}, True),
        ({"httpGet": None, "exec": {"command": ["true"]}}, False),
    ],
)
def test_a_probe_asks_where_the_engine_listens(probe: Config, refused: bool) -> None:
    assert (("probe-port", "error") in said(PLAIN, container(readinessProbe=probe))) is refused


@pytest.mark.parametrize(
    ("patch", "base", "refused"),
    [
        (select(nvidia_com__gpu_product="NVIDIA-L4"), EXISTING, False),
        (select(nvidia_com__gpu_product="NVIDIA-L4-SHARED"), EXISTING, False),
        (select(nvidia_com__gpu_product="NVIDIA-A100-SXM4-80GB"), EXISTING, True),
        (select(nvidia_com__gpu_product="Some-Future-GPU"), EXISTING, False),  # nobody can know
        (select(**{"karpenter.k8s.aws__instance-gpu-name": "l4"}), AWS, False),
        (select(**{"karpenter.k8s.aws__instance-gpu-name": "h100"}), AWS, True),
    ],
)
def test_a_label_of_another_gpu_matches_no_node(patch: Config, base: Config, refused: bool) -> None:
    assert (("placement-selector", "error") in said(patch, base=base)) is refused


@pytest.mark.parametrize(("gpus", "refused"), [(0, False), (1, True)])
def test_gpus_of_all_containers_count(gpus: int, refused: bool) -> None:
    assert (("placement-node-size", "error") in said(extra(gpus))) is refused


def test_a_scheduler_that_is_not_there_places_nothing() -> None:
    group = {"groupName": "l4", "template": {"spec": {"schedulerName": "kai-scheduler"}}}
    given = chat(patch={"spec": {"rayClusterConfig": {"workerGroupSpecs": [group]}}})
    assert ("queue-label", "error") in said(given)
