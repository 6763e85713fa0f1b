"""The wait for a model, against an OpenAI-style server of the test's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from local import ask, endpoint
from local.errors import LocalError
from tests.local.test_chat import Server

SERVED = {"namespace": "default", "service": "chat-serve-svc", "port": 8000}


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The endpoint cannot be reached for as many times as the list has reasons; then the test's server is there."""
    reasons: list[str] = []

    @contextmanager
    def reach(namespace: str, service: str, port: int) -> Iterator[str]:
        if reasons:
            raise LocalError(reasons.pop(0), fix="wait")
        yield server.url.removesuffix("/v1")

    monkeypatch.setattr(endpoint, "reach", reach)
    monkeypatch.setattr(ask.time, "sleep", lambda _: None)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield reasons
        server.shutdown()
        thread.join()


def test_pods_that_start_anew_are_waited_for(unreachable: list[str]) -> None:
    unreachable += ["pod is not running. Current status=Pending", "connection refused"]
    ask.wait_until_listed(SERVED, "tiny")
    assert unreachable == []


def test_the_wait_ends_with_the_last_reason(unreachable: list[str]) -> None:
    with pytest.raises(LocalError, match=r"default/chat-serve-svc does not list large after 0 s: it lists tiny"):
        ask.wait_until_listed(SERVED, "large", timeout_s=0)
