"""HAProxy and direct streaming where Ray can, and Ray's own path where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import parse
from components.derive import request_path
from components.plan import Planned, assemble
from policies.catalog.ray_releases import DIRECT_ROUTER
from policies.facts import ServeApp

BASE: dict[str, Any] = {
    "cluster": {"kind": "existing", "kubernetes_version": "1.35"},
    "image": "registry.example.com/llm-serve",
    "node_pools": {
        "l4": {
            "kind": "existing",
            "gpu": "L4",
            "gpus_per_node": 1,
            "cpu": 7,
            "memory_gib": 28,
            "max": 8,
            "driver_version": "580.95.05",
        },
        "core": {"kind": "existing", "cpu": 7, "memory_gib": 28, "max": 2},
    },
}
QWEN: dict[str, Any] = {"model": "Qwen/Qwen2.5-7B-Instruct", "pool": "l4", "engine_args": {"max_model_len": 8192}}


def planned(service: dict[str, Any]) -> Planned:
    return assemble(parse({**BASE, "services": {"chat": {"models": {"qwen": QWEN}, **service}}}))


def environment(service: dict[str, Any]) -> dict[str, str]:
    return planned(service).specs[0].ray_env


def app(service: dict[str, Any]) -> ServeApp:
    (found,) = planned(service).stack.workloads[0].apps
    return found


PROXIED = {request_path.HAPROXY: "1", request_path.HARD_STOP: "900", request_path.NICENESS: "0"}
STREAMED = {**PROXIED, request_path.DIRECT_STREAMING: "1", request_path.ROUTER_TIMEOUT: "900"}


def test_one_model_is_streamed_directly() -> None:
    assert environment({}) == STREAMED
    # the KV-aware router has its index there
    assert environment({"models": {"qwen": {**QWEN, "routing": {"policy": "kv_aware"}}}}) == STREAMED
    # of any number of replicas, so that one more does not make a new cluster
    assert environment({"models": {"qwen": {**QWEN, "replicas": {"min": 1, "max": 3}}}}) == STREAMED


@pytest.mark.parametrize(
    ("model", "seconds"), [("Qwen/Qwen2.5-0.5B-Instruct", "900"), ("Qwen/Qwen2.5-72B-Instruct", "1800"), ("no/such-model", "3600")]
)  # fmt: skip
def test_a_request_may_wait_as_long_as_the_next_replica_takes_to_start(model: str, seconds: str) -> None:
    given = {"models": {"qwen": {**QWEN, "model": model}}}
    found = environment(given)
    assert (found[request_path.ROUTER_TIMEOUT], found[request_path.HARD_STOP]) == (seconds, seconds)
    calm = {"graceful_shutdown_timeout_s": int(seconds), "max_surge_percent": 100}
    assert app(given).deployments == ({"name": DIRECT_ROUTER, **calm},)
    ingress = app({**given, "expose": {"direct_streaming": False}})
    assert (ingress.deployments, ingress.args["ingress_deployment_config"]) == ((), calm)


@pytest.mark.parametrize(
    "service",
    [
        {"models": {"qwen": QWEN, "other": QWEN}},
        {"models": {"qwen": {**QWEN, "lora": {"path": "s3://adapters/qwen"}}}},
        {"models": {"qwen": {**QWEN, "routing": {"policy": "prefix_affinity"}}}},
        {"models": {"qwen": {**QWEN, "replicas": {"min": 0, "max": 1}}}},
        {"expose": {"direct_streaming": False}},
        {"ray_version": "2.58.0"},
    ],
)
def test_what_direct_streaming_cannot_do_goes_through_the_ingress(service: dict[str, Any]) -> None:
    assert environment(service) == PROXIED


def test_a_ray_without_haproxy_keeps_its_own_proxy() -> None:
    assert environment({"ray_version": "2.55.0"}) == {request_path.NICENESS: "0"}
    assert environment({"expose": {"proxy": "python"}}) == {request_path.NICENESS: "0"}


def test_options_of_the_ingress_are_not_written_for_a_path_without_one() -> None:
    assert "ingress_deployment_config" not in app({}).args
    assert "ingress_deployment_config" in app({"env": {request_path.DIRECT_STREAMING: "0"}}).args


@pytest.mark.parametrize(
    ("service", "behind"),
    [
        ({}, True),
        ({"models": {"qwen": {**QWEN, "replicas": {"min": 1, "max": 3}}}}, True),
        ({"models": {"qwen": QWEN, "other": QWEN}}, True),
        ({"models": {"qwen": {**QWEN, "replicas": {"min": 0, "max": 1}}}}, True),
        ({"models": {"qwen": {**QWEN, "replicas": {"min": 2, "max": 3}}}}, False),
        ({"models": {"qwen": {**QWEN, "replicas": {"surge_percent": 100}}}}, False),
        ({"expose": {"proxy": "python"}}, False),
        ({"head": {"pool": "l4"}}, False),
    ],
)
def test_the_head_is_behind_the_endpoint_where_no_worker_may_have_a_replica(
    service: dict[str, Any], behind: bool
) -> None:
    (workload,) = planned(service).stack.workloads
    assert workload.spec["excludeHeadPodFromServeSvc"] is not behind
