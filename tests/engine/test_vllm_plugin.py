"""The plugin of the serve apps, found and loaded by the real vLLM as in a process of an engine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import serve_apps
from local.engine.python import APP, engine_command
from serve_apps.vllm_plugin import CPU_SPIN_SECONDS

pytestmark = pytest.mark.engine

WAITS = """
import json
from vllm.plugins import load_general_plugins
load_general_plugins()
import zmq
from vllm.distributed.device_communicators.shm_broadcast import MessageQueue
writer = MessageQueue(1, 1)
reader = MessageQueue.create_from_handle(writer.handle, 0)
writer.enqueue("a step")
print(json.dumps([reader.dequeue(timeout=10), reader._spin_condition.busy_loop_s]))
"""


def waits(folders: dict[str, Path]) -> list[object]:
    result = subprocess.run(
        engine_command(["python", "-c", WAITS], read_only=folders), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    found: list[object] = json.loads(result.stdout.splitlines()[-1])
    return found


def test_engines_of_the_image_wait_without_spinning() -> None:
    metadata = Path(serve_apps.__file__).parent / serve_apps.METADATA
    assert waits({f"{APP}/{serve_apps.METADATA}": metadata}) == ["a step", CPU_SPIN_SECONDS]


def test_without_the_metadata_vllm_is_as_it_comes() -> None:
    assert waits({}) == ["a step", 1]
