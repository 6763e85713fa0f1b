from __future__ import annotations

import pytest

from components.plan import assemble
from tests.components.aws_stacks import ALL, environment


@pytest.mark.parametrize("name", ALL)
def test_a_valid_stack_is_not_refused(name: str) -> None:
    findings = assemble(environment(name), name).plan.findings
    assert [each.sentence() for each in findings if each.severity == "error"] == []


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_environments_at_the_root_have_nothing_to_find(name: str) -> None:
    assert [each.sentence() for each in assemble(environment(name), name).plan.findings] == []
