"""Times read as a person says them, and every step says how it ended."""

from __future__ import annotations

import pytest

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
