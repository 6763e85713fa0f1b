"""What the plan says of a mistake, the policy pack says of the resources that come of it: each rule once, in whatever test it speaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from components.config import Environment
from components.plan.assemble import Planned
from policies.facts import Stack
from policies.judgement import judge
from tests.policies.programs import program

from . import small

_UNSAID = "it leaves no trace in the resources"
_ELSEWHERE = "another stack or hand may have made it"
SILENT = {
    "config-unread": _UNSAID,
    "pool-efa": _UNSAID,
    "serve-app-args": _UNSAID,
    "sharing-fields": _UNSAID,
    "sharing-scheduler": "how a pool is shared is not said of its nodes; pods that ask for a share are judged by sharing-resource",
    "startup-timeout": "how long Pulumi waits is no property of the object",
    "helm-one-scheduler": _ELSEWHERE,
    "helm-operator": _ELSEWHERE,
    "namespace-there": _ELSEWHERE,
    "operator-installed": _ELSEWHERE,
    "queue-exists": f"default-queue: {_ELSEWHERE}; a queue near one that is here is a warning",
    "upgrade-incremental": f"the GatewayClass: {_ELSEWHERE}",
    "fit-model-known": "a model without a row is not judged, and only our config has a place to describe it",
    "pool-scaled": "groups without GPUs are left alone: many clusters have one with room, and nobody who raises it",
}
"""Rules that may be silent at the pack's door, and why."""
_heard: set[str] = set()


@pytest.fixture(autouse=True)
def both_doors() -> Iterator[None]:
    small.PLANNED.clear()
    yield
    for env, planned in small.PLANNED:
        said = {finding.rule for finding in planned.plan.findings} - SILENT.keys() - _heard
        if said and not _mixed(planned):
            _heard.update(said)
            judged = judge(program(env, planned), _stated(env, planned.stack))
            assert said <= {placed.finding.rule for placed in judged.findings}


def _stated(env: Environment, stack: Stack) -> Stack:
    """What a team states to the pack: budget, versions, and what is there already."""
    there = env.cluster.kind == "existing"
    return Stack(
        budget=stack.budget,
        versions=stack.versions,
        models=stack.models,
        pools=stack.pools if there else (),
        queues=stack.queues if there else (),
    )


def _mixed(planned: Planned) -> bool:
    """Whether a Karpenter pool has GPUs of several kinds: which one comes is not the resources' to say."""
    return any(pool.kind == "karpenter" and len(pool.instance_types) > 1 for pool in planned.pools)
