"""Times read as a person says them, and every step says how it ended."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from local import progress


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (61, "1 min 01 s"), (1799.6, "30 min 00 s")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert progress.clock(seconds) == text


def test_a_step_that_fails_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), progress.step("building"):
        raise RuntimeError
    with progress.step("fetching"):
        pass
    lines = [line.split() for line in capsys.readouterr().err.splitlines() if "..." not in line]
    assert [line[:2] for line in lines] == [["failed", "building"], ["ok", "fetching"]]


def test_steps_of_two_threads_share_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(progress, "console", Console(file=written, force_terminal=True, width=80, color_system=None))
    inside = threading.Barrier(2)

    def work() -> None:
        with progress.step("fetching [bytes]"):
            inside.wait(10)

    other = progress.Beside(work)
    with progress.step("building") as current:
        current.detail = "half"
        inside.wait(10)
        other.finish()
    assert "ok  fetching [bytes]" in written.getvalue()
    assert "ok  building" in written.getvalue()
    assert progress._board._shown is None


def test_work_beside_raises_where_it_is_waited_for() -> None:
    def fail() -> None:
        raise ValueError("no network")

    work = progress.Beside(fail)
    with pytest.raises(ValueError, match="no network"):
        work.finish()
