"""The node's process 1 starts, restarts, replaces and ends services. Run here as a plain process, with no mounts to make."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.cluster import init
from local.files import write_text


class Node:
    """init.py at work on a folder."""

    def __init__(self, run: Path) -> None:
        self.run = run
        (run / "services").mkdir(parents=True)
        nothing = {"cgroup_procs": [], "tmpfs": [], "binds": [], "folders": [str(run / "made")], "sysctls": {}}
        (run / "node.json").write_text(json.dumps(nothing))
        self.process = subprocess.Popen([sys.executable, "-I", "-S", str(init.__file__), str(run)])
        self.until(lambda: (run / "status.json").exists())

    def define(self, name: str, *argv: str) -> None:
        spec = {
            "argv": list(argv),
            "env": {"GREETING": "hello"},
            "log": str(self.run / f"{name}.log"),
            "digest": "-".join(argv),
        }
        # In one step, as `up` does: process 1 may be reading the folder for the signal before this one.
        write_text(self.run / "services" / f"{name}.json", json.dumps(spec))
        self.process.send_signal(signal.SIGHUP)

    def remove(self, name: str) -> None:
        (self.run / "services" / f"{name}.json").unlink()
        self.process.send_signal(signal.SIGHUP)

    def status(self, name: str) -> dict[str, Any]:
        return dict(json.loads((self.run / "status.json").read_text()).get(name, {}))

    def until(self, done: Callable[[], object], seconds: float = 15) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, (self.run / "status.json").read_text()
            assert self.process.poll() is None
            time.sleep(0.02)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "run")
    yield node
    for path in (node.run / "services").glob("*.json"):
        path.unlink()
    node.process.send_signal(signal.SIGHUP)
    node.until(lambda: (node.run / "status.json").read_text() == "{}")
    node.process.terminate()
    assert node.process.wait(10) == 0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_service_is_started_with_its_environment_and_log(node: Node) -> None:
    node.define("one", "/bin/sh", "-c", "echo $GREETING; echo oops >&2; exec sleep 100")
    node.until(lambda: node.status("one").get("pid"))
    node.until(lambda: (node.run / "one.log").read_text() == "hello\noops\n")
    assert (node.run / "made").is_dir()


def test_a_service_that_dies_is_started_again(node: Node) -> None:
    node.define("one", "/bin/sleep", "100")
    node.until(lambda: node.status("one").get("pid"))
    first = node.status("one")["pid"]
    os.kill(first, signal.SIGKILL)
    node.until(lambda: node.status("one").get("pid") not in (0, first))
    assert node.status("one")["restarts"] == 1
    assert node.status("one")["last_exit"] == -signal.SIGKILL


def test_a_service_that_keeps_dying_is_tried_less_and_less_often(node: Node) -> None:
    node.define("bad", "/bin/sh", "-c", "echo x; exit 3")
    node.until(lambda: node.status("bad").get("restarts") == 2)
    time.sleep(1)
    assert (node.run / "bad.log").read_text().count("x") <= 4
    assert node.status("bad")["last_exit"] == 3


def test_a_program_that_is_not_there_is_reported_and_stops_nothing(node: Node) -> None:
    node.define("gone", "/no/such/program")
    node.define("one", "/bin/sleep", "100")
    node.until(lambda: node.status("one").get("pid"))
    assert node.status("gone")["pid"] == 0
    assert node.status("gone")["last_exit"] == 127


def test_a_changed_definition_replaces_the_process_and_leaves_the_others(node: Node) -> None:
    node.define("one", "/bin/sleep", "100")
    node.define("two", "/bin/sleep", "100")
    node.until(lambda: node.status("one").get("pid") and node.status("two").get("pid"))
    one, two = node.status("one")["pid"], node.status("two")["pid"]
    node.define("one", "/bin/sleep", "200")
    node.until(lambda: node.status("one").get("digest") == "/bin/sleep-200" and node.status("one")["pid"])
    assert not _alive(one)
    assert node.status("two")["pid"] == two


def test_a_removed_definition_ends_its_process(node: Node) -> None:
    node.define("one", "/bin/sleep", "100")
    node.until(lambda: node.status("one").get("pid"))
    pid = node.status("one")["pid"]
    node.remove("one")
    node.until(lambda: not node.status("one"))
    assert not _alive(pid)
