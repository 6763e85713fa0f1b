"""The controls of the rules about engines: stacks of every shape on which none says anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from policies import rules
from policies.facts import Stack

from .engine_stacks import COMPLIANT, ENGINE, MODULES, found


@pytest.mark.parametrize("make", COMPLIANT.values(), ids=COMPLIANT.keys())
def test_no_rule_about_engines_objects_to_a_compliant_stack(make: Callable[[], Stack]) -> None:
    assert found(make()) == []


@pytest.mark.parametrize("make", COMPLIANT.values(), ids=COMPLIANT.keys())
def test_what_is_missing_at_the_packs_door_is_no_finding(make: Callable[[], Stack]) -> None:
    assert found(replace(make(), complete=False, pools=(), releases=(), autoscaler=None, cluster=None)) == []


def test_every_rule_about_engines_is_among_all_rules() -> None:
    assert set(ENGINE) <= set(rules.RULES)
    assert len(MODULES) == len({module.__name__ for module in MODULES})
