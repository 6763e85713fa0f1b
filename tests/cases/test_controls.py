"""The environments the cases start from have no finding, so that each case shows what it changes."""

from __future__ import annotations

import pytest

from .small import AWS, EXISTING, KAI, TWO_NODES, VOLCANO, Config, planned


@pytest.mark.parametrize(
    ("patches", "base"),
    [((), AWS), ((), EXISTING), ((TWO_NODES,), AWS), ((KAI,), AWS), ((VOLCANO,), AWS)],
    ids=["aws", "existing", "two nodes", "kai", "volcano"],
)
def test_the_base_environments_have_no_finding(patches: tuple[Config, ...], base: Config) -> None:
    assert [finding.sentence() for finding in planned(*patches, base=base).plan.findings] == []
