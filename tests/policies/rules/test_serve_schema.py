"""Serve configs with one thing in them that Serve ignores or refuses."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from policies.facts.stack import EMPTY, reading
from policies.facts.wire import manifests
from policies.rules import check, serve_options, serve_schema

LLM = {
    "model_loading_config": {"model_id": "qwen", "model_source": "Qwen/Qwen3-8B"},
    "engine_kwargs": {"max_model_len": 4096},
}
APP = {
    "name": "llm",
    "route_prefix": "/",
    "import_path": "ray.serve.llm:build_openai_app",
    "args": {"llm_configs": [LLM]},
}
CONFIG: dict[str, Any] = {
    "http_options": {"port": "8000", "request_timeout_s": None},
    "applications": [APP],
}  # pydantic reads "8000"


def found(config: dict[str, Any]) -> list[tuple[str, str]]:
    spec = {"serveConfigV2": json.dumps(config), "rayClusterConfig": {"rayVersion": "2.60.0"}}
    service = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "chat", "namespace": "serving"},
        "spec": spec,
    }
    rules = (*serve_schema.RULES, *serve_options.RULES)
    return sorted(
        {(f.rule, f.severity) for f in check(reading(manifests([service], "x"), EMPTY).stack, {}, rules=rules)}
    )


def app(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(CONFIG), "applications": [{**copy.deepcopy(APP), **fields}]}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (CONFIG, []),
        (app(args={"llm_configs": ["models/qwen.yaml"]}), []),  # a file of the image, as Ray's own tests give it
        (app(args={"llm_configs": [7]}), [("serve-schema", "error")]),
        ({**CONFIG, "http_option": {}}, [("serve-schema", "warning")]),
        ({**CONFIG, "http_options": None}, [("serve-schema", "error")]),
        ({**CONFIG, "logging_config": {"loglevel": "INFO"}}, [("serve-schema", "error")]),
        ({"application": [APP]}, [("serve-schema", "error"), ("serve-schema", "warning")]),
        (app(port=8000), [("serve-schema", "error")]),
        (app(args={}), [("serve-schema", "error")]),
        (app(args={"llm_configs": [{**LLM, "log_engine_metrics": []}]}), [("serve-schema", "error")]),
        (
            app(args={"llm_configs": [LLM], "ingress_deployment_config": {"num_replica": 2}}),
            [("serve-option-values", "error")],
        ),
        (app(deployments=[{"name": "LLMServer:qwen", "max_queued_requests": 0}]), [("serve-option-values", "error")]),
        (app(deployments=[{"name": "LLMServer:qwen", "max_concurrent_queries": 5}]), [("serve-schema", "warning")]),
    ],
)
def test_what_serve_ignores_or_refuses_is_said(config: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert found(config) == expected
