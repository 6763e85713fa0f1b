"""A job's command as facts: the engine of our own app, nothing of a command of others."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from policies.facts import job, ray

ARGS: dict[str, Any] = {
    "concurrency": [2, 5],
    "llm_config": {
        "model_loading_config": {"model_id": "qwen", "model_source": "Qwen/Qwen2.5-7B-Instruct"},
        "engine_kwargs": {"max_model_len": 4096},
        "placement_group_config": {"bundle_per_worker": {"CPU": 1, "GPU": 0.5}},
    },
    "prompt": "It's {text}",
}


def command(args: Any, program: str = "python -m serve_apps.batch") -> str:
    return f"{program} {shlex.quote(json.dumps(args))}"


def manifest(entrypoint: str) -> dict[str, Any]:
    return {"kind": "RayJob", "metadata": {"name": "nightly"}, "spec": {"entrypoint": entrypoint, "rayClusterSpec": {}}}


def test_the_engine_of_a_batch_job_is_read_from_its_command() -> None:
    workload = ray.read(manifest(command(ARGS)))
    (engine,) = workload.engines
    assert (engine.model_id, engine.share, engine.engine_args["max_model_len"]) == ("qwen", 0.5, 4096)
    assert (engine.min_replicas, engine.max_replicas) == (2, 5)
    assert workload.job_args is not None
    assert workload.job_args["prompt"] == "It's {text}"


@pytest.mark.parametrize(
    "entrypoint",
    [
        "python run.py",
        "python -m serve_apps.batch",
        "python -m serve_apps.batch 'not JSON'",
        "python -m serve_apps.batch '[1]'",
        "python -m serve_apps.batch 'no end",
        "python -m other.batch '{}'",
        "echo serve_apps.batch '{}'",
    ],
)
def test_a_command_of_others_says_nothing(entrypoint: str) -> None:
    workload = ray.read(manifest(entrypoint))
    assert workload.engines == ()
    assert workload.job_args is None


@pytest.mark.parametrize("said", [None, 3, [1], ["a", "b"], [1, 2, 3]])
def test_an_odd_number_of_engines_is_one(said: Any) -> None:
    assert job.concurrency({"concurrency": said}) == (1, 1)


def test_another_python_is_a_python() -> None:
    assert job.arguments(command(ARGS, "cd /opt/app && /opt/engine/bin/python3.11 -m serve_apps.batch")) == ARGS
