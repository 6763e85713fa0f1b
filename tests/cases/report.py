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


def each(reports: Iterable[Report]) -> Any:
    """Parametrises a test over reports, named by source and rule."""
    return pytest.mark.parametrize("report", [pytest.param(r, id=f"{r.source} {r.rule}") for r in reports])
