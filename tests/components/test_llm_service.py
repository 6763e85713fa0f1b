"""A service as resources: what it tells other stacks."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import deep_merge, parse
from components.llm_service import LlmService
from components.plan import assemble
from tests.components.environments import WHOLE_GPU
from tests.components.program import run

JOB: dict[str, Any] = {"kind": "ray_job", "job": {"entrypoint": "python run.py"}}


@pytest.mark.parametrize(("service", "serves"), [({}, True), ({"kind": "vllm"}, True), (JOB, False), ({"kind": "ray_cluster"}, False)])
def test_only_what_serves_has_an_endpoint(service: dict[str, Any], serves: bool) -> None:
    planned = assemble(parse(deep_merge(WHOLE_GPU, {"services": {"chat": service}})))
    (spec,) = planned.specs
    made = run(lambda: LlmService("chat", spec=spec, manifests=planned.manifests["chat"], findings=[]))
    assert (made.result.endpoint is not None) is serves
