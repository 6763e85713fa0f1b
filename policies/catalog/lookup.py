"""The one error of a catalog miss, and the closest names for it.

For: every catalog here (GPUs, instance types, AMI types, models). Not for: validation of values that are no row.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

Row = TypeVar("Row")


class UnknownRow(LookupError):
    """A name that no row of a catalog carries.

    Attributes: `kind` (what was looked up, e.g. "instance type"), `given` (the name as written), `closest` (up to three
    names of rows, best first). The text is a clause without a full stop, so that a caller can put the place before it:
    "instance type 'p5.48xl' is not in the catalog; did you mean 'p5.48xlarge'?"
    """

    def __init__(self, kind: str, given: str, closest: tuple[str, ...], note: str = "") -> None:
        self.kind = kind
        self.given = given
        self.closest = closest
        text = f"{kind} {given!r} is not in the catalog"
        if closest:
            text += f"; did you mean {' or '.join(repr(name) for name in closest)}?"
        if note:
            text += f"{'' if closest else ';'} {note}"
        super().__init__(text)


def closest_names(given: str, names: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Up to `count` names that look most like `given`, best first; letter case is ignored."""
    import difflib  # only a miss pays for it

    by_folded = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(given.casefold(), by_folded, n=count, cutoff=0.6)
    return tuple(by_folded[name] for name in found)


def lookup(kind: str, given: str, rows: Mapping[str, Row], names: Iterable[str], note: str = "") -> Row:
    """The row of `given` in `rows` (whose keys are case-folded), or `UnknownRow` with the closest of `names`."""
    row = rows.get(given.casefold())
    if row is None:
        begun = tuple(name for name in names if name.casefold().startswith(given.casefold())) if given else ()
        raise UnknownRow(kind, given, begun[:3] or closest_names(given, names), note)
    return row
