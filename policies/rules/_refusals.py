"""Conditions that a kind's validation refuses, as rows of a table: where in the object, and what may not be there.

A check reads the mapping at a path and says what is wrong in it and what to do, or nothing. What cannot be read (a value that is yet to
come, a placeholder) is taken to be right. For: refused_*.py. Not for: fields and choices that a schema has (object_schema.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from policies.facts import Stack
from policies.facts.quantities import items, mapping, quantity, whole
from policies.facts.wire import PLACEHOLDER
from policies.finding import Problem, error

from ._values import listed

Values: TypeAlias = Mapping[str, Any]
Check: TypeAlias = Callable[[Values], tuple[str, str] | None]  # (what is wrong, what to do)
Rows: TypeAlias = tuple[tuple[str, Check], ...]  # path to a mapping ("spec.rules[].filters[]"), and what is asked of it
Table: TypeAlias = Mapping[tuple[str, str], tuple[str, Rows]]  # (kind, API group) -> (who refuses it, rows)
NOTHING: tuple[Any, ...] = (None, "", [], {})  # as the API server leaves a field out


def of_objects(table: Table, stack: Stack) -> Iterator[Problem]:
    """The check of a rule: what is refused of the stack's objects of these kinds."""
    for item in stack.of_kind(*{kind for kind, _ in table}):
        by, rows = table.get((item.kind, item.api_version.rpartition("/")[0]), ("", ()))
        for message, mend in refused(item.manifest, rows):
            yield error(item.where, f"{message}: {by} refuses it", mend)


def refused(values: Values, rows: Rows) -> Iterator[tuple[str, str]]:
    """(what is wrong and where, what to do) of each row that the object breaks."""
    for path, check in rows:
        steps = _steps(path)
        if steps and steps[0][0] not in values:
            continue
        for place, at in _at(values, steps, ""):
            found = check(at)
            if found:
                yield f"{place}: {found[0]}" if place else found[0], found[1]


@cache
def _steps(path: str) -> tuple[tuple[str, bool], ...]:
    """(field, whether it is a list whose items are meant) from the outside to the inside."""
    return tuple((name.removesuffix("[]"), name.endswith("[]")) for name in path.split(".")) if path else ()


def _at(values: Any, steps: tuple[tuple[str, bool], ...], place: str) -> Iterator[tuple[str, Values]]:
    if not steps:
        if isinstance(values, Mapping) and values:
            yield place, values
        return
    (name, several), rest = steps[0], steps[1:]
    inner = values.get(name) if isinstance(values, Mapping) else None
    if not inner:
        return
    here = f"{place}.{name}" if place else name
    if not several:
        yield from _at(inner, rest, here)
        return
    for number, each in enumerate(items(inner)):
        yield from _at(each, rest, f"{here}[{number}]")


def known(value: Any) -> bool:
    """Whether something is stated, and is what it will be."""
    return value is not None and PLACEHOLDER not in str(value)


def within(key: str, least: float | None = None, most: float | None = None) -> Check:
    """A quantity in bounds; a percentage counts where the bounds are those of one (0 to 100)."""

    def check(at: Values) -> tuple[str, str] | None:
        text = at.get(key)
        if text is None:
            return None
        number = quantity(text)
        if number is None and isinstance(text, str) and text.endswith("%"):
            number = whole(text[:-1])
        if number is None or ((least is None or number >= least) and (most is None or number <= most)):
            return None
        bounds = [f"at {word} {bound:g}" for word, bound in (("least", least), ("most", most)) if bound is not None]
        return f"{key} is {text}", f"give {' and '.join(bounds)}"

    return check


def together(*keys: str) -> Check:
    """Fields that exclude each other."""

    def check(at: Values) -> tuple[str, str] | None:
        given = [key for key in keys if at.get(key) not in NOTHING]
        return (f"it has {listed(given)}", "keep one of them") if len(given) > 1 else None

    return check


