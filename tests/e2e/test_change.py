"""Changes under load: a new context length without a failed request, and a worker that is deleted."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import openai
import pytest
import yaml

from local import stack, tools
from tests.e2e.conftest import MODEL
from tests.e2e.load import Arrivals, Loop

pytestmark = pytest.mark.e2e


def max_model_len(client: openai.OpenAI) -> int:
    (model,) = [model for model in client.models.list() if model.id == MODEL]
    error = None
    try:
        client.completions.create(model=MODEL, prompt="word " * 3000, max_tokens=1)
    except openai.BadRequestError as failure:
        error = str(failure.body)
    assert error, model
    for length in (768, 1024):
        if str(length) in error:
            return length
    raise AssertionError(error)


def test_a_new_context_length_fails_no_request(client: openai.OpenAI, tmp_path: Path) -> None:
    config = yaml.safe_load((stack.REPO / "Pulumi.local.yaml").read_text())
    config["config"]["llm-serving:services"]["chat"]["models"][MODEL]["engine_args"]["max_model_len"] = 768
    changed = tmp_path / "Pulumi.local.yaml"
    changed.write_text(yaml.safe_dump(config))
    assert max_model_len(client) == 1024
    try:
        with Loop(client) as loop, Arrivals(client) as arrivals:
            stack.up(config_file=changed)
            deadline = time.monotonic() + 300
            while max_model_len(client) != 768:
                assert time.monotonic() < deadline, "the new context length did not arrive in 300 s"
                time.sleep(2)
        for each in (loop, arrivals):
            longest = max(request.took for request in each.requests)
            print(f"\n{len(each.requests)} requests during the change, longest {longest:.1f} s")
            assert len(each.requests) > 10
            assert each.failed == []
    finally:
        stack.up()


def test_a_deleted_worker_heals_by_itself(client: openai.OpenAI) -> None:
    def workers() -> list[str]:
        result = subprocess.run(
            ["kubectl", "get", "pods", "-l", "ray.io/node-type=worker", "-o", "json"],
            env=tools.environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        return [pod["metadata"]["name"] for pod in json.loads(result.stdout)["items"]]

    deadline = time.monotonic() + 300
    while len(found := workers()) != 1:  # after an upgrade the old cluster stays for a minute
        assert time.monotonic() < deadline, found
        time.sleep(2)
    (worker,) = found
    patient = client.with_options(timeout=20)
    with Loop(patient) as loop:
        time.sleep(2)
        subprocess.run(["kubectl", "delete", "pod", worker, "--wait=false"], env=tools.environment(), check=True)
        time.sleep(10)
        deadline = time.monotonic() + 300
        while not (loop.requests and loop.requests[-1].error is None and worker not in workers()):
            assert time.monotonic() < deadline, "no request was answered 300 s after the worker was deleted"
            time.sleep(1)
    print(f"\nrequests failed for {loop.outage():.1f} s ({len(loop.failed)} of {len(loop.requests)})")
    assert loop.requests[-1].error is None
    assert loop.outage() < 300
