"""Nothing is created from a config that cannot work: components call this before their first resource."""

from __future__ import annotations

from collections.abc import Iterable

from policies.finding import Finding


class Refused(Exception):
    """The plan has errors. The message is one full sentence for each."""

    user_facing = True

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        count = f"{len(findings)} error{'s' if len(findings) > 1 else ''}"
        super().__init__(f"refused, {count}:\n" + "\n".join(f"- {finding.sentence()}" for finding in findings))


def require(findings: Iterable[Finding]) -> None:
    """Raise Refused when a finding is an error; warnings pass (they are shown with the plan)."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise Refused(errors)
