"""A RayJob over a file: rows from a ConfigMap, answers into a bucket; cleaned up; run again when its statement changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kuberay import kubectl
from tests.e2e.modes import bucket, stacks

pytestmark = pytest.mark.e2e
QUESTIONS = [
    {"id": 1, "question": "What is the capital of France?"},
    {"id": 2, "question": "What is the capital of Italy?"},
    {"id": 3, "question": "word " * 3000},  # over the model's context: its row has the reason, the others go on
]


def job(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("get", "rayjob", name, "-n", stacks.NAMESPACE, "-o", "json").stdout)
    return {**found.get("status", {}), "uid": found["metadata"]["uid"]}


def ended(name: str) -> dict[str, Any] | None:
    status = job(name)
    return status if status.get("jobDeploymentStatus") in ("Complete", "Failed") else None


def answered(files: dict[str, bytes]) -> dict[int, dict[str, Any]]:
    """Rows by their id."""
    return {row["id"]: row for content in files.values() for row in map(json.loads, content.splitlines())}


def test_a_batch_over_a_file_ends_in_a_bucket_and_leaves_no_pod_and_a_changed_one_runs_anew(
    up: None, tmp_path: Path
) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in QUESTIONS)
    with bucket.serving("answers") as answers:
        nightly = stacks.service(
            stacks.RAY,
            kind="ray_job",
            app="batch",
            app_args={
                "input": "/questions/questions.jsonl",
                "output": "s3://answers/nightly",
                "prompt": "{question}",
                "id_column": "id",
                "on_error": "keep",
                "sampling": {"max_tokens": 24},
            },
            volumes={"questions": {"mount_path": "/questions", "config_map": "questions"}},
            models={"smollm2": {k: v for k, v in stacks.MODEL.items() if k != "ray_actor_options"}},
            job={"ttl_seconds": 0},
            ready_timeout_seconds=None,  # nobody waits for a job
            worker={"resources": {"CPU": "2"}},
            **answers.service(),
        )
        objects = [answers.secret(), stacks.config_map("questions", {"questions.jsonl": lines})]
        with stacks.deployed(tmp_path, {"nightly": nightly}, objects) as project:
            status = stacks.until("the job ended", 480, lambda: ended("nightly"))
            assert status["jobStatus"] == "SUCCEEDED", status
            rows = answered(answers.read("nightly"))
            assert sorted(rows) == [1, 2, 3]
            assert "Paris" in rows[1]["response"]
            assert "Rome" in rows[2]["response"]
            assert rows[1]["error"] == ""
            assert rows[1]["output_tokens"] > 0
            assert rows[3]["response"] is None
            assert "maximum context length" in rows[3]["error"]
            assert answers.read("nightly.checkpoint") == {}  # all rows are done: nothing to go on from
            stacks.until("the job's pods were gone", 120, lambda: not stacks.pods("ray.io/node-type"))

            changed = stacks.service(
                nightly, app_args={"output": "s3://answers/second", "prompt": "Answer: {question}"}
            )
            project.up({"nightly": changed})
            again = stacks.until("the changed job ended", 480, lambda: ended("nightly"))
            assert again["jobStatus"] == "SUCCEEDED", again
            assert again["uid"] != status["uid"]  # KubeRay reads a job's spec once: another took its place
            assert sorted(answered(answers.read("second"))) == [1, 2, 3]
            assert sorted(answered(answers.read("nightly"))) == [1, 2, 3]
