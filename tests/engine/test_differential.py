"""Generated configs: what the plan lets pass Ray and vLLM take, what they refuse the plan calls an error.

The rules are judged here, not the configs: a failure shows the smallest config that they get wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings

from components.config import ConfigError, parse
from components.plan import assemble
from local.engine.client import JudgeClient
from tests.engine import upstream
from tests.engine.configs import environments

pytestmark = pytest.mark.engine

# Rules that say no more than what Ray's builder and vLLM's argument checks say: an error of theirs must be one there.
MIRRORS = frozenset(
    (
        "accelerator-name",
        "engine-argument-keys",
        "engine-argument-kinds",
        "engine-argument-needs",
        "engine-arguments",
        "serve-app-args",
        "serve-llm-applications",
        "serve-llm-fields",
        "serve-llm-placement",
        "serve-option-values",
        "serve-replica-settings",
    )
)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(environment=environments())
def test_the_plan_and_upstream_agree_on_generated_configs(judge: JudgeClient, environment: dict[str, Any]) -> None:
    try:
        planned = assemble(parse(environment))
    except ConfigError:
        event("refused when it is read")
        return
    errors = [finding for finding in planned.plan.findings if finding.severity == "error"]
    refused = upstream.refusals(judge, planned)
    event(f"{'errors' if errors else 'no error'}, {'refused' if refused else 'taken'} by upstream")
    assert errors or not refused, refused
    if any(engine.device == "cpu" for workload in planned.stack.workloads for engine in workload.engines):
        return  # vLLM is asked here as on GPUs
    sure = [
        f.sentence() for f in errors if f.rule in MIRRORS and not any(name in f.message for name in upstream.STRICTER)
    ]
    assert refused or not sure, sure
