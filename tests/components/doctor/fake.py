"""A cluster that is exactly as planned, made from the plan, as the API server would answer; tests change one answer."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components import node_pools
from components.config import Environment
from components.doctor.live import Item, Refused
from components.manifests import releases
from components.node_resources import extended_resources
from components.plan import Planned, assemble
from policies.facts.nodes import nvlink_between_nodes

KINDS: dict[str, tuple[str, bool]] = {
    "RayService": ("rayservices", True),
    "RayCluster": ("rayclusters", True),
    "RayJob": ("rayjobs", True),
    "Deployment": ("deployments", True),
    "Service": ("services", True),
    "ServiceAccount": ("serviceaccounts", True),
    "ComputeDomain": ("computedomains", True),
    "NetworkPolicy": ("networkpolicies", True),
    "PodDisruptionBudget": ("poddisruptionbudgets", True),
    "Queue": ("queues", False),
}
STATUS: dict[str, dict[str, Any]] = {
    "RayService": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "UpgradeInProgress", "status": "False"}],
        "activeServiceStatus": {
            "applicationStatuses": {
                "chat": {"status": "RUNNING", "serveDeploymentStatuses": {"LLMServer": {"status": "HEALTHY"}}}
            },
            "rayClusterStatus": {"availableWorkerReplicas": 1},
        },
    },
    "Deployment": {"readyReplicas": 1, "availableReplicas": 1},
    "RayCluster": {"state": "ready", "availableWorkerReplicas": 1},
    "RayJob": {"jobStatus": "SUCCEEDED"},
}


@dataclass
class FakeCluster:
    """Answers by path. A string in place of an answer is why it is refused."""

    answers: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def get(self, path: str) -> Item | None:
        self.asked.append(path)
        return _answer(self.answers.get(path))

    def list(self, path: str, **query: str) -> list[Item] | None:
        self.asked.append(path)
        found: list[Item] | None = _answer(self.lists.get(path))
        return found

    def object(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """The live object, to change."""
        plural, namespaced = KINDS[kind]
        end = f"/{plural}/{name}"
        (path,) = [p for p in self.answers if p.endswith(end) and (not namespaced or f"/namespaces/{namespace}/" in p)]
        found: dict[str, Any] = self.answers[path]
        return found


def _answer(found: Any) -> Any:
    if isinstance(found, str):
        raise Refused(found)
    return copy.deepcopy(found)


def as_planned(env: Environment) -> tuple[FakeCluster, Planned]:
    """The cluster of an environment whose update has just ended."""
    planned = assemble(env, "dev")
    cluster = FakeCluster()
    major, minor = str(planned.stack.versions.kubernetes or "1.35").split(".")
    cluster.answers["/version"] = {"major": major, "minor": f"{minor}+"}
    for service in planned.plan.services:
        for manifest in planned.manifests[service.name]:
            _add(cluster, manifest, pods=int(sum(group.pods.min for group in service.groups)))
    for manifest in releases.queues(env, planned.pools):
        _add(cluster, manifest)
    plans = {plan.name: plan for plan in planned.plan.pools}
    cluster.lists["/api/v1/nodes"] = [
        node(pool, index) for pool in planned.pools for index in range(max(1, int(plans[pool.name].nodes.min)))
    ]
    cluster.lists["/api/v1/pods"] = []
    cluster.lists["/apis/apps/v1/deployments"] = [
        {
            "metadata": {
                "name": release.name,
                "namespace": release.namespace,
                "labels": {"helm.sh/chart": f"{release.chart.rsplit('/', 1)[-1]}-{release.version}"},
            },
            "spec": {"replicas": 1},
            "status": {"availableReplicas": 1},
        }
        for release in planned.stack.releases
    ]
    cluster.lists["/apis/apps/v1/daemonsets"] = []
    return cluster, planned


def _add(cluster: FakeCluster, manifest: Mapping[str, Any], pods: int = 0) -> None:
    version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    plural, namespaced = KINDS[kind]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    group = cluster.answers.setdefault(root, {"resources": []})
    group["resources"] += [
        {"name": plural, "kind": kind, "namespaced": namespaced},
        {"name": f"{plural}/status", "kind": kind, "namespaced": namespaced},
    ]
    place = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
    live = copy.deepcopy(dict(manifest))
    live["metadata"] = {**live["metadata"], "uid": "1", "resourceVersion": "7", "generation": 1}
    live["status"] = copy.deepcopy(STATUS.get(kind, {}))
    for status in (live["status"], live["status"].get("activeServiceStatus", {}).get("rayClusterStatus", {})):
        if "availableWorkerReplicas" in status:
            status["availableWorkerReplicas"] = pods
    if "spec" in live:
        live["spec"]["addedByTheServer"] = True
    cluster.answers[f"{root}{place}/{plural}/{metadata['name']}"] = live


def node(pool: node_pools.NodePool, index: int) -> dict[str, Any]:
    """A node as the plan takes it to be."""
    allocatable = {"cpu": f"{pool.cpu_milli}m", "memory": f"{pool.memory_mib}Mi", "pods": "110"}
    allocatable |= {name: f"{count}" for name, count in extended_resources(pool).items()}
    labels = dict(pool.labels)
    if nvlink_between_nodes(pool):
        labels["nvidia.com/gpu.clique"] = "7c5f-of-a-rack.1"
    return {
        "metadata": {"name": f"{pool.name}-{index}", "labels": labels},
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }
