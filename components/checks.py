"""One thing that was looked at, in an account or a cluster, and a table of such things. "Could not be checked" is never a pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rich.markup import escape
from rich.table import Table

Status = Literal["pass", "warning", "error", "unchecked"]
MARKS = {
    "pass": "[green]ok[/green]",
    "warning": "[yellow]warning[/yellow]",
    "error": "[red]error[/red]",
    "unchecked": "[magenta]not checked[/magenta]",
}


@dataclass(frozen=True, slots=True, order=True)
class Check:
    """What was looked at (`place`), which question (`name`), what came out, and for anything but a pass what to do."""

    place: str
    name: str
    status: Status
    message: str
    mend: str = ""


def ok(place: str, name: str, message: str) -> Check:
    return Check(place, name, "pass", message)


def warning(place: str, name: str, message: str, mend: str) -> Check:
    return Check(place, name, "warning", message, mend)


def error(place: str, name: str, message: str, mend: str) -> Check:
    return Check(place, name, "error", message, mend)


def unchecked(place: str, name: str, why: str, mend: str = "") -> Check:
    return Check(place, name, "unchecked", f"could not be checked: {why}", mend)


def table(found: Iterable[Check]) -> Table:
    """The checks as a table, in the order they were made."""
    drawn = Table("where", "check", "", title=None, expand=False)
    drawn.add_column("found", overflow="fold")
    for check in found:
        text = check.message + (f"; {check.mend}" if check.mend else "")
        drawn.add_row(escape(check.place), check.name, MARKS[check.status], escape(text))
    return drawn


def status(found: Iterable[Check]) -> int:
    """Exit status of a run: 0 all passed (warnings too), 1 an error, 2 something could not be checked."""
    states = {check.status for check in found}
    return 1 if "error" in states else 2 if "unchecked" in states else 0
