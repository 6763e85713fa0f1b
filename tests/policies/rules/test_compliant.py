"""The controls: stacks of every shape on which no rule says anything, at both doors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from policies import rules
from policies.facts import Stack

from .stacks import COMPLIANT, found


@pytest.mark.parametrize("make", COMPLIANT.values(), ids=COMPLIANT.keys())
def test_no_platform_rule_objects_to_a_compliant_stack(make: Callable[[], Stack]) -> None:
    assert found(make()) == []


@pytest.mark.parametrize("make", COMPLIANT.values(), ids=COMPLIANT.keys())
def test_what_is_missing_at_the_packs_door_is_no_finding(make: Callable[[], Stack]) -> None:
    whole = make()
    assert found(replace(whole, complete=False, pools=(), queues=(), releases=(), autoscaler=None, cluster=None)) == []
    assert found(replace(whole, complete=False, workloads=())) == []


def test_an_empty_stack_has_no_finding() -> None:
    assert rules.check(Stack()) == ()
    assert rules.check(Stack(complete=True)) == ()


def test_ids_are_unique_kebab_case_and_titles_are_single_lines() -> None:
    ids = [rule.id for rule in rules.RULES]
    assert len(ids) == len(set(ids))
    for rule in rules.RULES:
        assert rule.id == rule.id.lower().replace("_", "-"), rule.id
        assert rule.title
        assert "\n" not in rule.title
        assert len(rule.why.split()) >= 8, rule.id
