"""NVLink between nodes: the ComputeDomain of a service, the claim of its pods, and when there is neither."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.config import deep_merge, parse
from components.manifests import releases
from components.plan import Planned, assemble
from policies import rules
from policies.facts.stack import reading
from policies.facts.wire import manifests
from tests.components.shapes import SHAPES


def planned(**changes: Any) -> Planned:
    return assemble(parse(deep_merge(SHAPES["two_nodes_joined_by_nvlink"], changes)))


def worker(made: Planned) -> dict[str, Any]:
    (group,) = made.manifests["huge"][0]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    pod: dict[str, Any] = group["template"]["spec"]
    return pod


def domains(made: Planned) -> list[dict[str, Any]]:
    return [each for each in made.manifests["huge"] if each["kind"] == "ComputeDomain"]


def charts(made: Planned) -> list[str]:
    return [release.name for release in made.stack.releases]


def test_pod_and_container_claim_the_channel_whose_template_the_domain_names() -> None:
    made = planned()
    (domain,) = domains(made)
    name = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    pod = worker(made)
    (claim,) = pod["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == name
    assert pod["containers"][0]["resources"]["claims"] == [{"name": claim["name"]}]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "4"
    head = made.manifests["huge"][0]["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
    assert "resourceClaims" not in head
    assert not [f for f in made.plan.findings if f.rule.startswith("compute-domain")]


def test_pods_of_a_service_prefer_the_rack_of_its_other_pods_and_do_not_wait_for_it() -> None:
    (term,) = worker(planned())["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"] == {
        "labelSelector": {"matchLabels": {"llm-serving/service": "huge"}},
        "topologyKey": "nvidia.com/gpu.clique",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"services": {"huge": {"models": {"llama": {"parallel": {"tensor": 4, "pipeline": 1}}}}}},
        {"services": {"huge": {"worker": {"compute_domain": False}}}},
        {"node_pools": {"gb200": {"gpu": "B200"}}},
    ],
)
def test_one_node_other_gpus_and_a_stated_no_have_no_domain(changes: dict[str, Any]) -> None:
    made = planned(**changes)
    assert domains(made) == []
    assert "resourceClaims" not in worker(made)
    assert "affinity" not in worker(made)


def test_a_stated_yes_brings_domain_and_driver_for_gpus_that_the_catalog_does_not_join() -> None:
    made = planned(node_pools={"gb200": {"gpu": "B200"}}, services={"huge": {"worker": {"compute_domain": True}}})
    assert domains(made)
    assert "dra-driver-nvidia-gpu" in charts(made)


def test_a_driver_that_is_there_is_not_installed_and_one_that_is_not_is_missed() -> None:
    there = planned(software={"dra_driver": {"install": False}})
    assert "dra-driver-nvidia-gpu" not in charts(there)
    assert "dra-driver-nvidia-gpu" in releases.present(
        parse(deep_merge(SHAPES["two_nodes_joined_by_nvlink"], {"software": {"dra_driver": {"install": False}}}))
    )
    assert not [f for f in there.plan.findings if f.rule == "compute-domain-driver"]


def test_where_the_operator_brings_the_driver_its_root_is_named() -> None:
    for stated, root in (("580.95.05", "/"), (None, "/run/nvidia/driver")):
        made = planned(node_pools={"gb200": {"driver_version": stated}})
        (found,) = [r for r in made.stack.releases if r.name == "dra-driver-nvidia-gpu"]
        assert found.values["nvidiaDriverRoot"] == root
        assert found.values["resources"]["gpus"] == {"enabled": False}
        assert not [f for f in made.plan.findings if f.rule == "compute-domain-driver"]


def test_manifests_of_others_are_judged_without_any_pool() -> None:
    """As `python -m policies.judge` reads them: the nodes are known by what the pods ask for."""
    made = planned()
    rayservice = json.loads(json.dumps(made.manifests["huge"][0]))
    (group,) = rayservice["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    pod = group["template"]["spec"]
    pod["nodeSelector"] = {"node.kubernetes.io/instance-type": "p6e-gb200.36xlarge"}

    def said(*objects: dict[str, Any]) -> list[tuple[str, str]]:
        stack = reading(manifests(objects, "file")).stack
        return [(f.rule, f.severity) for f in rules.check(stack) if f.rule.startswith("compute-domain")]

    (domain,) = domains(made)
    assert said(rayservice, domain) == []
    assert said(rayservice, {**domain, "metadata": {"name": "huge", "namespace": "other"}}) == [
        ("compute-domain-claim", "error")
    ]
    del pod["containers"][0]["resources"]["claims"]
    assert said(rayservice, domain) == [("compute-domain-claim", "error")]
    del pod["resourceClaims"]
    assert said(rayservice, domain) == [("compute-domain-channel", "warning")]
    assert said(rayservice) == [("compute-domain-channel", "warning")]


def test_engines_without_ray_claim_it_too_when_told_so() -> None:
    service = {"kind": "vllm", "worker": {"compute_domain": True}, "models": {"llama": {"parallel": {"pipeline": 1}}}}
    made = planned(services={"huge": service})
    deployment = made.manifests["huge"][0]
    assert deployment["kind"] == "Deployment"
    assert deployment["spec"]["template"]["spec"]["resourceClaims"]
    assert domains(made)