def one_of(*keys: str) -> Check:
    """Of these fields exactly one."""
    several = together(*keys)

    def check(at: Values) -> tuple[str, str] | None:
        if not any(key in at for key in keys):
            return f"it has none of {', '.join(keys)}", "give one of them"
        return several(at)

    return check


def needs(key: str, other: str, *values: object) -> Check:
    """A field goes with another one, and where values are given with one of these of it."""

    def check(at: Values) -> tuple[str, str] | None:
        given, beside = at.get(key), at.get(other)
        if given in (None, False, "", [], {}) or (beside is not None and not values) or beside in values:
            return None
        if beside is not None and not known(beside):
            return None
        wanted = f"{other}: {values[0]}" if values else other
        return (
            f"{key} is for {wanted}{f', which is {beside}' if beside is not None else ''}",
            f"set {wanted}, or leave {key} out",
        )

    return check


def only(key: str, value: object, *others: str) -> Check:
    """Where a field has this value, these others must be there."""

    def check(at: Values) -> tuple[str, str] | None:
        missing = [other for other in others if at.get(other) in NOTHING]
        return (f"{key} is {value} and it has no {', '.join(missing)}", f"give it {missing[0]}") if at.get(key) == value and missing else None  # fmt: skip

    return check


def without(key: str, value: object, *others: str) -> Check:
    """Where a field has this value, these others may not be there."""

    def check(at: Values) -> tuple[str, str] | None:
        given = [other for other in others if at.get(other) not in NOTHING]
        return (f"{key} is {value}, which takes no {listed(given)}", f"leave {given[0]} out") if at.get(key) == value and given else None  # fmt: skip

    return check


def choice(key: str, *allowed: str) -> Check:
    def check(at: Values) -> tuple[str, str] | None:
        given = at.get(key)
        fine = given in (None, "") or not known(given) or str(given) in allowed
        return None if fine else (f"{key} is '{given}'", f"give one of {', '.join(allowed)}")

    return check


def form(key: str, pattern: str, what: str) -> Check:
    """A text of a form, or a list of such texts."""
    compiled = re.compile(pattern)

    def check(at: Values) -> tuple[str, str] | None:
        for text in items(at.get(key)) or [at.get(key)]:
            if isinstance(text, str) and known(text) and "$(" not in text and not compiled.fullmatch(text):
                return f"{key} is '{text}'", f"give {what}"
        return None

    return check


def share(key: str) -> Check:
    """A number of pods, or a part of them."""
    return form(key, r"\d+|\d{1,2}%|100%", "a number, or a percentage to 100%")


def unlike(key: str, *fields: str, what: str = "") -> Check:
    """No two entries of a list are alike in these fields (none: in the entry itself)."""

    def check(at: Values) -> tuple[str, str] | None:
        entries = items(at.get(key))
        seen = [tuple(mapping(each).get(field) for field in fields) if fields else (each,) for each in entries]
        told = [each for each in seen if known(each[0]) and each[0] != ""]
        twice = [each for each, count in Counter(map(repr, told)).items() if count > 1]
        if not twice:
            return None
        first = next(each for each in told if repr(each) == twice[0])
        return f"{key} has {' '.join(map(str, filter(None, first)))} twice", f"give each {what or ' and '.join(fields) or 'one'} once"  # fmt: skip

    return check


def filled(*keys: str) -> Check:
    """Fields that may not be missing or empty."""

    def check(at: Values) -> tuple[str, str] | None:
        empty = [key for key in keys if at.get(key) in NOTHING]
        return (f"it has no {empty[0]}", f"give it {empty[0]}") if empty else None

    return check


def regex(key: str) -> Check:
    """A regular expression that compiles, as far as Go's and Python's agree: brackets that close, repeats that follow something."""

    def check(at: Values) -> tuple[str, str] | None:
        text = at.get(key)
        if not isinstance(text, str) or not known(text) or "\\" in text or "(?" in text:
            return None
        try:
            re.compile(text)
        except re.error as problem:
            return f"{key} '{text}' is no regular expression ({problem})", "correct it"
        return None

    return check
