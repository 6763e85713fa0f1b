"""Resources judged: what the rules find for certain, what hangs on a value that is not known yet, and where each belongs.

A value that a preview cannot know must neither silence a rule nor make it cry. So the rules run with such values left out, and
again with stand-ins; a finding is certain when it is there each time, in the same words: one that names a stand-in, or what is
in its place, may not hold for the real value. Not for: enforcement (server.py), or rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from policies.facts import Stack
from policies.facts.stack import EMPTY, Reading, reading
from policies.facts.wire import GUESSES, Resource
from policies.finding import Finding, Rule
from policies.rules import RULES, check

NOT_JUDGED = "not-judged"
_MOST_PATHS = 6


@dataclass(frozen=True, slots=True)
class Placed:
    """A finding and the URN of the resource it is about; "" for one about several, or about none."""

    finding: Finding
    urn: str


@dataclass(frozen=True, slots=True)
class Judged:
    """findings: certain ones, errors first. open: one for each resource of which something could not be judged."""

    findings: tuple[Placed, ...]
    open: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class Unknowns:
    """Why values are not known, and what to do: {rules} is what waits for them, with a comma before it, or nothing."""

    message: str
    mend: str


PREVIEW = Unknowns(
    "{names} cannot be known in this preview{rules}; all else has been judged",
    "the update judges it before it makes the resource; to have it judged now, take it from the config, not from an output",
)
PLACEHOLDERS = Unknowns(
    "{names}: not filled in{rules}; all else has been judged",
    "fill it in first (envsubst, sed), and judge the result",
)


# A stand-in of another type than the field's says nothing of the value that will come.
_OF_TYPES = frozenset({"kuberay-schema", "object-schema", "pod-schema", "serve-schema"})


def judge(
    resources: Iterable[Resource],
    known: Stack = EMPTY,
    rules: Sequence[Rule] = RULES,
    *,
    overrides: Mapping[str, str] | None = None,
    unknowns: Unknowns = PREVIEW,
) -> Judged:
    """Run the rules over the resources and what else is known. overrides: severities by rule, as for `check`."""
    given = tuple(resources)
    first = reading(given, known)
    found = check(first.stack, overrides, rules)
    if not first.not_known and not any(each.unknown for each in given):
        return Judged(tuple(Placed(f, first.origin(f.place)) for f in found), ())
    runs = [found, *(_checked(reading(given, known, each).stack, rules, overrides or {}) for each in GUESSES)]
    sure = set.intersection(*({_said(finding) for finding in run} for run in runs))
    placed = tuple(Placed(f, first.origin(f.place)) for f in found if _said(f) in sure)
    settled = {said[:3] for said in sure}
    unsure = {_said(f)[:3]: f for run in runs for f in run if _said(f)[:3] not in settled and f.rule not in _OF_TYPES}
    rest = [f for f in found if _said(f) not in sure and _said(f)[:3] in settled]
    return Judged(placed, tuple(_open(first, [*unsure.values(), *rest], unknowns)))


def _said(finding: Finding) -> tuple[str, str, str, str]:
    return finding.rule, finding.place, finding.severity, finding.message


def _checked(stack: Stack, rules: Sequence[Rule], overrides: Mapping[str, str]) -> list[Finding]:
    """All findings, of rules one by one: one that trips over a stand-in has found nothing."""
    found: list[Finding] = []
    for rule in rules:
        try:
            found.extend(check(stack, {rule.id: overrides[rule.id]} if rule.id in overrides else None, (rule,)))
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
            continue
    return found


def _open(first: Reading, unsure: Iterable[Finding], unknowns: Unknowns) -> Iterable[Placed]:
    """What is not known, resource by resource, with the rules that wait for it."""
    waiting: dict[str, list[Finding]] = {}
    for finding in unsure:
        waiting.setdefault(first.origin(finding.place), []).append(finding)
    for each in first.not_known:
        yield Placed(_not_judged(each.where, each.paths, waiting.pop(each.urn, ()), unknowns), each.urn)
    for urn, findings in sorted(waiting.items()):
        yield Placed(_not_judged(findings[0].place, ("values of other resources",), findings, unknowns), urn)


def _not_judged(where: str, paths: Sequence[str], waiting: Sequence[Finding], unknowns: Unknowns) -> Finding:
    names = ", ".join(paths[:_MOST_PATHS])
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    rules = sorted({finding.rule for finding in waiting})
    waits = f", so {', '.join(rules)} cannot be judged yet" if rules else ""
    return Finding(
        place=where,
        severity="warning",
        rule=NOT_JUDGED,
        message=unknowns.message.format(names=f"{names}{more}", rules=waits),
        mend=unknowns.mend,
    )
