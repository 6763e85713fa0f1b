"""What our rules pass, the API server and KubeRay's own validation take; what they refuse, a rule refuses.

Each change of `twists` is made alone to a shape that all take. A pod of each template is put before the API server as well: that is
where KubeRay's pods end. Not for: what a rule says KubeRay refuses, and it does (test_manifests.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kubernetes import client, config

from components.config import ConfigError, deep_merge, parse
from components.plan import Planned, assemble
from local import pins, tools
from tests.components.shapes import SHAPES
from tests.e2e import kuberay, twists

pytestmark = pytest.mark.e2e

GIVEN: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"service {json.dumps(change)}": ("whole_gpu", change) for change in twists.SERVICE},
    **{f"job {json.dumps(change)}": ("batch_job", change) for change in twists.JOB},
}


def planned(shape: str, change: Mapping[str, Any], name: str | None = None) -> Planned | None:
    """The plan for the KubeRay of this cluster; None where the file itself is refused."""
    given = SHAPES[shape]
    ((old, service),) = given["services"].items()
    release = {"software": {"kuberay": {"version": pins.KUBERAY.removeprefix("v")}}}
    try:
        return assemble(parse({**deep_merge(given, release), "services": {name or old: deep_merge(service, change)}}))
    except ConfigError:
        return None


def errors(plan: Planned) -> list[str]:
    return [finding.sentence() for finding in plan.plan.findings if finding.severity == "error"]


PLANNED = {what: plan for what, (shape, change) in GIVEN.items() if (plan := planned(shape, change)) is not None}
NAMED = {name: plan for name in twists.NAMES if (plan := planned("whole_gpu", {}, name)) is not None}


@pytest.fixture(scope="module")
def said(up: None) -> Iterator[dict[str, str]]:
    """What is said against each of them, "" for nothing: by the API server, by KubeRay, by the API server about a pod."""
    kuberay.make_namespace()
    try:
        yield _said()
    finally:
        kuberay.delete_namespace()


def _said() -> dict[str, str]:
    given = {f"twist-{index}": (what, plan) for index, (what, plan) in enumerate(PLANNED.items())}
    given |= {name: (name, plan) for name, plan in NAMED.items()}
    refused = {name: kuberay.create(kuberay.suspended(_workload(plan), name)) for name, (_, plan) in given.items()}
    accepted = [name for name, refusal in refused.items() if refusal is None]
    verdicts = kuberay.verdicts(accepted, 90, silence=True)
    found = dict[str, str]()
    for name, (what, plan) in given.items():
        found[what] = refused[name] or verdicts[name] or _pods_refused(_workload(plan))
    return found


def _workload(plan: Planned) -> dict[str, Any]:
    return next(iter(plan.manifests.values()))[0]


def _pods_refused(workload: Mapping[str, Any]) -> str:
    """What the API server says against pods of the templates. Names of what is not on this cluster are left out."""
    spec = workload["spec"]
    cluster = spec.get("rayClusterConfig") or spec.get("rayClusterSpec") or spec
    api = client.CoreV1Api(config.new_client_from_config(tools.environment()["KUBECONFIG"]))
    for group in (cluster["headGroupSpec"], *(cluster.get("workerGroupSpecs") or ())):
        pod = {**group["template"]["spec"], "serviceAccountName": "default"}
        metadata = {**group["template"].get("metadata", {}), "generateName": "twist-"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
        try:
            api.create_namespaced_pod("default", body, dry_run="All", field_validation="Strict")
        except client.ApiException as refusal:
            return str(refusal.body)
    return ""


@pytest.mark.parametrize("what", PLANNED)
def test_what_is_refused_there_a_rule_refuses_here(said: dict[str, str], what: str) -> None:
    assert not said[what] or errors(PLANNED[what]), said[what]


@pytest.mark.parametrize("name", NAMED)
def test_a_name_that_is_refused_there_a_rule_refuses_here(said: dict[str, str], name: str) -> None:
    assert bool(said[name]) == bool(errors(NAMED[name])), said[name]
