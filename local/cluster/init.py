"""Process 1 of the node's PID namespace: prepares the node's own mounts, then starts and restarts its services.

Runs as a plain script with the standard library alone (`python -I init.py RUN_DIR`), inside new PID, mount and network
namespaces. When it ends, the kernel ends every process of the node and drops its mounts, network devices and
firewall rules, however the end came: that is why `down` can promise to leave nothing.

RUN_DIR/node.json says what to mount and which control groups to join; RUN_DIR/services/*.json are the services, read
again on SIGHUP; RUN_DIR/status.json says how each one fares.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_FIRST_RETRY_S = 0.5
_LAST_RETRY_S = 10.0
_STOP_S = 10.0
_WATCHED = {signal.SIGHUP, signal.SIGCHLD, signal.SIGTERM}


class Service:
    """One program of the node, as its JSON file tells, and its process."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.pid = 0
        self.started = 0.0
        self.restarts = 0
        self.retry_at = 0.0
        self.retry_s = _FIRST_RETRY_S
        self.last_exit: int | None = None

    def start(self) -> None:
        """Start the process, its output appended to its log."""
        argv: list[str] = self.spec["argv"]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.started = time.monotonic()
        try:
            self.pid = os.posix_spawn(
                argv[0],
                argv,
                self.spec["env"],
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, self.spec["log"], flags, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsigmask=[],
                setsid=True,
            )
        except OSError as error:
            self.ended(127)
            print(f"{argv[0]}: {error}", file=sys.stderr, flush=True)

    def ended(self, code: int) -> None:
        """Note the end of the process and when to try again."""
        now = time.monotonic()
        if now - self.started > 3 * _LAST_RETRY_S:
            self.retry_s = _FIRST_RETRY_S
        self.pid, self.last_exit = 0, code
        self.retry_at = now + self.retry_s
        self.retry_s = min(2 * self.retry_s, _LAST_RETRY_S)

    def stop(self) -> None:
        """Ask the process to end, wait, then end it."""
        if not self.pid:
            return
        os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        while time.monotonic() < deadline:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                break
            time.sleep(0.05)
        else:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.pid = 0


def prepare(node: dict[str, Any]) -> None:
    """Join the node's control groups and lay its mounts over this machine's, for this namespace alone."""
    for procs in node["cgroup_procs"]:
        Path(procs).write_text("0")
    if node["tmpfs"] or node["binds"]:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for target in node["tmpfs"]:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", target], check=True)
    for source, target in node["binds"]:
        subprocess.run(["mount", "--bind", source, target], check=True)
    for folder in node["folders"]:
        Path(folder).mkdir(parents=True, exist_ok=True)
    for name, value in node["sysctls"].items():
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.exists():
            path.write_text(value)


def reap(services: dict[str, Service]) -> None:
    """Collect ended children, ours and those that the node's processes left behind."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            for service in services.values():
                if service.pid == pid:
                    service.ended(os.waitstatus_to_exitcode(status))


def reload(services: dict[str, Service], folder: Path) -> None:
    """Start what is new, restart what has changed, stop what is gone."""
    wanted = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    for name in [name for name, service in services.items() if wanted.get(name) != service.spec]:
        services.pop(name).stop()
    for name, spec in wanted.items():
        services.setdefault(name, Service(spec))


def tick(services: dict[str, Service]) -> float:
    """Start what is due; returns seconds until the next one is."""
    now = time.monotonic()
    for service in services.values():
        if not service.pid and now >= service.retry_at:
            service.restarts += service.last_exit is not None
            service.start()
    waits = [service.retry_at - time.monotonic() for service in services.values() if not service.pid]
    return max(0.01, min([60.0, *waits]))


def publish(services: dict[str, Service], path: Path) -> None:
    """Write the status file in one step."""
    status = {
        name: {
            "pid": service.pid,
            "restarts": service.restarts,
            "last_exit": service.last_exit,
            "digest": service.spec["digest"],
        }
        for name, service in services.items()
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(status))
    part.replace(path)


def main(run: Path) -> None:
    """Run until SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    prepare(json.loads((run / "node.json").read_text()))
    services: dict[str, Service] = {}
    reload(services, run / "services")
    while True:
        reap(services)
        wait = tick(services)
        publish(services, run / "status.json")
        caught = signal.sigtimedwait(_WATCHED, wait)
        if caught and caught.si_signo == signal.SIGTERM:
            return
        if caught and caught.si_signo == signal.SIGHUP:
            reload(services, run / "services")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
