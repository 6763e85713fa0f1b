"""A cluster as planned passes; each test lets one thing drift."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from components.checks import Check, status
from components.config import deep_merge, parse
from components.doctor import checks
from tests.components.doctor.fake import FakeCluster, as_planned
from tests.components.environments import WHOLE_GPU
from tests.components.shapes import SHAPES

Values = dict[str, Any]


def run(change: Callable[[FakeCluster], None] | None = None, values: Values = WHOLE_GPU) -> list[Check]:
    env = parse(values)
    cluster, planned = as_planned(env)
    if change is not None:
        change(cluster)
    return list(checks(cluster, env, planned))


def wrong(change: Callable[[FakeCluster], None], values: Values = WHOLE_GPU) -> list[tuple[str, str, str]]:
    """(place, check, status) of all that does not pass."""
    return [(c.place, c.name, c.status) for c in run(change, values) if c.status != "pass"]


@pytest.mark.parametrize("name", ["whole_gpu", "shares_of_one_gpu", "volcano_gang", "kai_fraction", "mig_mixed", "plain_vllm", "shared_cluster", "batch_job", "two_nodes_joined_by_nvlink"])  # fmt: skip
def test_a_cluster_as_planned_passes(name: str) -> None:
    found = run(values=SHAPES[name])
    assert [c for c in found if c.status != "pass"] == []
    assert status(found) == 0
    assert len(found) > 8


def l4(cluster: FakeCluster) -> Any:
    return next(n for n in cluster.lists["/api/v1/nodes"] if n["metadata"]["name"] == "l4-0")


def service(cluster: FakeCluster) -> dict[str, Any]:
    return cluster.object("RayService", "chat")


def group(cluster: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = service(cluster)["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    return found


POOL, CHAT = "node pool 'l4'", "service 'chat'"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda c: c.lists["/api/v1/nodes"].remove(l4(c)), (POOL, "nodes", "error")),
        (lambda c: l4(c)["status"]["allocatable"].update({"nvidia.com/gpu": "0"}), (POOL, "nvidia.com/gpu", "error")),
        (lambda c: l4(c)["status"]["allocatable"].pop("nvidia.com/gpu"), (POOL, "nvidia.com/gpu", "error")),
        (lambda c: l4(c)["status"]["allocatable"].update({"memory": "20Gi"}), (POOL, "memory", "error")),
        (lambda c: l4(c)["status"].update(conditions=[]), (POOL, "ready", "error")),
        (lambda c: l4(c)["spec"].update(taints=[]), (POOL, "taints", "warning")),
        (lambda c: l4(c)["spec"]["taints"].append({"key": "a", "effect": "NoSchedule"}), (POOL, "taints", "error")),
        (lambda c: l4(c)["metadata"]["labels"].update({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}), (POOL, "GPU", "error")),
        (lambda c: c.answers.update({"/version": {"major": "1", "minor": "33"}}), ("cluster", "Kubernetes", "error")),
        (lambda c: c.answers.pop("/apis/ray.io/v1"), (CHAT, "objects", "error")),
        (lambda c: service(c)["spec"].update(serveConfigV2="{}"), (CHAT, "RayService", "error")),
        (lambda c: group(c).update(maxReplicas=9), (CHAT, "RayService", "error")),
        (lambda c: group(c)["template"]["spec"]["containers"][0].update(image="other:1"), (CHAT, "RayService", "error")),
        (lambda c: service(c)["status"].update(conditions=[]), (CHAT, "running", "error")),
        (lambda c: service(c)["status"]["conditions"][1].update(status="True"), (CHAT, "running", "warning")),
        (lambda c: service(c)["status"]["activeServiceStatus"]["rayClusterStatus"].update(availableWorkerReplicas=0), (CHAT, "workers", "error")),
        (
            lambda c: service(c)["status"]["activeServiceStatus"]["applicationStatuses"]["chat"].update(status="DEPLOY_FAILED"),
            (CHAT, "application 'chat'", "error"),
        ),
        (lambda c: c.lists["/apis/apps/v1/deployments"].clear(), ("software 'gpu-operator'", "installed", "error")),
        (
            lambda c: c.lists["/apis/apps/v1/deployments"][0]["metadata"]["labels"].update({"helm.sh/chart": "gpu-operator-v25.3.0"}),
            ("software 'gpu-operator'", "version", "error"),
        ),
        (lambda c: c.lists["/apis/apps/v1/deployments"][0].update(status={}), ("software 'gpu-operator'", "running", "error")),
        (lambda c: c.lists.update({"/api/v1/nodes": "GET answers 403 Forbidden"}), ("node pools", "nodes", "unchecked")),
    ],
)  # fmt: skip
def test_what_drifts_is_found(change: Callable[[FakeCluster], None], expected: tuple[str, str, str]) -> None:
    assert expected in wrong(change)


def test_a_node_that_is_in_no_nvlink_fabric_is_found() -> None:
    def lost(cluster: FakeCluster) -> None:
        (node,) = [n for n in cluster.lists["/api/v1/nodes"] if n["metadata"]["name"] == "gb200-1"]
        del node["metadata"]["labels"]["nvidia.com/gpu.clique"]

    assert wrong(lost, SHAPES["two_nodes_joined_by_nvlink"]) == [("node pool 'gb200'", "NVLink", "warning")]


def test_quantities_in_other_words_and_what_the_server_adds_are_no_drift() -> None:
    def other_words(cluster: FakeCluster) -> None:
        container = group(cluster)["template"]["spec"]["containers"][0]
        for part in ("limits", "requests"):
            resources = container["resources"][part]
            resources["cpu"] = f"{int(float(resources['cpu']) * 1000)}m"
        container["terminationMessagePath"] = "/dev/termination-log"
        service(cluster)["metadata"]["finalizers"] = ["ray.io/x"]

    assert wrong(other_words, deep_merge(WHOLE_GPU, {"services": {"chat": {"worker": {"cpu": 4}}}})) == []


def test_an_autoscaler_may_write_replicas_of_a_shared_cluster() -> None:
    def scaled(cluster: FakeCluster) -> None:
        live = cluster.object("RayCluster", "shared")
        live["spec"]["workerGroupSpecs"][0].update(replicas=2, scaleStrategy={"workersToDelete": ["a"]})
        live["status"]["availableWorkerReplicas"] = 2

    assert wrong(scaled, SHAPES["shared_cluster"]) == []


def pod(name: str, gpus: int, labels: dict[str, str], node: str = "l4-0") -> dict[str, Any]:
    container = {"resources": {"limits": {"nvidia.com/gpu": f"{gpus}"}}}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {},
    }


def test_gpus_held_by_others_are_told_and_those_of_the_plan_pass() -> None:
    ours = {"llm-serving/service": "chat"}
    assert wrong(lambda c: c.lists["/api/v1/pods"].append(pod("mine", 1, ours))) == []
    assert wrong(lambda c: c.lists["/api/v1/pods"].append(pod("theirs", 1, {}))) == [(POOL, "GPUs held", "warning")]
    more = [pod(f"mine-{i}", 1, ours) for i in range(3)]
    assert wrong(lambda c: c.lists["/api/v1/pods"].extend(more)) == [(POOL, "GPUs held", "warning")]


@pytest.mark.parametrize(
    ("shape", "limits", "annotations"),
    [
        ("kai_fraction", {}, {"gpu-fraction": "0.45"}),
        ("volcano_vgpu", {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "10365"}, {}),
        ("time_sliced", {"nvidia.com/gpu": "1"}, {}),
    ],
)
def test_a_part_of_a_gpu_is_counted_as_that_part(shape: str, limits: Values, annotations: Values) -> None:
    held = {
        **pod("mine", 0, {"llm-serving/service": "small"}),
        "spec": {"nodeName": "l4-0", "containers": [{"resources": {"limits": limits}}]},
    }
    held["metadata"]["annotations"] = annotations
    (found,) = [c for c in run(lambda c: c.lists["/api/v1/pods"].append(held), SHAPES[shape]) if c.name == "GPUs held"]
    assert found.status == "pass"
    assert found.message.startswith(("0.45 of 1", "0.5 of 1"))


def test_a_pod_that_finds_no_place_is_shown_with_the_scheduler_s_words() -> None:
    waiting = pod("mine", 1, {"llm-serving/service": "chat"}, node="")
    waiting["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/2 nodes: Insufficient nvidia.com/gpu",
        }
    ]
    (found,) = [c for c in run(lambda c: c.lists["/api/v1/pods"].append(waiting)) if c.status != "pass"]
    assert (found.place, found.message) == (CHAT, "pod mine waits: 0/2 nodes: Insufficient nvidia.com/gpu")


def test_a_queue_that_was_changed_or_is_missing() -> None:
    def limited(cluster: FakeCluster) -> None:
        cluster.object("Queue", "team")["spec"]["capability"]["nvidia.com/gpu"] = "1"

    def gone(cluster: FakeCluster) -> None:
        cluster.answers.pop(next(path for path in cluster.answers if path.endswith("/queues/team")))

    assert wrong(limited, SHAPES["volcano_gang"]) == [("queue 'team'", "queue", "error")]
    assert wrong(gone, SHAPES["volcano_gang"]) == [("queue 'team'", "queue", "error")]


def test_a_deployment_scaled_by_hand_is_found() -> None:
    def scaled(cluster: FakeCluster) -> None:
        live = cluster.object("Deployment", "plain")
        live["spec"]["replicas"] = 3
        live["status"]["readyReplicas"] = 2

    assert ("service 'plain'", "running", "error") in wrong(scaled, SHAPES["plain_vllm"])


def test_a_job_that_failed_is_an_error() -> None:
    def failed(cluster: FakeCluster) -> None:
        cluster.object("RayJob", "batch")["status"] = {"jobStatus": "FAILED", "message": "exit code 1"}

    assert wrong(failed, SHAPES["batch_job"]) == [("service 'batch'", "running", "error")]
