"""Controls of the pack: what is compliant stays silent, alone and together, and an unknown value makes no rule cry."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any

import pytest

from components.config import Environment, load_file, parse
from components.plan import assemble
from policies import stated
from policies.facts.wire import Resource, manifests
from policies.judgement import Judged, judge
from tests.components.shapes import SHAPES

from .programs import program

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@functools.cache
def shape(name: str) -> tuple[Environment, list[Resource]]:
    env = parse(SHAPES[name])
    return env, program(env, assemble(env, "test"))


def said(judged: Judged, env: Environment) -> set[tuple[str, str]]:
    """(rule, severity) of findings that the environment has not waived."""
    return {(p.finding.rule, p.finding.severity) for p in judged.findings if env.policy.get(p.finding.rule) != "off"}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_pack_finds_in_our_own_resources_nothing_that_the_plan_did_not(name: str) -> None:
    env, resources = shape(name)
    plan = {(finding.rule, finding.severity) for finding in assemble(env, "test").plan.findings}
    judged = judge(resources)
    assert said(judged, env) <= plan
    assert judged.open == ()


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_resource_alone_is_refused_only_for_what_is_wrong_in_the_whole_as_well(name: str) -> None:
    env, resources = shape(name)
    whole = said(judge(resources), env)
    for resource in resources:
        assert {each for each in said(judge([resource]), env) if each[1] == "error"} <= whole, resource.name


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything that is no mapping and no list."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from leaves(each, (*path, index))
    else:
        yield path


# What names the object, and what no program takes from an output.
_FIXED = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


def fixed(path: tuple[Any, ...]) -> bool:
    """Names of volumes too: a mount and its volume are written together."""
    return path in _FIXED or (path[-1] == "name" and path[-3] in ("volumeMounts", "volumes"))


@pytest.mark.parametrize(
    "name", ["two_nodes", "kai_fraction", "plain_vllm_scaled_behind_an_ingress", "autoscaled_from_zero"]
)
def test_no_single_unknown_value_of_a_compliant_service_becomes_an_error(name: str) -> None:
    planned = assemble(parse(SHAPES[name]), "test")
    objects = [manifest for group in planned.manifests.values() for manifest in group]
    for index, whole in enumerate(objects):
        for path in leaves(whole):
            if fixed(path):
                continue
            manifest = copy.deepcopy(whole)
            holder: Any = manifest
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = UNKNOWN
            judged = judge(manifests([*objects[:index], manifest, *objects[index + 1 :]]))
            errors = [p.finding.sentence() for p in judged.findings if p.finding.severity == "error"]
            assert errors == [], path


@pytest.mark.parametrize("name", ["dev", "prod"])
@pytest.mark.parametrize("preview", [True, False], ids=["first preview", "update"])
def test_the_pack_finds_in_an_environment_on_aws_nothing_that_the_plan_did_not(name: str, preview: bool) -> None:
    env = load_file(f"Pulumi.{name}.yaml")
    known = stated.parse({"models": env.models, "budget": env.budget.model_dump()})
    planned = assemble(env, "test")
    plan = {(finding.rule, finding.severity) for finding in planned.plan.findings}
    judged = judge(program(env, planned, preview=preview), known)
    assert said(judged, env) <= plan
    assert judged.open == ()
