"""A batch job from its statement: one command, whose engine is derived and judged like that of a service."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from components.config import ConfigError, deep_merge, parse
from components.plan import Planned, assemble
from tests.components.environments import WHOLE_GPU

JOB: dict[str, Any] = {
    "kind": "ray_job",
    "app": "batch",
    "app_args": {"input": "s3://bucket/in.jsonl", "output": "s3://bucket/out", "prompt": "It's {text}; $HOME"},
}


def planned(**changes: Any) -> Planned:
    return assemble(parse(deep_merge(WHOLE_GPU, {"services": {"chat": deep_merge(JOB, changes)}})))


def errors(plan: Planned) -> list[str]:
    return [finding.message for finding in plan.plan.findings if finding.severity == "error"]


def command(plan: Planned) -> dict[str, Any]:
    words = shlex.split(plan.manifests["chat"][0]["spec"]["entrypoint"])
    assert words[:3] == ["python", "-m", "serve_apps.batch"]
    return dict(json.loads(words[3]))


def test_the_command_is_derived_from_the_model_and_what_is_added() -> None:
    plan = planned(models={"qwen": {"replicas": {"min": 0, "max": 3}}})
    args = command(plan)
    assert errors(plan) == []
    assert args["concurrency"] == [1, 3]
    assert args["prompt"] == "It's {text}; $HOME"
    assert args["llm_config"]["engine_kwargs"]["gpu_memory_utilization"] == 0.92
    assert "deployment_config" not in args["llm_config"]
    job = plan.manifests["chat"][0]["spec"]
    assert (job["backoffLimit"], job["shutdownAfterJobFinishes"]) == (2, True)
    assert job["rayClusterSpec"]["workerGroupSpecs"][0]["maxReplicas"] == 3


def test_a_command_of_ones_own_wins() -> None:
    plan = planned(job={"entrypoint": "python mine.py"})
    assert plan.manifests["chat"][0]["spec"]["entrypoint"] == "python mine.py"


def test_the_engine_of_a_job_is_judged_like_that_of_a_service() -> None:
    plan = planned(models={"qwen": {"engine_args": {"max_model_len": 10_000_000}}})
    assert any("10000000" in message or "10,000,000" in message for message in errors(plan))


@pytest.mark.parametrize(
    "changes, sentence",
    [
        (
            {"app_args": {"batch_sise": 3}},
            "app 'batch' does not take its batch_sise: Extra inputs are not permitted",
        ),
        ({"app_args": {"output": None}}, "app 'batch' does not take its output: Field required"),
        (
            {"models": {"qwen": {"deployment_config": {"health_check_period_s": 3}}}},
            "app 'batch' does not take its llm_config.deployment_config: Extra inputs are not permitted",
        ),
        ({"models": {"qwen": None}}, "app 'batch' runs exactly one model, and 0 are given"),
    ],
)
def test_what_the_job_does_not_take_is_an_error(changes: dict[str, Any], sentence: str) -> None:
    assert errors(planned(**changes)) == [sentence]


def test_a_job_app_does_not_serve() -> None:
    with pytest.raises(ConfigError) as caught:
        planned(kind="ray_service")
    assert "app 'batch' is a job and kind is ray_service; give kind: ray_job, or an app that serves" in str(
        caught.value
    )


def test_volumes_are_in_every_container() -> None:
    plan = planned(
        volumes={
            "data": {"mount_path": "/data", "claim": "files", "read_only": False},
            "prompts": {"mount_path": "/prompts", "config_map": "prompts"},
            "other": {"mount_path": "/other", "source": {"csi": {"driver": "s3.csi.aws.com"}}},
        }
    )
    cluster = plan.manifests["chat"][0]["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert pod["volumes"] == [
            {"name": "data", "persistentVolumeClaim": {"claimName": "files"}},
            {"name": "other", "csi": {"driver": "s3.csi.aws.com"}},
            {"name": "prompts", "configMap": {"name": "prompts"}},
        ]
        assert [mount.get("readOnly", False) for mount in pod["containers"][0]["volumeMounts"]] == [False, True, True]


def test_a_volume_has_one_source() -> None:
    with pytest.raises(ConfigError) as caught:
        planned(volumes={"data": {"mount_path": "/data", "claim": "a", "secret": "b"}})
    assert "give exactly one of claim, config_map, secret, host_path, source; given: claim, secret" in str(caught.value)
