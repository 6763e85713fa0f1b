"""Names that point at nothing that is seen, and what was meant: judged only where the one that was meant is seen.

What is not seen may be there all the same, so a name alone is no mistake. It is one where another is nearly the same, or where one is
seen that nothing names. Not for: catalogs, where a miss is a miss (policies.catalog.lookup).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from policies.catalog.lookup import closest_names
from policies.finding import Problem, error, warning


def lost(where: str, what: str, name: str, seen: Iterable[str], named: Collection[str], then: str) -> Iterator[Problem]:
    """A name that is not among those seen, where one of these was meant. what: its kind. named: all names that are used. then: what follows."""
    known = list(seen)
    if name in known:
        return
    near = closest_names(name, known, 1)
    idle = [each for each in known if each not in named]
    if near:
        yield error(where, f"{what} '{name}' is not there: {then}", f"did you mean '{near[0]}'?")
    elif len(idle) == 1:
        yield warning(
            where,
            f"{what} '{name}' is not seen, and nothing names '{idle[0]}', which is: {then}",
            f"did you mean '{idle[0]}'?",
        )
