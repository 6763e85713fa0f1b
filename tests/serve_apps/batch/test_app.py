"""What Ray Data LLM makes of the arguments that the stack writes: resources of the engine, of the stages around it, the task."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from components.config import deep_merge, parse
from components.plan import assemble
from local.engine import model
from local.engine.python import engine_command
from tests.components.environments import WHOLE_GPU

pytestmark = pytest.mark.engine
# Built in the engine environment; nothing is run. Ray's own stages say what each of them asks for.
PROGRAM = """
import json, sys
from serve_apps.batch.app import build
from serve_apps.batch.args import BatchArgs
found = []
for text in json.load(sys.stdin):
    stages = build(BatchArgs.model_validate(text)).stages
    found.append({
        name: {
            "num_cpus": stage.map_batches_kwargs.get("num_cpus"),
            "num_gpus": stage.map_batches_kwargs.get("num_gpus"),
            "accelerator": stage.map_batches_kwargs.get("accelerator_type"),
            "pool": [stage.map_batches_kwargs["compute"].min_size, stage.map_batches_kwargs["compute"].max_size],
            "task": stage.fn_constructor_kwargs.get("task_type"),
            "engine": stage.fn_constructor_kwargs.get("engine_kwargs"),
        } for name, stage in stages.items()
    })
print("FOUND", json.dumps(found))
"""


def arguments(**changes: Any) -> dict[str, Any]:
    """Those of a job on L4 GPUs, with the weights that the engine environment has."""
    job = {
        "kind": "ray_job",
        "app": "batch",
        "app_args": {"input": "s3://bucket/in.jsonl", "output": "s3://bucket/out"},
        "models": {"qwen": {"source": f"{model.FOLDER}"}},
    }
    planned = assemble(parse(deep_merge(WHOLE_GPU, {"services": {"chat": deep_merge(job, changes)}})))
    found = planned.stack.workloads[0].job_args
    assert found is not None
    return dict(found)


def test_ray_data_asks_for_what_was_stated() -> None:
    asked = [
        arguments(models={"qwen": {"replicas": {"min": 1, "max": 3}, "accelerator_type": "L4"}}),
        arguments(models={"qwen": {"gpu": {"share": 0.5}}}),
        arguments(app_args={"task": "embed"}),
        arguments(app_args={"chat": False}),
    ]
    command = engine_command(["python", "-c", PROGRAM], variables={"RAY_ENABLE_AUTO_CONNECT": "0"})
    result = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=240)
    assert result.returncode == 0, result.stderr[-3000:]
    whole, share, embed, plain = json.loads(result.stdout.split("FOUND ", 1)[1])
    engine = whole["vLLMEngineStage"]
    assert (engine["num_gpus"], engine["num_cpus"], engine["accelerator"]) == (1, 1, "L4")
    assert engine["pool"] == [1, 3]
    assert engine["engine"]["gpu_memory_utilization"] == 0.92
    assert share["vLLMEngineStage"]["num_gpus"] == 0.5
    assert share["vLLMEngineStage"]["engine"]["gpu_memory_utilization"] < 0.5
    assert list(whole) == ["ChatTemplateStage", "TokenizeStage", "vLLMEngineStage", "DetokenizeStage"]
    # the stages around the engine leave room for it on the smallest pod
    assert sum(stage["num_cpus"] for name, stage in whole.items() if name != "vLLMEngineStage") < 1
    assert list(embed) == ["TokenizeStage", "vLLMEngineStage"]
    assert embed["vLLMEngineStage"]["task"] == "embed"
    assert list(plain) == ["TokenizeStage", "vLLMEngineStage", "DetokenizeStage"]
