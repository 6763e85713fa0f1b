"""Doors of an endpoint on kinds that have none: said, and an error where somebody would believe a door shut."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import deep_merge, parse
from components.plan import assemble
from tests.components.shapes import SHAPES

GATEWAY = {"gateway": {"host": "chat.example.com", "tls_secret": "tls"}}


def said(shape: str, **changes: Any) -> list[tuple[str, str]]:
    (name,) = SHAPES[shape]["services"]
    software = {"gateway": {"install": True, "class_name": "envoy"}}
    env = parse(deep_merge(SHAPES[shape], {"services": {name: changes}, "software": software}))
    return [(f.severity, f.message) for f in assemble(env).plan.findings if f.rule == "config-unread"]


@pytest.mark.parametrize("shape", ["batch_job", "shared_cluster"])
def test_a_job_and_a_shared_cluster_publish_nothing_and_ask_nobody_for_a_key(shape: str) -> None:
    kind = {"batch_job": "ray_job", "shared_cluster": "ray_cluster"}[shape]
    assert said(shape, expose=GATEWAY, api_keys={"teams": ["keys"]}) == [
        ("error", f"kind {kind} does not read api_keys.teams: nothing comes of it"),
        ("warning", f"kind {kind} does not read expose.gateway.host, expose.gateway.tls_secret: nothing comes of them"),
    ]
    assert [severity for severity, _ in said(shape, expose={"ingress": {"host": "chat.example.com"}})] == ["warning"]
    assert said(shape, autoscaling={"enabled": True}) == []


def test_a_service_with_a_gateway_has_its_keys() -> None:
    assert said("whole_gpu", expose=GATEWAY, api_keys={"teams": ["keys"]}) == []
