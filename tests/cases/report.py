"""One public report as a pair: what was stated, and the same mended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from components.config import ConfigError

from .small import EXISTING, Config, planned

Patches: TypeAlias = tuple[Config, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """`broken` is answered by `rule`; `mended` has no error, and no finding of that rule.

    source: owner/repository and number, as on GitHub. severity: of the answer. rule "config": the file is refused as a whole.
    """

    source: str
    rule: str
    broken: Patches
    mended: Patches
    severity: str = "error"
    base: Any = None

    def said(self, patches: Patches) -> set[tuple[str, str]]:
        """(rule, severity) of all findings of the plan."""
        try:
            plan = planned(*patches, base=self.base or EXISTING).plan
        except ConfigError:
            return {("config", "error")}
        return {(finding.rule, finding.severity) for finding in plan.findings}

    def holds(self) -> None:
        """What was reported is said of the broken config, and its mended twin passes."""
        told(self.rule, self.severity, self.said(self.broken), self.said(self.mended))


def told(rule: str, severity: str, broken: set[tuple[str, str]], mended: set[tuple[str, str]]) -> None:
    """The rule speaks of what is broken; of what is mended it says nothing, and no rule has an error."""
    assert (rule, severity) in broken
    assert {each for each, level in mended if level == "error"} == set()
    assert rule not in {each for each, _ in mended}


def each(reports: Iterable[Report]) -> Any:
    """Parametrises a test over reports, named by source and rule."""
    return pytest.mark.parametrize("report", [pytest.param(r, id=f"{r.source} {r.rule}") for r in reports])
