"""GCS fault tolerance with Redis: the head is deleted, and requests go on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from local import cluster
from local.images import redis, store
from local.settings import from_environment
from tests.e2e.kuberay import kubectl
from tests.e2e.load import Loop
from tests.e2e.modes import dashboard, stacks

pytestmark = pytest.mark.e2e
LABELS = {"app": "redis"}


def redis_objects() -> list[dict[str, Any]]:
    """A Redis with a password, as a person would have one beside the cluster."""
    reference = {"secretKeyRef": {"name": "redis", "key": "password"}}
    container = {
        "name": "redis",
        "image": redis.NAME,
        "imagePullPolicy": "Never",
        "command": ["redis-server", "--save", "", "--requirepass", "$(PASSWORD)"],
        "env": [{"name": "PASSWORD", "valueFrom": reference}],
        "readinessProbe": {"tcpSocket": {"port": 6379}},
    }
    metadata = {"name": "redis", "namespace": stacks.NAMESPACE}
    return [
        stacks.secret("redis", {"password": "only-here"}),
        stacks.secret("token", {"auth_token": "only-here-as-well-0123456789abcdef"}),
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": LABELS, "ports": [{"port": 6379}]},
        },
    ]


def head() -> dict[str, Any] | None:
    """The head when it is ready."""
    for pod in stacks.pods("ray.io/node-type=head"):
        conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
        if conditions.get("Ready") == "True":
            return pod
    return None


def test_requests_go_on_while_the_head_is_replaced(up: None, tmp_path: Path) -> None:
    node = cluster.up(from_environment())
    made = redis.made()
    if store.images(node).get(redis.NAME) != made.image.digest:
        store.load(node, [made])
    steady = stacks.service(
        stacks.RAY,
        models={"smollm2": stacks.MODEL},
        # A Secret of ours: one that KubeRay makes goes with the cluster before the job that empties Redis has started, which waits for it.
        auth={"secret": "token"},
        fault_tolerance={
            "backend": "redis",
            "redis_address": "redis:6379",
            "redis_password": {"secret": "redis", "key": "password"},
        },
    )
    with stacks.deployed(tmp_path, {"steady": steady}, redis_objects()), stacks.client("steady", timeout=60) as client:
        before, workers = head(), stacks.pods("ray.io/node-type=worker")
        assert before is not None
        ray = dashboard.cluster_of("steady")
        with Loop(client, pause=0.5, model="smollm2") as loop:
            time.sleep(3)
            kubectl("delete", "pod", before["metadata"]["name"], "-n", stacks.NAMESPACE, "--wait=false")

            def replaced() -> bool:
                now = head()
                return now is not None and now["metadata"]["uid"] != before["metadata"]["uid"]

            stacks.until("another head was ready", 300, replaced)
            stacks.until("the new head knew the replica", 120, lambda: dashboard.engines("steady", "smollm2") == 1)
            time.sleep(5)
        print(
            f"\n{len(loop.requests)} requests, longest {max(r.took for r in loop.requests):.1f} s, failed {loop.failed}"
        )
        assert loop.failed == []
        assert dashboard.cluster_of("steady") == ray
        names = [pod["metadata"]["uid"] for pod in workers]
        assert [pod["metadata"]["uid"] for pod in stacks.pods("ray.io/node-type=worker")] == names
        assert json.loads(kubectl("get", "rayservice", "steady", "-n", stacks.NAMESPACE, "-o", "json").stdout)
