"""Fields of Ray's custom resources that the schema does not have, and values that it does not take.

Not for: fields that came with a newer KubeRay (cluster_versions.py), or what the operator checks itself (kuberay_*.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from policies.catalog.kuberay_schema import KINDS, NEWEST
from policies.facts import Stack, Workload
from policies.facts.ray import LOADER
from policies.finding import Problem, Rule, error, warning

from ._schema import Found, inside
from ._values import version


def schema(stack: Stack) -> Iterator[Problem]:
    newer = (version(stack.versions.kuberay) or (0,))[:2] > (version(NEWEST) or ())
    for workload in stack.workloads:
        shape = KINDS.get(workload.kind)
        if shape is None:
            continue
        for message, mend, certain in (*inside(workload.spec, shape, "spec"), *_job(workload)):
            yield (error if certain and not newer else warning)(workload.where, message, mend)


def _job(workload: Workload) -> Iterator[Found]:
    if workload.kind != "RayJob":
        return
    deletion = workload.spec.get("deletionStrategy")
    if isinstance(deletion, Mapping):
        ends, rules = [deletion.get("onSuccess"), deletion.get("onFailure")], deletion.get("deletionRules")
        if bool(rules) == any(ends) or (any(ends) and not all(ends)):
            yield (
                "spec.deletionStrategy needs either deletionRules, or both onSuccess and onFailure",
                "give deletionRules with at least one rule, or leave deletionStrategy out",
                True,
            )
    text = workload.spec.get("runtimeEnvYAML")
    if isinstance(text, str) and not _is_yaml(text):
        yield "spec.runtimeEnvYAML is no YAML: KubeRay refuses the job", "correct it", True


def _is_yaml(text: str) -> bool:
    try:
        return isinstance(yaml.load(text, Loader=LOADER) or {}, dict)
    except yaml.YAMLError:
        return False


RULES: tuple[Rule, ...] = (
    Rule(
        id="kuberay-schema",
        title="Custom resources have fields and values that their schema has",
        why=(
            "A misspelt field is dropped by the API server, or refused where the client asks for strict validation, and what it was meant for never happens. Values out "
            "of a field's choices are refused."
        ),
        check=schema,
        sources=("kuberay v1.7.0: helm-chart/kuberay-operator/crds",),
    ),
)
