"""A client of judge.py: starts it in the engine environment, asks, and raises what it refuses. For tests and tools on this machine."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from local.engine.python import engine_command

_FOLDER = "/opt/judge"
_HERE = Path(__file__).parent
_KEPT_LINES = 40


class Refused(Exception):
    """Ray or vLLM refused what it was asked. The text is theirs."""

    def __init__(self, text: str, kind: str, traceback: str) -> None:
        super().__init__(text)
        self.kind = kind
        """Name of the exception's class, for instance ValidationError."""
        self.traceback = traceback
        """Where it was raised, in the engine environment."""


class JudgeClient:
    """A running judge: a context manager. The first request of each library pays its imports (seconds), later ones milliseconds.

    Not for several threads at once.
    """

    def __init__(
        self,
        *,
        folders: Mapping[str, Path] | None = None,
        variables: Mapping[str, str] | None = None,
        gpu: bool = False,
    ) -> None:
        """`folders` can be read by the judge, by the path at which it sees them; `variables` are further environment variables.

        `gpu`: vLLM believes that it is on GPUs (pretended_gpu.py), and engine_args takes the GPU to judge for.
        """
        self._folders = {_FOLDER: _HERE, **(folders or {})}
        self._variables = {"RAY_ENABLE_AUTO_CONNECT": "0", "VLLM_LOGGING_LEVEL": "ERROR", **(variables or {})}
        if gpu:
            self._variables["JUDGE_GPU"] = "1"
        self._process: subprocess.Popen[str] | None = None
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)

    def __enter__(self) -> Self:
        """Start the judge. Raises LocalError when the engine environment cannot be made."""
        command = engine_command(["python", f"{_FOLDER}/judge.py"], read_only=self._folders, variables=self._variables)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        assert self._process.stderr is not None
        threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, kind: str, **request: Any) -> Any:
        """The answer to a request of judge.py. Raises Refused, and RuntimeError when the judge has died."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the judge is not running: use it in a `with` block")
        try:
            self._process.stdin.write(json.dumps({"kind": kind, **request}) + "\n")
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"the judge died with code {self._process.wait()}:\n" + "".join(self._said))
        answer = json.loads(line)
        if not answer["ok"]:
            raise Refused(answer["error"], answer["type"], answer["traceback"])
        return answer["result"]

    def llm_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """What Ray Serve LLM makes of an LLMConfig: {"engine": {bundles, strategy, kwargs, env_vars}, "deployment": {...}}."""
        return dict(self.ask("llm_config", config=config))

    def build_app(self, import_path: str, args: Mapping[str, Any]) -> dict[str, Any]:
        """The deployments that an application of a Serve config would have: {"ingress": name, "deployments": [...]}."""
        return dict(self.ask("build_app", import_path=import_path, args=args))

    def serve_schema(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A Serve config through Serve's schema, with all defaults."""
        return dict(self.ask("serve_schema", config=config))

    def engine_args(self, model: str, *, gpu: Mapping[str, Any] | None = None, **kwargs: Any) -> dict[str, Any]:
        """What vLLM resolves engine arguments to; `model` is a folder as the judge sees it.

        `gpu` is the device in a judge for GPUs: {name, capability: [major, minor], memory: bytes}.
        """
        return dict(self.ask("engine_args", kwargs={"model": model, **kwargs}, gpu=gpu))

    def command_line(self, *words: str) -> dict[str, Any]:
        """The command line of vLLM's server through its own parser: the values that differ from the defaults."""
        return dict(self.ask("command_line", words=words))

    def server(self, *words: str, gpu: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What vLLM's server resolves its command line to; `--model` is a folder as the judge sees it. `gpu` as in engine_args."""
        return dict(self.ask("server", words=words, gpu=gpu))

    def kv_layers(self, model: str, **kwargs: Any) -> list[dict[str, Any]]:
        """One entry an attention layer of one GPU: name, kind, bytes_per_token, sliding_window. `kwargs` are engine arguments."""
        return list(self.ask("kv_bytes", kwargs={"model": model, **kwargs})["layers"])

    def kv_bytes_per_token(self, model: str, **kwargs: Any) -> int:
        """Bytes of KV cache that one token takes on one GPU while no sliding window has been left."""
        return round(sum(float(layer["bytes_per_token"]) for layer in self.kv_layers(model, **kwargs)))

    def _listen(self, pipe: IO[str]) -> None:
        for line in pipe:
            self._said.append(line)
