"""Gangs by the real KubeRay with Volcano's real CRDs: every PodGroup is as large as the plan and the rules say.

Volcano's scheduler itself cannot be built from what is served; the pods stay pending, and the PodGroups are what is judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kubernetes.utils.quantity import parse_quantity

from components.config import deep_merge, parse
from components.plan import Planned, assemble
from policies.rules import gang
from tests.components.shapes import H100, L4, LLAMA_70B, QWEN
from tests.components.software_stacks import FLAT
from tests.e2e.software.conftest import Engine, Kube
from tests.e2e.software.test_releases import manifests_config

pytestmark = pytest.mark.e2e

POD_GROUP = "podgroups.scheduling.volcano.sh"
_AUTOSCALED = {**QWEN, "replicas": {"min": 2, "max": 5}}
_TWO_NODES = {**LLAMA_70B, "parallel": {"tensor": 8, "pipeline": 2}}
SERVICES: dict[str, dict[str, Any]] = {
    "fixed": {"queue": "serving", "models": {"qwen": {**QWEN, "pool": "l4", "replicas": {"min": 3, "max": 3}}}},
    "scaled": {
        "queue": "serving",
        "priority_class": "system-cluster-critical",
        "models": {"qwen": {**_AUTOSCALED, "pool": "l4"}},
    },
    "nodes": {"queue": "batch", "models": {"llama": {**_TWO_NODES, "pool": "h100"}}},
    "shared": {
        "kind": "ray_cluster",
        "pool": "l4",
        "queue": "batch",
        "autoscaling": {"enabled": False},
        "worker": {"min": 2, "replicas": 2, "max": 4},
    },
    "job": {
        "kind": "ray_job",
        "pool": "l4",
        "queue": "batch",
        "worker": {"min": 1, "max": 1},
        "job": {"entrypoint": "python -c 1"},
    },
}


def planned(**changes: Any) -> Planned:
    services = deep_merge(SERVICES, changes)
    return assemble(
        parse(
            {
                "cluster": {"kind": "existing", "kubernetes_version": "1.34"},
                "image": "registry.example.com/llm-serve",
                "node_pools": {"cpu": {"kind": "existing", "cpu": 7.5, "memory_gib": 28, "max": 6}, **L4, **H100},
                "queues": FLAT,
                "software": {"batch_scheduler": "volcano", "kuberay": manifests_config()["software"]["kuberay"]},  # type: ignore[index]
                "services": services,
            }
        ),
        "software",
    )


@pytest.fixture(scope="module")
def gangs(kube: Kube, volcano_module: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    """KubeRay handing pods to Volcano, our queues, and a service of every kind."""
    bases = volcano_module / "config" / "crd" / "volcano" / "bases"
    for name in ("podgroups", "queues"):
        kube("apply", "--server-side", "-f", str(bases / f"scheduling.volcano.sh_{name}.yaml"))
    engine = Engine(tmp_path_factory.mktemp("gangs"), kube.kubeconfig)
    config = manifests_config(batch_scheduler="volcano", volcano={"install": False})
    engine.up({**config, "queues": FLAT})
    made = planned()
    objects = [each for manifests in made.manifests.values() for each in manifests]
    kube.apply(objects)
    try:
        yield made
    finally:
        kube("delete", "--wait=true", "rayservices,rayjobs,rayclusters", "--all")
        engine.destroy()


def pod_group(kube: Kube, kind: str, service: str) -> dict[str, Any]:
    """The service's PodGroup: KubeRay names it after the RayJob, or after the RayCluster."""

    def look() -> Any:
        name = service
        if kind == "RayService":
            status = kube.get("rayservice", service).get("status", {})
            name = status.get("pendingServiceStatus", {}).get("rayClusterName") or status.get(
                "activeServiceStatus", {}
            ).get("rayClusterName")
        found = {each["metadata"]["name"]: each for each in kube.get(POD_GROUP)["items"]}
        return found.get(f"ray-{name}-pg")

    found: dict[str, Any] = kube.until(look, f"PodGroup of {service}")
    return found


