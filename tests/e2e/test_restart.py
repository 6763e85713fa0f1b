"""A machine that stops in the middle of everything: `up` mends it, and waits for the engines that start anew."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from local import cluster, stack

pytestmark = pytest.mark.e2e


def test_up_answers_again_after_the_node_died(up: None) -> None:
    died = cluster.current().pid
    os.kill(died, signal.SIGKILL)  # process 1 of the node's namespace: the kernel ends all that runs in it
    while os.path.exists(f"/proc/{died}"):
        time.sleep(0.1)
    result = subprocess.run(["make", "up"], cwd=stack.REPO, capture_output=True, text=True, timeout=900, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "it answers" in result.stderr
