"""Each test breaks one of the things KubeRay's own validation refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.facts import Stack

from .stacks import APP, found, sentences, service, stack, with_head, with_service, with_workers

CLUSTER: dict[str, Any] = {"headGroupSpec": {}, "workerGroupSpecs": [{}]}


def ray(**over: Any) -> Stack:
    """Service 'chat' with fields changed."""
    return with_service(stack(), **over)


def cluster(**over: Any) -> Stack:
    """Service 'chat' with keys of its rayClusterConfig as declared."""
    return ray(spec={"rayClusterConfig": {**CLUSTER, **over}})


def scaled(**over: Any) -> Stack:
    """Service 'chat' with Ray's autoscaler on."""
    return ray(**{"autoscaling": True, "autoscaler_version": "v2", **over})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (with_workers(ray_start_params={"num-gpus": "1"}), [("kuberay-resources-twice", "error")]),
        (with_workers(ray_start_params={"num-gpus": "1"}, resources={}), []),
        (with_workers(ray_start_params={"labels": "a=b"}), [("kuberay-labels", "error")]),
        (cluster(workerGroupSpecs=[{"labels": {"a b": "c"}}]), [("kuberay-labels", "error")]),
        (cluster(workerGroupSpecs=[{"labels": {"team": "a b"}}]), [("kuberay-labels", "error")]),
        (cluster(workerGroupSpecs=[{"labels": {"example.com/team": "a"}}]), []),
        (
            with_head(env={"RAY_REDIS_ADDRESS": "redis:6379", "NVIDIA_VISIBLE_DEVICES": "void"}),
            [("kuberay-fault-tolerance", "error")],
        ),
        (ray(fault_tolerance={"redisAddress": ""}), [("kuberay-fault-tolerance", "error")]),
        (
            ray(fault_tolerance={"redisAddress": "r:1", "storage": {"size": "1Gi"}}),
            [("kuberay-fault-tolerance", "error")],
        ),
        (ray(annotations={"ray.io/ft-enabled": "true"}), [("kuberay-fault-tolerance", "error")]),
        (ray(annotations={"ray.io/external-storage-namespace": "x"}), [("kuberay-fault-tolerance", "error")]),
        (
            with_head(env={"REDIS_PASSWORD": "$(FROM_SECRET)", "NVIDIA_VISIBLE_DEVICES": "void"}),
            [("kuberay-fault-tolerance", "error")],
        ),
        (
            with_head(env={"REDIS_USERNAME": "x", "NVIDIA_VISIBLE_DEVICES": "void"}),
            [("kuberay-fault-tolerance", "error")],
        ),
        (
            with_head(env={"RAY_enable_autoscaler_v2": "1", "NVIDIA_VISIBLE_DEVICES": "void"}),
            [("kuberay-autoscaler", "error")],
        ),
        (
            with_head(scaled(), env={"RAY_enable_autoscaler_v2": "1", "NVIDIA_VISIBLE_DEVICES": "void"}),
            [("kuberay-autoscaler", "error")],
        ),
        (with_head(scaled(), restart_policy="Always"), [("kuberay-autoscaler", "error")]),
        (with_workers(scaled(), restart_policy="OnFailure"), [("kuberay-autoscaler", "error")]),
        (with_workers(scaled(), restart_policy="Never"), []),
        (with_workers(scaled(), idle_timeout_seconds=60), []),
        (with_workers(scaled(autoscaler_version=None), idle_timeout_seconds=60), [("kuberay-autoscaler", "error")]),
        (with_workers(scaled(), idle_timeout_seconds=-1), [("kuberay-autoscaler", "error")]),
        (scaled(autoscaler_options={"idleTimeoutSeconds": -1}), [("kuberay-autoscaler", "error")]),
        (
            scaled(spec={"rayClusterConfig": {"headGroupSpec": {}, "workerGroupSpecs": [{"suspend": True}]}}),
            [("kuberay-autoscaler", "error")],
        ),
        (scaled(spec={"rayClusterConfig": {"headGroupSpec": {}, "workerGroupSpecs": [{"priority": 5}]}}), []),
        (cluster(workerGroupSpecs=[{"priority": 5}]), [("kuberay-autoscaler", "error")]),
        (ray(ray_version="2.51.0"), [("kuberay-token-auth", "error"), ("security-dashboard-delete", "warning")]),
        (ray(ray_version=None), [("kuberay-token-auth", "error")]),
        (ray(auth_options={"enableK8sTokenAuth": True}), [("kuberay-token-auth", "error")]),
        (ray(annotations={"ray.io/initializing-timeout": "soon"}), [("kuberay-initializing-timeout", "error")]),
        (ray(annotations={"ray.io/initializing-timeout": "-5m"}), [("kuberay-initializing-timeout", "error")]),
        (ray(annotations={"ray.io/initializing-timeout": "0"}), [("kuberay-initializing-timeout", "error")]),
        (ray(annotations={"ray.io/initializing-timeout": "1m"}), [("kuberay-initializing-timeout", "warning")]),
        (ray(annotations={"ray.io/initializing-timeout": "1h30m"}), []),
        (ray(annotations={"ray.io/initializing-timeout": "3600"}), []),
        (
            cluster(networkPolicy={"mode": "DenyAll"}),
            [("kuberay-gates", "error"), ("network-policy-operator", "error")],
        ),
        (cluster(upgradeStrategy={"type": "Recreate"}), [("kuberay-gates", "error")]),
        (with_workers(pod={"containers": []}), [("kuberay-containers", "error")]),
        (ray(head=None, spec={"rayClusterConfig": {}}), [("kuberay-containers", "error")]),
        (ray(spec={"serveConfigV2": "- a"}), [("serve-config", "error")]),
        (ray(apps=(), spec={"serveConfigV2": ""}), [("serve-config", "warning")]),
        (ray(apps=(APP, replace(APP, name="b"))), [("serve-config", "error")]),
        (ray(apps=(APP, replace(APP, route_prefix="/b"))), [("serve-config", "error")]),
        (ray(apps=(APP, replace(APP, name="b", route_prefix="/b"))), []),
        (ray(apps=(replace(APP, import_path="app"),)), [("serve-config", "error")]),
        (ray(apps=(replace(APP, route_prefix="chat"),)), [("serve-config", "error")]),
    ],
)
def test_what_kuberay_or_serve_refuses(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert found(given) == expected


def test_kubernetes_tokens_are_for_ray_clusters_of_2_55() -> None:
    own = {"kind": "RayCluster", "apps": (), "upgrade_type": None, "auth_options": {"enableK8sTokenAuth": True}}
    assert found(ray(**own)) == []
    assert ("kuberay-token-auth", "error") in found(ray(**own, ray_version="2.54.0"))
    assert ("kuberay-token-auth", "error") in found(
        ray(**{**own, "auth_options": {"enableK8sTokenAuth": True, "secretName": "x"}})
    )
    assert ("kuberay-token-auth", "error") in found(ray(**{**own, "auth_mode": None}))


JOB: dict[str, Any] = {"entrypoint": "python run.py", "shutdownAfterJobFinishes": True, "rayClusterSpec": CLUSTER}


@pytest.mark.parametrize(
    ("spec", "over", "expected"),
    [
        (JOB, {}, []),
        ({**JOB, "ttlSecondsAfterFinished": 60}, {}, []),
        ({**JOB, "shutdownAfterJobFinishes": False, "ttlSecondsAfterFinished": 60}, {}, ["error", "warning"]),
        ({**JOB, "shutdownAfterJobFinishes": False}, {}, ["warning"]),
        ({**JOB, "backoffLimit": 2}, {"submission_mode": "InteractiveMode"}, ["error"]),
        ({**JOB, "activeDeadlineSeconds": 0}, {}, ["error"]),
        ({**JOB, "backoffLimit": -1}, {}, ["error"]),
        ({**JOB, "entrypoint": ""}, {}, ["error"]),
        ({"entrypoint": "x", "shutdownAfterJobFinishes": True}, {}, ["error"]),
        ({**JOB, "shutdownAfterJobFinishes": False}, {"suspend": True}, ["error", "warning"]),
    ],
)
def test_jobs(spec: dict[str, Any], over: dict[str, Any], expected: list[str]) -> None:
    job = service(kind="RayJob", apps=(), upgrade_type=None, spec=spec, **{"submission_mode": "HTTPMode", **over})
    got = [severity for rule, severity in found(stack(workloads=(job,))) if rule == "kuberay-job"]
    assert got == expected


def test_two_ways_to_state_resources_are_named() -> None:
    assert sentences(with_workers(ray_start_params={"num-gpus": "1", "num-cpus": "4"}), "kuberay-resources-twice") == [
        "service 'chat': worker group 'l4': resources and rayStartParams num-cpus, num-gpus are both set; KubeRay takes one of them; move all of them to "
        "resources (CPU, GPU, memory and your own) [kuberay-resources-twice]"
    ]
