"""Another stack reads the endpoint through a real StackReference of the real engine."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from local import stack, tools

pytestmark = pytest.mark.e2e


def test_a_second_stack_reads_the_contract(up: None, tmp_path: Path) -> None:
    program = tmp_path / "consumer"
    shutil.copytree(Path(__file__).parent / "consumer", program)
    env = {"SERVING_STACK_CHECKOUT": str(stack.REPO)}
    stack.select("reader", cwd=program)
    try:
        stack.pulumi(
            "config", "set", "serving", "organization/llm-serving/local", "--stack", "reader", cwd=program, capture=True
        )
        stack.pulumi("up", "--yes", "--skip-preview", "--stack", "reader", cwd=program, env=env, capture=True)
        read = subprocess.run(
            ["kubectl", "get", "configmap", "llm-endpoint", "-o", "json"],
            env=tools.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(read.stdout)["data"] == {
            "OPENAI_BASE_URL": "http://chat-serve-svc.default.svc.cluster.local:8000/v1",
            "MODEL": "smollm2-135m-instruct",
        }
    finally:
        stack.pulumi("destroy", "--yes", "--skip-preview", "--stack", "reader", cwd=program, env=env, capture=True)
        stack.pulumi("stack", "rm", "--yes", "--stack", "reader", cwd=program, capture=True)
