"""Hundreds of simulated GPU nodes (KWOK) and the real scheduler: every pod lands where the plan said, and nowhere else.

A simulated node has the labels, taints and resources that the plan ascribes to its pool; KubeRay and kube-scheduler are real.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from components.config import deep_merge, parse
from components.node_resources import extended_resources
from components.plan import Planned, assemble
from policies.facts import NodePool
from tests.components.shapes import LLAMA_70B, QWEN, SMALL
from tests.e2e.software.conftest import Engine, Kube
from tests.e2e.software.test_releases import manifests_config

pytestmark = pytest.mark.e2e

SIMULATED = {"kwok.x-k8s.io/node": "fake"}
DEDICATED = [{"key": "nvidia.com/gpu", "value": "present"}, {"key": "team", "value": "search", "effect": "NoExecute"}]
_TWO_NODES = {**LLAMA_70B, "parallel": {"tensor": 8, "pipeline": 2}}
# Node groups that Karpenter, which l40s is of, leaves alone: they start with the nodes that the services need.
POOLS: dict[str, dict[str, Any]] = {
    "core": {"instance_types": ["m7i.4xlarge"], "min": 2, "max": 40},
    "l4": {"instance_types": ["g6.2xlarge"], "min": 20, "max": 80},
    "l40s": {"kind": "karpenter", "instance_types": ["g6e.12xlarge"], "max": 60, "taints": DEDICATED},
    "h100": {"instance_types": ["p5.48xlarge"], "efa": True, "min": 10, "max": 40},
    "mig": {
        "instance_types": ["p4de.24xlarge"],
        "min": 2,
        "max": 20,
        "sharing": {"strategy": "mig", "mig_strategy": "mixed", "mig_profile": "2g.20gb"},
    },
    "sliced": {
        "instance_types": ["g6.2xlarge"],
        "min": 10,
        "max": 60,
        "sharing": {"strategy": "time_slicing", "replicas": 2, "rename_by_default": True},
    },
}
SERVICES: dict[str, dict[str, Any]] = {
    "whole": {"pool": "l4", "models": {"m": {**QWEN, "replicas": {"min": 9, "max": 9}}}},
    "search": {"pool": "l40s", "models": {"m": {**QWEN, "replicas": {"min": 7, "max": 7}}}},
    "big": {"pool": "h100", "models": {"m": {**LLAMA_70B, "replicas": {"min": 5, "max": 5}}}},
    "huge": {"pool": "h100", "models": {"m": {**_TWO_NODES, "replicas": {"min": 2, "max": 2}}}},
    "slices": {"pool": "mig", "models": {"m": {**SMALL, "replicas": {"min": 11, "max": 11}}}},
    "shared": {"pool": "sliced", "models": {"m": {**SMALL, "gpu": {"share": 0.45}, "replicas": {"min": 6, "max": 6}}}},
    "mixed": {
        "models": {"a": {**QWEN, "pool": "l4", "replicas": {"min": 2, "max": 2}}, "b": {**LLAMA_70B, "pool": "h100"}}
    },
    "autoscaled": {"pool": "l40s", "models": {"m": {**QWEN, "replicas": {"min": 3, "max": 9}}}},
    "plain": {"kind": "vllm", "pool": "l4", "models": {"m": {**QWEN, "replicas": {"min": 3, "max": 3}}}},
    "job": {"kind": "ray_job", "pool": "sliced", "worker": {"min": 4, "max": 4}, "job": {"entrypoint": "python -c 1"}},
}


def planned(services: dict[str, Any], pools: dict[str, Any] = POOLS) -> Planned:
    return assemble(
        parse(
            {
                "cluster": {"kind": "aws", "region": "us-east-1", "kubernetes_version": "1.34"},
                "image": "registry.example.com/llm-serve",
                "node_pools": pools,
                "software": {"kuberay": manifests_config()["software"]["kuberay"]},  # type: ignore[index]
                "services": services,
            }
        ),
        "software",
    )


def simulated(pool: NodePool, number: int) -> dict[str, Any]:
    """A node of the pool as its kubelet, device plugin and cloud would present it."""
    name = f"{pool.name}-{number:03}"
    resources = {
        "cpu": f"{pool.cpu_milli}m",
        "memory": f"{pool.memory_mib}Mi",
        "pods": "110",
        "ephemeral-storage": f"{pool.root_disk_gib or 100}Gi",
        **{key: str(count) for key, count in extended_resources(pool).items()},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": SIMULATED,
            "labels": {
                **pool.labels,
                "kubernetes.io/arch": "arm64" if pool.architecture == "arm64" else "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": next(iter(pool.instance_types), "existing"),
            },
        },
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]},
        "status": {"allocatable": resources, "capacity": resources},
    }


@pytest.fixture(scope="module")
def operator(kube: Kube, kwok: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """KubeRay on the real node, without a batch scheduler."""
    engine = Engine(tmp_path_factory.mktemp("placement"), kube.kubeconfig)
    engine.up(manifests_config())
    yield
    engine.destroy()


def run(kube: Kube, plan: Planned, nodes: dict[str, int]) -> None:
    """Nodes first, then every service."""
    kube.apply([simulated(pool, number) for pool in plan.pools for number in range(nodes[pool.name])])
    count = sum(nodes.values())

    def ready() -> bool:
        found = kube.get("nodes", "-l", "llm-serving/pool")["items"]
        conditions = [c for node in found for c in node["status"].get("conditions", []) if c["type"] == "Ready"]
        # A node starts with the taint not-ready, which the node controller takes away some time after the condition.
        taints = [
            t for node in found for t in node["spec"].get("taints", []) if t["key"].startswith("node.kubernetes.io/")
        ]
        return sum(c["status"] == "True" for c in conditions) == count and not taints

    kube.until(ready, f"{count} simulated nodes Ready", 400)
    kube.apply([each for manifests in plan.manifests.values() for each in manifests])


def clean(kube: Kube) -> None:
    kube("delete", "--wait=true", "rayservices,rayjobs,rayclusters,deployments,services", "--all", "-n", "default")
    kube(
        "delete", "pods", "--all", "-n", "default", "--grace-period=0", "--force", "--wait=false"
    )  # nothing runs in them
    kube.until(lambda: not kube.get("pods", "-n", "default")["items"], "no pods left", 180)
    kube("delete", "--raw", "/api/v1/nodes?labelSelector=llm-serving%2Fpool")  # one request, not one a node


Place = tuple[str, str, str]  # service, group ("head" for the head), pool


def expected(plan: Planned) -> Counter[Place]:
    """Pods by service, group and pool, as the plan has them at rest."""
    found: Counter[Place] = Counter()
    for spec in plan.specs:
        for group in spec.groups:
            found[spec.name, group.name, group.pool_name or ""] = group.replicas * group.hosts
        if spec.config.kind != "vllm":
            found[spec.name, "head", spec.head.pool_name or ""] = 1
    return found


def placed(kube: Kube) -> tuple[Counter[Place], list[dict[str, Any]]]:
    """Pods that are bound, by service, group and the pool of their node; and those that are not."""
    pools = {
        each["metadata"]["name"]: each["metadata"]["labels"].get("llm-serving/pool", "")
        for each in kube.get("nodes")["items"]
    }
    found: Counter[Place] = Counter()
    waiting = []
    for pod in kube.get("pods", "-n", "default")["items"]:
        labels = pod["metadata"]["labels"]
        node = pod["spec"].get("nodeName")
        if node is None:
            waiting.append(pod)
        elif "ray.io/cluster" in labels:
            head = labels["ray.io/node-type"] == "head"
            group = "head" if head else labels["ray.io/group"]
            owner = labels["ray.io/cluster"].rsplit("-", 1)[0]  # KubeRay adds five random letters
            found[owner, group, pools[node]] += 1
        else:
            found[labels["app.kubernetes.io/name"], "", pools[node]] += 1
    return found, waiting


def settled(kube: Kube, wanted: int, seconds: float = 240) -> tuple[Counter[Place], list[dict[str, Any]]]:
    """Once that many pods exist and the scheduler has looked at each."""

    def look() -> Any:
        found, waiting = placed(kube)
        judged = [c for pod in waiting for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"]
        done = sum(found.values()) + len(waiting) >= wanted and len(judged) == len(waiting)
        return (found, waiting) if done else None

    result: tuple[Counter[Place], list[dict[str, Any]]] = kube.until(look, f"{wanted} pods placed or refused", seconds)
    return result


def reasons(waiting: list[dict[str, Any]]) -> list[str]:
    """What the scheduler says of pods that it did not place."""
    return sorted({c["message"] for pod in waiting for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"})


def with_plain(places: Counter[Place]) -> Counter[Place]:
    """Deployments have no group label."""
    return Counter({(s, "" if s == "plain" else g, p): count for (s, g, p), count in places.items() if count})


def test_on_hundreds_of_nodes_every_pod_is_where_the_plan_said(kube: Kube, operator: None) -> None:
    plan = planned(SERVICES)
    assert [f.sentence() for f in plan.plan.findings if f.severity == "error"] == []
    wanted = with_plain(expected(plan))
    nodes = {pool.name: pool.max or 0 for pool in plan.pools}
    assert sum(nodes.values()) == 300
    try:
        run(kube, plan, nodes)
        stray = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "stray", "labels": {"app.kubernetes.io/name": "stray"}},
            "spec": {"containers": [{"name": "stray", "image": "none"}], "nodeSelector": {"kubernetes.io/os": "linux"}},
        }
        kube.apply([stray])
        found, waiting = settled(kube, sum(wanted.values()) + 1)
        assert reasons(waiting) == []
        strays = {place: count for place, count in found.items() if place[0] == "stray"}
        assert {pool for _, _, pool in strays} <= {"core", ""}  # a pod that tolerates nothing is on no GPU node
        assert found - Counter(strays) == wanted
    finally:
        kube("delete", "pod", "stray", "--ignore-not-found", "--wait=false")
        clean(kube)


def test_the_nodes_of_the_plan_are_enough_and_one_less_is_not(kube: Kube, operator: None) -> None:
    # Pods of one size in a pool: kube-scheduler spreads, so a pool of several sizes can be cut up with room to spare.
    services = {name: SERVICES[name] for name in ("whole", "big", "slices")}
    # Without Karpenter the cluster autoscaler begins at nothing, so that the plan's nodes are those that the services need.
    plan = planned(
        services,
        {name: {**pool, "min": 0} for name, pool in POOLS.items() if name in ("l4", "h100", "mig")}
        | {"core": POOLS["core"]},
    )
    needed = {pool.name: pool.nodes.max for pool in plan.plan.pools}
    assert (needed["l4"], needed["h100"], needed["mig"]) == (9, 3, 1)
    wanted = expected(plan)
    try:
        run(kube, plan, needed)
        found, waiting = settled(kube, sum(wanted.values()))
        assert reasons(waiting) == []
        assert found == wanted
    finally:
        clean(kube)
    for short in ("l4", "h100"):
        try:
            run(kube, plan, deep_merge(needed, {short: needed[short] - 1}))
            found, waiting = settled(kube, sum(wanted.values()))
            selectors = {pod["spec"]["nodeSelector"]["llm-serving/pool"] for pod in waiting}
            assert selectors == {short}
        finally:
            clean(kube)


def test_with_gpus_of_another_kind_alone_pods_wait_rather_than_land_there(kube: Kube, operator: None) -> None:
    plan = planned({"whole": SERVICES["whole"]})
    nodes = {pool.name: 3 if pool.name in ("core", "h100", "sliced", "l40s") else 0 for pool in plan.pools}
    try:
        run(kube, plan, nodes)
        found, waiting = settled(kube, 10)
        assert found == Counter({("whole", "head", "core"): 1})
        assert len(waiting) == 9
    finally:
        clean(kube)
