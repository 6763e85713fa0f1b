"""How long a replica stays in calm: longer than it takes to come back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.config import deep_merge, parse
from components.plan import assemble
from tests.components.shapes import SHAPES


def scaling(shape: str, model: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(autoscaling_config, findings about autoscaling) of a shape whose model is changed."""
    service = next(iter(SHAPES[shape]["services"]))
    name = next(iter(SHAPES[shape]["services"][service]["models"]))
    planned = assemble(parse(deep_merge(SHAPES[shape], {"services": {service: {"models": {name: model}}}})))
    config = json.loads(planned.manifests[service][0]["spec"]["serveConfigV2"])
    options = config["applications"][0]["args"]["llm_configs"][0]["deployment_config"]["autoscaling_config"]
    return options, [f.rule for f in planned.plan.findings if "zero" in f.rule or "scal" in f.rule]


def test_a_small_model_takes_serve_s_own_calm() -> None:
    options, _ = scaling("autoscaled_from_zero", {})
    assert (options["downscale_delay_s"], options["downscale_to_zero_delay_s"]) == (600.0, 1800.0)


def test_a_large_model_stays_for_as_long_as_its_cold_start_takes() -> None:
    options, findings = scaling("tensor_parallel", {"replicas": {"min": 0, "max": 2}})
    assert options["downscale_delay_s"] > 1000  # 131 GiB to download, to load, and a node to start
    assert options["downscale_delay_s"] % 60 == 0
    assert options["downscale_to_zero_delay_s"] >= 2 * options["downscale_delay_s"] - 60
    assert findings == []


@pytest.mark.parametrize("field", ["downscale_delay_s", "downscale_to_zero_delay_s"])
def test_what_is_stated_is_taken(field: str) -> None:
    options, _ = scaling("tensor_parallel", {"replicas": {"min": 0, "max": 2, field: 7}})
    assert options[field] == 7
