"""Fields of Ray's custom resources that the schema does not have, and values that it does not take.

Not for: fields that came with a newer KubeRay (cluster_versions.py), or what the operator checks itself (kuberay_*.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from policies.catalog.kuberay_schema import CONTAINER, KINDS, NEWEST, POD, Shape
from policies.catalog.lookup import closest_names
from policies.facts import Stack, Workload
from policies.facts.ray import LOADER
from policies.finding import Problem, Rule, error, warning

from ._values import listed, version

_KIND = {str: "text", int: "a whole number", bool: "true or false", float: "a number"}
_LONGEST = 12
Found = tuple[str, str, bool]  # message, mend, whether it is certain


def schema(stack: Stack) -> Iterator[Problem]:
    newer = (version(stack.versions.kuberay) or (0,))[:2] > (version(NEWEST) or ())
    for workload in stack.workloads:
        shape = KINDS.get(workload.kind)
        if shape is None:
            continue
        for message, mend, certain in (*_inside(workload.spec, shape, "spec"), *_job(workload)):
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


def _inside(values: Mapping[str, Any], shape: Shape, path: str) -> Iterator[Found]:
    for name in shape.get("!", ()):
        if values.get(name) is None:
            yield f"{path} has no {name}, which it must have", f"give it {name}", True
    for key, value in values.items():
        name = str(key)
        if name not in shape:
            yield _unknown(name, shape, path)
        elif value is not None:
            yield from _value(value, shape[name], f"{path}.{name}")


def _value(value: Any, kind: Any, path: str) -> Iterator[Found]:
    if kind is None:
        return
    if isinstance(kind, tuple):
        if value not in kind:
            near = closest_names(str(value), kind, 1)
            yield (
                f"{path} is {value!r}; allowed: {', '.join(kind)}",
                f"did you mean '{near[0]}'?" if near else "give one of these",
                True,
            )
    elif isinstance(kind, type):
        if not _is(value, kind):
            yield f"{path} is {value!r}; allowed: {_KIND[kind]}", "correct it, or leave it out", True
    elif "[]" in kind:
        if not isinstance(value, (list, tuple)):
            yield f"{path} is no list", "give a list", True
            return
        for index, each in enumerate(value):
            if isinstance(each, Mapping):
                yield from _inside(each, kind["[]"], f"{path}[{index}]")
    elif isinstance(value, Mapping):
        yield from _inside(value, kind, path)
    else:
        yield f"{path} is {value!r}; allowed: a mapping", "give a mapping", True


def _is(value: Any, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())  # numbers cross as floats
    return isinstance(value, (int, float)) if kind is float else isinstance(value, kind)


def _unknown(name: str, shape: Shape, path: str) -> Found:
    known = tuple(field for field in shape if field not in ("!", "[]"))
    near = closest_names(name, known, 1)
    below = next((field for field in known if isinstance(shape[field], Mapping) and name in shape[field]), None)
    names = listed(known, _LONGEST) if len(known) <= _LONGEST else f"{len(known)} fields"
    # A newer Kubernetes may have fields of pods that are not in the list; a misspelt one looks like its neighbour.
    if below is not None:
        return f"{path} has no field '{name}'", f"it belongs one level down, into {path}.{below}", True
    certain = bool(near) or not (shape is POD or shape is CONTAINER)
    return (
        f"{path} has no field '{name}': the API server drops or refuses it",
        f"did you mean '{near[0]}'?" if near else f"take it out; it has {names}",
        certain,
    )


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
