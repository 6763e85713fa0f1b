"""Ports given as text, in probes, hooks and Services."""

from __future__ import annotations

from typing import Any

import pytest

from policies import rules
from policies.facts import Object, Stack

from .stacks import stack, with_workers


def pods(**container: Any) -> Stack:
    return with_workers(stack(), pod={"containers": [{"name": "ray-worker", "image": "x:1", **container}]})


def of_service(port: Any) -> Stack:
    manifest = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80, "targetPort": port}]}}
    names = {"kind": "Service", "name": "chat", "namespace": "default", "where": "Service default/chat"}
    return Stack(objects=(Object(api_version="v1", manifest=manifest, **names),))


def said(given: Stack) -> list[str]:
    return [f"{f.place}: {f.message}; {f.mend}" for f in rules.check(given, rules=rules.port_names.RULES)]


TEXT = "text is the name of a port, and a name has a letter, so the API server refuses the object; write 8000 without quotes"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            pods(readinessProbe={"httpGet": {"path": "/health", "port": "8000"}}),
            [f"service 'chat': worker group 'l4': container 'ray-worker': its readinessProbe asks port '8000': {TEXT}"],
        ),
        (
            pods(lifecycle={"preStop": {"httpGet": {"path": "/stop", "port": "8000"}}}),
            [f"service 'chat': worker group 'l4': container 'ray-worker': its preStop hook asks port '8000': {TEXT}"],
        ),
        (of_service("8000"), [f"Service default/chat: its port 80 asks port '8000': {TEXT}"]),
        (
            pods(ports=[{"name": "8000", "containerPort": 8000}]),
            [
                "service 'chat': worker group 'l4': container 'ray-worker': port name '8000' is none that Kubernetes takes; "
                "use lower-case letters, digits and '-', at least one letter, up to 15 characters"
            ],
        ),
        (pods(livenessProbe={"tcpSocket": {"port": 8000}}, ports=[{"name": "http-8000", "containerPort": 8000}]), []),
        (pods(livenessProbe={"httpGet": {"port": "8000-http"}}), []),
        (of_service("http"), []),
        (of_service(8000), []),
    ],
)
def test_a_number_in_quotes_is_a_name_without_a_letter(given: Stack, expected: list[str]) -> None:
    assert said(given) == expected
