"""The one exception of the local environment: what went wrong and what to do, for a person.

Not for bugs: those keep their traceback.
"""

from __future__ import annotations


class LocalError(Exception):
    """Something on this machine is in the way. `fix` says what the person can do."""

    def __init__(self, problem: str, *, fix: str) -> None:
        super().__init__(f"{problem}\n  to fix: {fix}")
        self.problem = problem
        self.fix = fix
