"""Times that servers count, and autoscaling that counts something else than requests."""

from __future__ import annotations

import pytest

from policies.facts import Stack
from policies.rules import check

from .stacks import with_engine, with_service


def found(given: Stack) -> set[tuple[str, str]]:
    return {(finding.rule, finding.severity) for finding in check(given)}


@pytest.mark.parametrize(("seconds", "cut"), [(60, True), (30.0, True), (600, False), (0, False), (None, False)])
def test_a_short_request_timeout_cuts_long_answers_off(seconds: float | None, cut: bool) -> None:
    given = with_service(serve_config={"applications": [], "http_options": {"request_timeout_s": seconds}})
    assert (("serve-request-timeout", "warning") in found(given)) is cut


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({}, True),
        ({"policy_function": "ray.serve.autoscaling_policy:default_autoscaling_policy"}, True),
        ({"policy_function": "ray.serve.llm.autoscaling:TTFTAutoscalingPolicy", "policy_kwargs": {"ttft_target_s": 2}}, False),
    ],
)  # fmt: skip
def test_a_policy_of_its_own_needs_no_target_of_requests(policy: dict[str, object], said: bool) -> None:
    """ray-project/ray docs: serve/llm/user-guides/autoscaling.md."""
    options = {"autoscaling_config": {"min_replicas": 2, "max_replicas": 4, "policy": policy}}
    given = with_engine(
        deployment_config=options, autoscaled=True, min_replicas=2, max_replicas=4, target_ongoing_requests=None
    )
    assert (("serve-never-scales", "error") in found(given)) is said