def cluster_spec(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = manifest["spec"]
    return spec.get("rayClusterConfig") or spec.get("rayClusterSpec") or spec


def requested(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Resources of the head and of the workers that the gang waits for, from the manifest alone."""
    spec = cluster_spec(manifest)
    total: dict[str, Any] = {}

    def add(template: Mapping[str, Any], pods: int) -> None:
        for key, amount in template["spec"]["containers"][0]["resources"]["requests"].items():
            total[key] = total.get(key, 0) + parse_quantity(amount) * pods

    add(spec["headGroupSpec"]["template"], 1)
    for group in spec["workerGroupSpecs"]:
        count = group["minReplicas"] if spec["enableInTreeAutoscaling"] else group["replicas"]
        add(group["template"], count * group["numOfHosts"])
    return {key: amount for key, amount in total.items() if amount}


@pytest.mark.parametrize("service", SERVICES)
def test_a_gang_is_as_large_as_the_rules_reckon(service: str, gangs: Planned, kube: Kube) -> None:
    manifest = gangs.manifests[service][0]
    (workload,) = [each for each in gangs.stack.workloads if each.name == service]
    found = pod_group(kube, manifest["kind"], service)
    assert found["spec"]["minMember"] == 1 + gang.members(gangs.stack, workload)
    resources = {key: parse_quantity(amount) for key, amount in found["spec"]["minResources"].items()}
    assert {key: amount for key, amount in resources.items() if amount} == requested(manifest)
    assert found["spec"]["queue"] == SERVICES[service]["queue"]
    assert found["spec"].get("priorityClassName") == SERVICES[service].get("priority_class")


def test_the_queues_that_gangs_name_are_there(gangs: Planned, kube: Kube) -> None:
    names = {each["metadata"]["name"] for each in kube.get("queues.scheduling.volcano.sh")["items"]}
    assert {each["spec"]["queue"] for each in kube.get(POD_GROUP)["items"]} <= names


def test_every_pod_is_handed_to_volcano_in_its_gang_and_none_is_placed_by_others(gangs: Planned, kube: Kube) -> None:
    groups = {each["metadata"]["name"]: each["spec"]["minMember"] for each in kube.get(POD_GROUP)["items"]}

    def pods() -> Any:
        found = kube.get("pods", "-l", "ray.io/cluster")["items"]
        return found if len(found) >= sum(groups.values()) else None

    for pod in kube.until(pods, "the pods of all gangs"):
        assert pod["spec"]["schedulerName"] == "volcano"
        assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] in groups
        assert "nodeName" not in pod["spec"]


def test_a_gang_grows_and_shrinks_with_its_cluster(gangs: Planned, kube: Kube) -> None:
    for replicas in (4, 1):
        changed = planned(shared={"worker": {"min": 1, "replicas": replicas}})
        kube.apply(changed.manifests["shared"])
        (workload,) = [each for each in changed.stack.workloads if each.name == "shared"]
        wanted = 1 + gang.members(changed.stack, workload)
        assert wanted == 1 + replicas

        def grown(wanted: int = wanted) -> Any:
            found = pod_group(kube, "RayCluster", "shared")["spec"]
            return found if found["minMember"] == wanted else None

        found = kube.until(grown, f"PodGroup of {wanted}")
        resources = {key: parse_quantity(amount) for key, amount in found["minResources"].items()}
        assert {k: a for k, a in resources.items() if a} == requested(changed.manifests["shared"][0])


def test_an_autoscaled_gang_stays_at_its_fewest_while_ray_adds_workers(gangs: Planned, kube: Kube) -> None:
    before = pod_group(kube, "RayService", "scaled")
    name = before["metadata"]["name"].removeprefix("ray-").removesuffix("-pg")
    patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 4}]  # what Ray's autoscaler writes
    kube("patch", "raycluster", name, "--type=json", "-p", json.dumps(patch))
    selector = f"ray.io/cluster={name},ray.io/node-type=worker"
    kube.until(lambda: len(kube.get("pods", "-l", selector)["items"]) == 4, "four workers")
    assert pod_group(kube, "RayService", "scaled")["spec"]["minMember"] == before["spec"]["minMember"] == 3
