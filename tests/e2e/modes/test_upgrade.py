"""A change that needs a new Ray cluster, under constant load: no request fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml

from local import stack
from tests.e2e.kuberay import kubectl
from tests.e2e.load import Arrivals, Loop
from tests.e2e.modes import stacks

pytestmark = pytest.mark.e2e


def status() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("get", "rayservice", "chat", "-o", "json").stdout)["status"]
    return found


def cluster() -> str:
    return str(status()["activeServiceStatus"]["rayClusterName"])


def settled(before: str) -> bool:
    now = status()
    return cluster() != before and not now.get("pendingServiceStatus", {}).get("rayClusterName")


@pytest.mark.timeout(2400)
def test_a_new_cluster_takes_over_and_no_request_fails(client: openai.OpenAI, tmp_path: Path) -> None:
    config = yaml.safe_load((stack.REPO / "Pulumi.local.yaml").read_text())
    config["config"]["llm-serving:services"]["chat"]["env"] = {"CHANGED": "1"}
    changed = tmp_path / "Pulumi.local.yaml"
    changed.write_text(yaml.safe_dump(config))
    before = cluster()
    try:
        with Loop(client) as loop, Arrivals(client) as arrivals:
            stack.up(config_file=changed)
            stacks.until("the new cluster answered", 900, lambda: settled(before))
            stacks.until(
                "the old cluster was gone",
                300,
                lambda: kubectl("get", "raycluster", before, check=False).returncode != 0,
            )
        for client_of in (loop, arrivals):
            longest = max(request.took for request in client_of.requests)
            print(f"\n{len(client_of.requests)} requests during the change, longest {longest:.1f} s")
            assert len(client_of.requests) > 10
            assert client_of.failed == []
    finally:
        now = cluster()
        stack.up()
        if now != before:
            stacks.until("the service was as before", 900, lambda: settled(now))
