"""A service as resources: what it tells other stacks."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import deep_merge, parse
from components.llm_service import LlmService
from components.plan import assemble
from tests.components.environments import WHOLE_GPU
from tests.components.program import Program, run
from tests.components.shapes import SHAPES

JOB: dict[str, Any] = {"kind": "ray_job", "job": {"entrypoint": "python run.py"}}


@pytest.mark.parametrize(
    ("service", "serves"), [({}, True), ({"kind": "vllm"}, True), (JOB, False), ({"kind": "ray_cluster"}, False)]
)
def test_only_what_serves_has_an_endpoint(service: dict[str, Any], serves: bool) -> None:
    planned = assemble(parse(deep_merge(WHOLE_GPU, {"services": {"chat": service}})))
    (spec,) = planned.specs
    made = run(lambda: LlmService("chat", spec=spec, manifests=planned.manifests["chat"], findings=[]))
    assert (made.result.endpoint is not None) is serves


def made(shape: str) -> Program:
    planned = assemble(parse(SHAPES[shape]), shape)
    (spec,) = planned.specs
    return run(lambda: LlmService(spec.name, spec=spec, manifests=planned.manifests[spec.name], findings=[]))


def test_what_guards_a_service_is_made_before_it_and_what_leads_to_it_after() -> None:
    scaled, routed = made("plain_vllm_scaled_behind_an_ingress"), made("published_by_a_gateway_with_keys")
    before = scaled.needs(scaled.one("kubernetes:apps/v1:Deployment"))
    assert "kubernetes:networking.k8s.io/v1:NetworkPolicy plain-networkpolicy" in before
    for kind in ("keda.sh/v1alpha1:ScaledObject", "networking.k8s.io/v1:Ingress", "core/v1:Service"):
        after = scaled.needs(
            scaled.one(f"kubernetes:{kind}")
        )  # Pulumi waits for endpoints, and a scaler for its target
        assert "kubernetes:apps/v1:Deployment plain-deployment" in after, kind
    route = routed.needs(routed.one("kubernetes:gateway.networking.k8s.io/v1:HTTPRoute"))
    assert (
        "kubernetes:gateway.envoyproxy.io/v1alpha1:SecurityPolicy chat-securitypolicy" in route
    )  # never open for a moment
    assert "kubernetes:external-secrets.io/v1:ExternalSecret chat-externalsecret-team-keys" in route


def test_other_stacks_learn_the_published_address() -> None:
    assert made("published_by_a_gateway_with_keys").result.endpoint.public_base_url == "https://chat.example.com/v1"
    assert made("whole_gpu").result.endpoint.public_base_url is None


@pytest.mark.parametrize("shape", ["plain_vllm_scaled_behind_an_ingress", "published_by_a_gateway_with_keys"])
def test_every_object_is_a_resource_of_its_own(shape: str) -> None:
    names = [(each.type, each.name) for each in made(shape).resources]
    assert len(names) == len(set(names))


def test_objects_of_the_core_group_have_the_type_that_the_provider_knows() -> None:
    service = {"kind": "vllm", "service_account": "reader"}
    planned = assemble(parse(deep_merge(WHOLE_GPU, {"services": {"chat": service}})))
    (spec,) = planned.specs
    made = run(lambda: LlmService("chat", spec=spec, manifests=planned.manifests["chat"], findings=[]))
    assert {each.type for each in made.resources if each.type.startswith("kubernetes:")} >= {
        "kubernetes:apps/v1:Deployment",
        "kubernetes:core/v1:Service",
        "kubernetes:core/v1:ServiceAccount",
    }
    port = made.one("kubernetes:core/v1:Service").inputs
    assert (port["apiVersion"], port["kind"], port["metadata"]["name"]) == ("v1", "Service", "chat-serve-svc")
    assert port["spec"]["ports"][0]["targetPort"] == 8000
