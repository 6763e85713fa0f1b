"""Servers to compare with, each in a sandbox of the engine environment: bare vLLM, and Ray Serve without Kubernetes.

Each is a context manager that yields the server's URL once it answers, and ends all it started. Not the stack: that one is up already.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from local.engine.python import engine_command
from local.errors import LocalError
from local.progress import step

_READY_S = 600.0


@contextmanager
def running(
    title: str, words: Sequence[str], url: str, *, folders: Mapping[str, Path], variables: Mapping[str, str]
) -> Iterator[str]:
    """Run a command in the engine environment until `url`/v1/models answers, and end it after the block. Raises LocalError."""
    if _answers(url):
        raise LocalError(f"another server answers at {url}", fix="end it, or give another port")
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            engine_command(words, read_only=folders, variables=variables),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            with step(f"starting {title}"):
                deadline = time.monotonic() + _READY_S
                while not _answers(url):
                    if process.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        raise LocalError(
                            f"{title} did not come up:\n{log.read()[-3000:].decode(errors='replace')}",
                            fix="read its log above",
                        )
                    time.sleep(0.5)
            yield url
        finally:
            process.kill()  # the sandbox's process 1: all that it started goes with it
            process.wait()


def bare(folder: str, name: str, engine_kwargs: Mapping[str, Any], env: Mapping[str, str], port: int) -> Any:
    """vLLM's own OpenAI server, with the engine arguments and environment of the stack's engine."""
    words = ["python", "-m", "vllm.entrypoints.openai.api_server", "--host=127.0.0.1", f"--port={port}"]
    words += [f"--model={folder}", f"--served-model-name={name}", *arguments(engine_kwargs)]
    return running("bare vLLM", words, f"http://127.0.0.1:{port}", folders={}, variables=env)


@contextmanager
def ray_serve(serve_config: Mapping[str, Any], variables: Mapping[str, str], port: int) -> Iterator[str]:
    """Ray Serve without Kubernetes, for measurements of single settings: a head of four logical CPUs and a Serve config file."""
    config = {**serve_config, "http_options": {"host": "127.0.0.1", "port": port}, "proxy_location": "HeadOnly"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "serve.yaml").write_text(json.dumps(config))
        script = (
            "ray start --head --num-cpus=4 --include-dashboard=false --disable-usage-stats --node-ip-address=127.0.0.1 --port=0"
            " && exec serve run /opt/bench/serve.yaml"
        )
        with running(
            "Ray Serve",
            ["bash", "-c", script],
            f"http://127.0.0.1:{port}",
            folders={"/opt/bench": Path(folder)},
            variables=variables,
        ) as url:
            yield url


def arguments(engine_kwargs: Mapping[str, Any]) -> list[str]:
    """Engine arguments as words of vLLM's command line; true is the bare flag, false its `--no-` form."""
    words = []
    for key, value in sorted(engine_kwargs.items()):
        flag = key.replace("_", "-")
        words.append(f"--{flag}" if value is True else f"--no-{flag}" if value is False else f"--{flag}={value}")
    return words


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v1/models", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
