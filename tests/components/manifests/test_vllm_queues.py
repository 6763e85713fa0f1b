"""Plain vLLM in a queue: the batch scheduler places its pods, and rules count them."""

from __future__ import annotations

from typing import Any

import pytest

from components.config import deep_merge, parse
from components.plan import assemble
from tests.components.shapes import SHAPES


def plain(shape: str, **changes: Any) -> tuple[dict[str, Any], list[str]]:
    """(pod template, ids of errors) of a shape's service as a plain vLLM."""
    name = next(iter(SHAPES[shape]["services"]))
    planned = assemble(parse(deep_merge(SHAPES[shape], {"services": {name: {"kind": "vllm", **changes}}})))
    errors = sorted({f.rule for f in planned.plan.findings if f.severity == "error"})
    template: dict[str, Any] = planned.manifests[name][0]["spec"]["template"]
    return template, errors


def test_kai_places_a_fraction_in_its_queue() -> None:
    template, errors = plain("kai_fraction")
    assert errors == []
    assert template["spec"]["schedulerName"] == "kai-scheduler"
    labels = template["metadata"]["labels"]
    assert (labels["kai.scheduler/queue"], labels["priorityClassName"]) == ("team", "inference")
    assert plain("kai_fraction", priority_class="train")[0]["metadata"]["labels"]["priorityClassName"] == "train"


@pytest.mark.parametrize("shape", ["volcano_gang", "volcano_vgpu"])
def test_volcano_reads_the_queue_from_an_annotation_of_the_pods(shape: str) -> None:
    template, errors = plain(shape, priority_class="high")
    assert errors == []
    assert template["spec"]["schedulerName"] == "volcano"
    assert template["spec"]["priorityClassName"] == "high"
    assert template["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] == "team"


def test_a_queue_that_does_not_exist_is_refused_and_a_fraction_without_one() -> None:
    assert plain("volcano_gang", queue="nobody")[1] == ["queue-exists"]
    assert "queue-label" in plain("kai_fraction", queue=None)[1]


def test_its_pods_count_against_the_queue() -> None:
    more = {"models": {"qwen": {"replicas": {"min": 9, "max": 9}}}}
    assert "queue-limit" in plain("volcano_gang", **more)[1]  # the queue is limited to 8 GPUs


def test_without_a_queue_the_default_scheduler_places_it() -> None:
    template, errors = plain("whole_gpu")
    assert errors == []
    assert "schedulerName" not in template["spec"]
