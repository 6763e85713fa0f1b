"""The language host: a gRPC server that runs `__main__.py` of a program, and policy packs, for the engine.

Protocol: proto/pulumi/language.proto of pulumi/pulumi. The engine starts the program, reads the port from the first line of its
standard output, and ends it when it is done.
"""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent import futures
from importlib.metadata import Distribution, distributions, version
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import grpc
from google.protobuf import empty_pb2
from pulumi.automation._server import LanguageServer
from pulumi.errors import RunError
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2


class Host(LanguageServer):
    """Programs and policy packs of this interpreter; dependencies are this checkout's virtual environment."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def Handshake(self, request: Any, context: Any) -> Any:
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=version("pulumi"))

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        return iter(())  # `make` installs them, from the lock file

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        """What is installed beside the program, for `pulumi about`; all of it, or what no other package asks for."""
        installed = {entry.name: entry for entry in distributions()}
        needed = (
            set()
            if request.transitiveDependencies
            else {name for entry in installed.values() for name in _requires(entry)}
        )
        chosen = sorted((name, entry.version) for name, entry in installed.items() if _normal(name) not in needed)
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[language_pb2.DependencyInfo(name=name, version=number) for name, number in chosen]
        )

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:
        return language_pb2.RuntimeOptionsResponse()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Run(self, request: Any, context: Any) -> Any:
        folder = Path(request.info.program_directory or request.pwd)
        entry = request.info.entry_point if request.info.entry_point not in ("", ".") else "__main__.py"
        self.program = lambda: _run(folder, folder / entry)
        result = super().Run(request, context)  # type: ignore[no-untyped-call]
        if result.error:
            # The error has been logged to the engine already; `bail` ends the update without printing it again.
            result = language_pb2.RunResponse(bail=True)
        return result

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        """Run a policy pack (kind analyzer). Its standard output begins with its port, which the engine reads."""
        if request.kind != "analyzer":
            yield language_pb2.RunPluginResponse(
                stderr=f"only policy packs can be run by this host, not plugins of kind {request.kind}\n".encode()
            )
            yield language_pb2.RunPluginResponse(exitcode=1)
            return
        env = {**os.environ, **dict(entry.split("=", 1) for entry in request.env if "=" in entry)}
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "pulumi.policy", *request.args, request.info.program_directory],
            cwd=request.pwd,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        context.add_callback(process.terminate)  # the engine hangs up when it is done with the pack
        lines: SimpleQueue[Any] = SimpleQueue()
        readers = [
            threading.Thread(target=_read, args=(process.stdout, "stdout", lines), daemon=True),
            threading.Thread(target=_read, args=(process.stderr, "stderr", lines), daemon=True),
        ]
        for reader in readers:
            reader.start()
        open_pipes = len(readers)
        while open_pipes:
            response = lines.get()
            if response is None:
                open_pipes -= 1
            else:
                yield response
        yield language_pb2.RunPluginResponse(exitcode=process.wait())


def _read(pipe: IO[bytes], name: str, lines: SimpleQueue[Any]) -> None:
    for line in pipe:
        lines.put(language_pb2.RunPluginResponse(**{name: line}))  # type: ignore[arg-type]
    lines.put(None)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requires(entry: Distribution) -> set[str]:
    return {
        _normal(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
        for requirement in entry.requires or ()
        if "extra ==" not in requirement
    }


def _run(folder: Path, entry: Path) -> None:
    """Run the program as `python __main__.py` would, in its own folder. Raises RunError with what the person is to read.

    An exception made for people (an attribute `user_facing` that is true) is its message and nothing else; any other keeps
    the part of its traceback that lies in the program.
    """
    os.chdir(folder)
    sys.argv = [str(entry)]
    sys.path.insert(0, str(folder))
    try:
        runpy.run_path(str(entry), run_name="__main__")
    except RunError:
        raise
    except SystemExit as error:
        if error.code not in (None, 0):
            raise RunError(f"the program ended with exit code {error.code}") from None
    except Exception as error:
        if getattr(error, "user_facing", False):
            raise RunError(str(error)) from None
        raise RunError("the program failed:\n" + _traceback(error, entry)) from None


def _traceback(error: Exception, entry: Path) -> str:
    """The traceback from the program's first line on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(entry):
        frames = frames.tb_next
    # A program that cannot be compiled has no frame of its own, and its error says where.
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def main() -> None:
    """Serve until the engine ends the process."""
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=8),
        options=[("grpc.max_receive_message_length", 400 << 20), ("grpc.max_send_message_length", 400 << 20)],
    )
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(Host(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    _end_with_parent()
    with contextlib.suppress(KeyboardInterrupt):  # how the engine ends its hosts
        server.wait_for_termination()


def _end_with_parent() -> None:
    """End when the engine is gone: it may have been killed without a chance to say so."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            threading.Event().wait(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
