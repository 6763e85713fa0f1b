"""What a RayService still lacks of its last change, from statuses as KubeRay 1.6.1 writes them."""

from __future__ import annotations

from typing import Any

import pytest

from local import arrival, kubectl
from local.errors import LocalError


def service(*, seen: int = 4, upgrade: str = "False", status: str = "RUNNING", message: str = "") -> dict[str, Any]:
    return {
        "metadata": {"namespace": "default", "name": "chat", "generation": 4},
        "status": {
            "observedGeneration": seen,
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "UpgradeInProgress", "status": upgrade}],
            "activeServiceStatus": {"applicationStatuses": {"chat": {"status": status, "message": message}}},
        },
    }


@pytest.mark.parametrize(
    ("live", "reason"),
    [
        (service(), None),
        (service(seen=3), "KubeRay has not seen it"),
        (service(upgrade="True"), "the new Ray cluster starts"),
        (service(status="DEPLOYING"), "DEPLOYING: application 'chat'"),
        (
            service(status="DEPLOY_FAILED", message="Traceback\nValueError: no memory"),
            "DEPLOY_FAILED: application 'chat': ValueError: no memory",
        ),
    ],
)
def test_a_change_has_arrived_when_operator_cluster_and_application_say_so(
    live: dict[str, Any], reason: str | None
) -> None:
    assert arrival.missing(live) == reason


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the cluster says of the RayService, one answer after the other."""
    answers: list[dict[str, Any]] = []
    monkeypatch.setattr(kubectl, "read", lambda *_: {"items": [service()]})
    monkeypatch.setattr(kubectl, "read_one", lambda *_: answers.pop(0))
    monkeypatch.setattr(arrival.time, "sleep", lambda _: None)
    return answers


def test_a_changed_service_is_waited_for(answers: list[dict[str, Any]]) -> None:
    answers += [service(seen=3), service(status="DEPLOYING"), service()]
    arrival.wait({"default/chat": 3})
    assert answers == []


@pytest.mark.parametrize("before", [{}, {"default/chat": 4}])
def test_a_new_or_unchanged_service_is_not(answers: list[dict[str, Any]], before: dict[str, int]) -> None:
    arrival.wait(before)


def test_a_change_that_serve_gave_up_is_an_error_at_once(answers: list[dict[str, Any]]) -> None:
    answers += [service(status="DEPLOY_FAILED", message="ValueError: no memory")]
    with pytest.raises(LocalError, match=r"the change of default/chat did not arrive: DEPLOY_FAILED.*no memory"):
        arrival.wait({"default/chat": 3})
