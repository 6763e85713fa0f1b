"""What a person sees of a long step: its name, a running clock, and its time at the end.

On a terminal the clock runs; elsewhere (CI) a line is printed at the start, every half minute and at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn

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

    @property
    def line(self) -> str:
        """The step as one line of text."""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.title}{detail} {clock(self.elapsed)}"


class _Board:
    """The running clocks of a terminal; steps of several threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: Progress | None = None

    def add(self, step: Step) -> TaskID:
        """Show a step."""
        with self._lock:
            if self._shown is None:
                columns = SpinnerColumn(), TextColumn("{task.fields[step].line}", markup=False)
                self._shown = Progress(*columns, console=console, transient=True)
                self._shown.start()
            return self._shown.add_task("", total=None, step=step)

    def remove(self, task: TaskID) -> None:
        """Take a step off; the last one takes the board away."""
        with self._lock:
            assert self._shown is not None
            self._shown.remove_task(task)
            if not self._shown.tasks:
                self._shown.stop()
                self._shown = None


_board = _Board()


@contextmanager
def step(title: str) -> Iterator[Step]:
    """Show `title` while the body runs, then its time, or that it failed and after how long."""
    current = Step(title)
    outcome = "[red]failed[/red]"
    with _on_terminal(current) if console.is_terminal else _in_lines(current):
        try:
            yield current
            outcome = "[green]ok[/green]"
        finally:
            end = f"[dim]{clock(current.elapsed)}[/dim]"
            console.print(f"  {outcome}  {escape(title)}  {end}", soft_wrap=True)


@contextmanager
def _on_terminal(current: Step) -> Iterator[None]:
    task = _board.add(current)
    try:
        yield
    finally:
        _board.remove(task)


@contextmanager
def _in_lines(current: Step) -> Iterator[None]:
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(_HEARTBEAT_S):
            console.print(f"  ... {current.line}", markup=False, soft_wrap=True)

    console.print(f"  ... {current.title}", markup=False, soft_wrap=True)
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


class Beside(threading.Thread):
    """Work done beside the caller's, for instance fetching while something else compiles."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Thread's body."""
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        """Wait for the work; raises what it raised."""
        self.join()
        if self._error:
            raise self._error
