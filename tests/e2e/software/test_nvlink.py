"""Claims on IMEX channels before the real scheduler: simulated GB200 nodes publish their channel as NVIDIA's DRA driver does.

The driver's controller and plugin need the hardware; what they publish is written here as v0.5.0 writes it (deviceinfo.go,
templates/compute-domain-workload-claim-template.tmpl.yaml, the chart's DeviceClass). The pods are the service's own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from components.config import deep_merge, parse
from components.manifests.compute_domain import CLIQUE_LABEL
from components.plan import Planned, assemble
from tests.components.shapes import SHAPES
from tests.e2e.software.conftest import Kube
from tests.e2e.software.test_placement import simulated

pytestmark = pytest.mark.e2e

DRIVER, CLASS = "compute-domain.nvidia.com", "compute-domain-default-channel.nvidia.com"
RACKS = ("rack-a.1", "rack-a.1", "rack-b.1", "rack-b.1")  # four nodes in two
DEVICE_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": CLASS},
    "spec": {
        "selectors": [
            {
                "cel": {
                    "expression": f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'channel' && device.attributes['{DRIVER}'].id == 0"
                }
            }
        ]
    },
}


def published(node: str) -> dict[str, Any]:
    """The ResourceSlice of a node: one daemon, one channel."""
    devices = [
        {"name": f"{kind}-0", "attributes": {"type": {"string": kind}, "id": {"int": 0}}}
        for kind in ("channel", "daemon")
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def claim_template(domain: dict[str, Any]) -> dict[str, Any]:
    """What the driver's controller makes of a ComputeDomain."""
    name = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    request = {"name": "channel", "exactly": {"deviceClassName": CLASS}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": domain["metadata"]["namespace"]},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def planned(**worker: Any) -> Planned:
    return assemble(parse(deep_merge(SHAPES["two_nodes_joined_by_nvlink"], {"services": {"huge": {"worker": worker}}})))


def pods(made: Planned, count: int) -> list[dict[str, Any]]:
    """Pods of the worker group, as KubeRay would make them of its template."""
    (group,) = made.manifests["huge"][0]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    found = []
    for number in range(count):
        template = copy.deepcopy(group["template"])
        metadata = {**template["metadata"], "name": f"huge-{number}", "namespace": "default"}
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    return found


@pytest.fixture
def fabric(kube: Kube, kwok: None) -> Iterator[Kube]:
    """Four GB200 nodes in two racks, each with its channel."""
    (pool,) = [pool for pool in planned().pools if pool.gpu == "GB200"]
    nodes = [simulated(pool, number) for number in range(len(RACKS))]
    for node, rack in zip(nodes, RACKS, strict=True):
        node["metadata"]["labels"][CLIQUE_LABEL] = rack
        node["status"]["allocatable"]["vpc.amazonaws.com/efa"] = node["status"]["capacity"]["vpc.amazonaws.com/efa"] = (
            "4"
        )
    names = [node["metadata"]["name"] for node in nodes]
    kube.apply([DEVICE_CLASS, *nodes, *(published(name) for name in names)])

    def ready() -> bool:
        live = kube.get("nodes", *names)["items"]
        taints = [
            t for node in live for t in node["spec"].get("taints", []) if t["key"].startswith("node.kubernetes.io/")
        ]
        return len(live) == len(names) and not taints

    kube.until(ready, "simulated nodes Ready")
    yield kube
    kube("delete", "pods", "--all", "-n", "default", "--grace-period=0", "--force", "--wait=false")
    kube("delete", "resourceclaimtemplates,resourceclaims", "--all", "-n", "default")
    kube("delete", "nodes", *names)
    kube("delete", "resourceslices", *(f"{name}-{DRIVER}" for name in names))
    kube("delete", "deviceclass", CLASS)


def homes(kube: Kube, count: int, bound: int) -> list[str | None]:
    """Node of each pod, None where the scheduler found none; once `bound` have one and it has said of the others that they wait."""

    def look() -> Any:
        live = kube.get("pods", "-n", "default")["items"]
        # until its claim is there a pod is held back, and nothing is said of it
        said = [c for p in live for c in p["status"].get("conditions", []) if c["type"] == "PodScheduled"]
        found = [pod["spec"].get("nodeName") for pod in live]
        return found if len(said) == count and len([home for home in found if home]) == bound else None

    result: list[str | None] = kube.until(look, f"{bound} of {count} pods on nodes")
    return result


def test_the_two_pods_of_a_replica_get_a_channel_each_in_one_rack(fabric: Kube) -> None:
    made = planned()
    (domain,) = [each for each in made.manifests["huge"] if each["kind"] == "ComputeDomain"]
    fabric.apply([claim_template(domain), *pods(made, 2)])
    first, second = homes(fabric, 2, bound=2)
    rack = {
        node["metadata"]["name"]: node["metadata"]["labels"].get(CLIQUE_LABEL) for node in fabric.get("nodes")["items"]
    }
    assert first != second
    assert rack[first] == rack[second]
    claims = fabric.get("resourceclaims", "-n", "default")["items"]
    results = [claim["status"]["allocation"]["devices"]["results"][0] for claim in claims]
    assert {(each["pool"], each["device"]) for each in results} == {(first, "channel-0"), (second, "channel-0")}


def test_a_node_has_one_channel_though_it_has_gpus_for_two_pods(fabric: Kube) -> None:
    """What compute-domain-claim warns of, and why the plan counts one pod a node."""
    made = planned(gpus_per_pod=2)
    (group,) = made.specs[0].groups
    assert (group.gpus_per_pod, group.pods_per_node) == (2, 1)
    assert [f.severity for f in made.plan.findings if f.rule == "compute-domain-claim"] == ["warning"]
    (domain,) = [each for each in made.manifests["huge"] if each["kind"] == "ComputeDomain"]
    small = pods(made, 5)
    for pod in small:  # smaller than the plan makes them, so that CPU and memory would let two on a node
        for part in ("limits", "requests"):
            pod["spec"]["containers"][0]["resources"][part] |= {"cpu": "10", "memory": "10Gi"}
    fabric.apply([claim_template(domain), *small])
    assert len({home for home in homes(fabric, 5, bound=4) if home}) == 4
