"""What is emitted before the real API server with KubeRay's real CRDs, and before KubeRay's own validation.

Every shape is taken by both; and what a rule says KubeRay refuses, one of the two refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from components.config import deep_merge, parse
from components.plan import Planned, assemble
from tests.components.shapes import SHAPES
from tests.e2e import kuberay

pytestmark = pytest.mark.e2e

PLANNED = {name: assemble(parse(shape), name) for name, shape in SHAPES.items()}
RAY = [name for name, planned in PLANNED.items() if planned.specs[0].config.kind != "vllm"]


@dataclass(frozen=True)
class Broken:
    """One thing broken: the rule that says so, words of KubeRay or its CRD about it, and changes to the service."""

    rule: str
    says: str
    service: dict[str, Any] = field(default_factory=dict)
    shape: str = "whole_gpu"

    @property
    def planned(self) -> Planned:
        shape = SHAPES[self.shape]
        ((name, service),) = shape["services"].items()
        return assemble(parse({**shape, "services": {name: deep_merge(service, self.service)}}))


def cluster(**changes: Any) -> dict[str, Any]:
    return {"patch": {"spec": {"rayClusterConfig": changes}}}


def worker(**changes: Any) -> dict[str, Any]:
    return cluster(workerGroupSpecs=[{"groupName": "l4", **changes}])


BROKEN: dict[str, Broken] = {
    "resources twice": Broken(
        "kuberay-resources-twice",
        "should not be set in both rayStartParams and Resources",
        worker(rayStartParams={"num-gpus": "1"}, resources={"GPU": "1"}),
    ),
    "labels as a parameter": Broken(
        "kuberay-labels",
        "rayStartParams['labels'] is not supported",
        cluster(headGroupSpec={"rayStartParams": {"labels": "a=b"}}),
    ),
    "a label that is none": Broken(
        "kuberay-labels",
        "invalid label key",
        worker(labels={"a b": "c"}),
    ),
    "Redis beside the options": Broken(
        "kuberay-fault-tolerance",
        "RAY_REDIS_ADDRESS is set which implicitly enables GCS fault tolerance",
        {"env": {"RAY_REDIS_ADDRESS": "redis:6379"}},
    ),
    "autoscaler v2 without autoscaler": Broken(
        "kuberay-autoscaler",
        "cannot be set to '1' when enableInTreeAutoscaling is false",
        {"head": {"env": {"RAY_enable_autoscaler_v2": "1"}}},
    ),
    "the autoscaler's version twice": Broken(
        "kuberay-autoscaler",
        "both .spec.autoscalerOptions.version and head Pod env var",
        {"head": {"env": {"RAY_enable_autoscaler_v2": "1"}}, "models": {"qwen": {"replicas": {"min": 1, "max": 2}}}},
    ),
    "restarts beside autoscaler v2": Broken(
        "kuberay-autoscaler",
        "should be Never or unset when using autoscaler V2",
        {
            "models": {"qwen": {"replicas": {"min": 1, "max": 2}}},
            **worker(template={"spec": {"restartPolicy": "Always"}}),
        },
    ),
    "tokens with an old Ray": Broken(
        "kuberay-token-auth",
        "minimum Ray version is 2.52.0",
        {"auth": {"mode": "token"}, **cluster(rayVersion="2.51.0")},
    ),
    "Kubernetes tokens of a RayService": Broken(
        "kuberay-token-auth",
        "not supported for RayService",
        {"auth": {"mode": "token", "kubernetes_tokens": True}},
    ),
    "a timeout that is none": Broken(
        "kuberay-initializing-timeout",
        "has invalid format: soon",
        {"annotations": {"ray.io/initializing-timeout": "soon"}},
    ),
    "a cluster's upgrade strategy in a service": Broken(
        "kuberay-gates",
        "upgradeStrategy cannot be set when RayCluster is created by RayService",
        cluster(upgradeStrategy={"type": "Recreate"}),
    ),
    "a pod without container": Broken(
        "kuberay-containers",
        "containers",
        worker(template={"spec": {"containers": None}}),
    ),
    "retries of an interactive job": Broken(
        "kuberay-job",
        "BackoffLimit is incompatible with InteractiveMode",
        {"job": {"submission_mode": "InteractiveMode", "backoff_limit": 2}},
        "batch_job",
    ),
    "a time to live of what stays": Broken(
        "kuberay-job",
        "cannot have TTLSecondsAfterFinished",
        {"job": {"shutdown_after_finish": False}, "patch": {"spec": {"ttlSecondsAfterFinished": 60}}},
        "batch_job",
    ),
}


AWAKE = "a time to live of what stays"  # suspended it has another fault


@pytest.fixture(scope="module")
def namespace(up: None) -> Iterator[None]:
    kuberay.make_namespace()
    yield
    kuberay.delete_namespace()


@pytest.fixture(scope="module")
def said(namespace: None) -> dict[str, str]:
    """name of a shape or of a broken one -> what was said against it, "" for nothing."""
    given = {name: PLANNED[name] for name in RAY} | {name: broken.planned for name, broken in BROKEN.items()}
    found, names = dict[str, str](), dict[str, str]()
    for index, (what, planned) in enumerate(given.items()):
        name = f"case-{index}"
        manifest = kuberay.suspended(_workload(planned), name)
        if what == AWAKE:
            manifest["spec"]["suspend"] = False
        refusal = kuberay.create(manifest)
        if refusal is not None:
            found[what] = refusal
        else:
            names[name] = what
    for name, verdict in kuberay.verdicts(names).items():
        found[names[name]] = verdict
    return found


def _workload(planned: Planned) -> dict[str, Any]:
    return next(iter(planned.manifests.values()))[0]


# Kinds of operators that the one-node cluster does not have: software/test_crds.py takes them to an API server that has their CRDs.
NOT_HERE = {
    *("ComputeDomain", "EnvoyProxy", "ExternalSecret", "Gateway", "HTTPRoute", "PodMonitor", "ScaledObject"),
    "SecurityPolicy",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_api_server_takes_every_object_of_a_shape(namespace: None, shape: str) -> None:
    served = kuberay.kinds()
    for objects in PLANNED[shape].manifests.values():
        for each in objects:
            if (each["apiVersion"], each["kind"]) in served:
                assert kuberay.dry_run(each) is None
            else:
                assert each["kind"] in NOT_HERE, f"{each['kind']} of {each['apiVersion']} is served by nobody"


@pytest.mark.parametrize("shape", RAY)
def test_kuberay_takes_every_shape(said: dict[str, str], shape: str) -> None:
    assert said[shape] == ""


@pytest.mark.parametrize("what", BROKEN)
def test_kuberay_refuses_what_a_rule_says_it_refuses(said: dict[str, str], what: str) -> None:
    broken = BROKEN[what]
    findings = [f for f in broken.planned.plan.findings if f.rule == broken.rule and f.severity == "error"]
    assert findings
    assert broken.says in said[what]


def test_an_unknown_field_is_refused_by_the_api_server(namespace: None) -> None:
    manifest = deep_merge(_workload(PLANNED["whole_gpu"]), {"spec": {"rayClusterConfig": {"rayVersoin": "2.60.0"}}})
    assert "rayVersoin" in str(kuberay.dry_run(manifest))
