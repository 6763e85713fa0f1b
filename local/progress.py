"""What a person sees of a long step: its name, a running clock, and its time at the end.

On a terminal the clock runs; elsewhere (CI) a line is printed at the start, every half minute and at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

console = Console(stderr=True, highlight=False)
_HEARTBEAT_S = 30.0


def clock(seconds: float) -> str:
    """Seconds as a person reads them: "0.4 s", "12 s", "3 min 05 s"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


class Step:
    """A running step; set `detail` for a word on how far it is."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.detail = ""
        self.started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self.started

    def line(self) -> str:
        """The step as one line of text."""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.title}{detail} {clock(self.elapsed)}"


@contextmanager
def step(title: str) -> Iterator[Step]:
    """Show `title` while the body runs, then its time, or that it failed and after how long."""
    current = Step(title)
    finished = threading.Event()

    def beat() -> None:
        if console.is_terminal:
            with console.status(title) as status:
                while not finished.wait(0.2):
                    status.update(current.line())
        else:
            while not finished.wait(_HEARTBEAT_S):
                console.print(f"  ... {current.line()}", markup=False, soft_wrap=True)

    if not console.is_terminal:
        console.print(f"  ... {title}", markup=False, soft_wrap=True)
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    outcome = "[red]failed[/red]"
    try:
        yield current
        outcome = "[green]ok[/green]"
    finally:
        finished.set()
        thread.join()
        console.print(f"  {outcome}  {title}  [dim]{clock(current.elapsed)}[/dim]", soft_wrap=True)
