"""What a rule says, and what a rule is. Both doors (components before they create, the policy pack) use these words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .facts import Stack

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing found, before the rule's id is put on it."""

    place: str  # "service 'chat': model 'llama'", "node pool 'h100'", "RayService default/chat"
    severity: Severity
    message: str  # what was given and what is allowed
    mend: str  # what to do


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A problem with the id of the rule that found it."""

    place: str
    severity: Severity
    rule: str
    message: str
    mend: str

    def sentence(self) -> str:
        """The full sentence: where, what was given, what is allowed, what to do."""
        return f"{self.place}: {self.message}; {self.mend} [{self.rule}]"


def error(place: str, message: str, mend: str) -> Problem:
    """Certain to fail or to harm."""
    return Problem(place, "error", message, mend)


def warning(place: str, message: str, mend: str) -> Problem:
    """Likely wrong, slow or dear, but it can work."""
    return Problem(place, "warning", message, mend)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: a generator over the facts of a stack. It yields all it finds and raises nothing."""

    id: str  # stable, kebab-case, "<class>-<what>": gpu-share-memory
    title: str  # one line for the table of rules
    why: str  # two to four sentences with the mechanism, for the documentation page
    check: Callable[[Stack], Iterator[Problem]]
    sources: tuple[str, ...] = field(default=())  # public reports and source files: "ray#63875", URLs

    def findings(self, stack: Stack) -> Iterator[Finding]:
        for problem in self.check(stack):
            yield Finding(problem.place, problem.severity, self.id, problem.message, problem.mend)
