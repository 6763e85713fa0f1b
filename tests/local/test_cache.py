"""The cache makes an entry once, whatever else runs, and never shows a half-made one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from local import cache

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "llm-serving-stack"


def test_an_entry_is_built_once_and_then_found(folder: Path) -> None:
    calls = []

    def build(target: Path) -> None:
        calls.append(target)
        (target / "file").write_text("made")

    first = cache.ensure("thing", "v1", build, recipe="abc")
    second = cache.ensure("thing", "v1", build, recipe="abc")
    assert first == second == folder / "entries" / "thing-v1-abc"
    assert (first / "file").read_text() == "made"
    assert len(calls) == 1
    assert cache.find("thing", "v1", "abc") == first


def test_another_version_or_recipe_is_another_entry() -> None:
    entries = {cache.ensure("thing", version, lambda _: None, recipe=recipe) for version in "12" for recipe in "ab"}
    assert len(entries) == 4


def test_a_build_that_fails_leaves_no_entry(folder: Path) -> None:
    def fail(target: Path) -> None:
        (target / "half").write_text("")
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        cache.ensure("thing", "v1", fail)
    assert cache.find("thing", "v1") is None
    assert list((folder / "entries").iterdir()) == []


def test_what_a_killed_run_left_is_thrown_away(folder: Path) -> None:
    program = (
        "import time; from pathlib import Path; from local import cache\n"
        "def build(target): (target / 'half').write_text(''); print('building', flush=True); time.sleep(60)\n"
        "cache.ensure('thing', 'v1', build)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "building\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (folder / "entries" / "thing-v1.part" / "half").exists()
    assert cache.find("thing", "v1") is None

    entry = cache.ensure("thing", "v1", lambda target: (target / "whole").touch())
    assert [path.name for path in entry.iterdir()] == ["whole"]


def test_runs_at_once_build_once_and_the_others_say_that_they_wait(tmp_path: Path) -> None:
    log, may_end = tmp_path / "builds", tmp_path / "may-end"
    program = (
        "import os, time; from pathlib import Path; from local import cache\n"
        "def build(target):\n"
        f"    open({str(log)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        f"    while not Path({str(may_end)!r}).exists(): time.sleep(0.05)\n"
        "print(cache.ensure('thing', 'v1', build))"
    )

    def start() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True)

    runs = [start()]
    while not log.exists():
        time.sleep(0.05)
    for run in (start(), start()):
        runs.append(run)
        assert run.stderr is not None
        assert run.stderr.readline() == "  ... waiting for another run that holds 'thing-v1'\n"
    may_end.touch()
    outputs = [run.communicate(timeout=60)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(set(outputs)) == 1
    assert len(log.read_text().split()) == 1


def test_a_lock_is_free_again_when_its_holder_is_killed() -> None:
    program = "import time; from local import cache\nwith cache.lock('x'): print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    begun = time.monotonic()
    with cache.lock("x"):
        assert time.monotonic() - begun < 5


def test_sharers_hold_a_lock_together_and_keep_out_who_wants_it_alone() -> None:
    program = "from local import cache\nwith cache.lock('x'): print('alone', flush=True)"
    with cache.shared("x"), cache.shared("x"):
        alone = subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            alone.wait(2)
    assert alone.communicate(timeout=20)[0] == "alone\n"


def test_who_does_not_want_to_wait_is_told_that_the_lock_is_held() -> None:
    with cache.shared("x"), cache.lock_if_free("x") as held:
        assert not held
    with cache.lock_if_free("x") as held:
        assert held


def test_a_relative_xdg_folder_is_ignored_as_the_specification_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "some/where")
    assert cache.root() == Path.home() / ".cache" / "llm-serving-stack"


def test_recipe_hashes_keep_their_parts_apart() -> None:
    assert cache.recipe_hash("ab", "c") != cache.recipe_hash("a", "bc")
    assert cache.recipe_hash("ab", "c") == cache.recipe_hash("ab", b"c")
