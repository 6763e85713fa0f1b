"""The stack of an environment under the real Pulumi engine: up, outputs, destroy. Plain CLI calls, as a person would make them."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local import cache, tools
from local.errors import LocalError

REPO = Path(__file__).resolve().parent.parent
STACK = "local"


def pulumi(
    *words: str, cwd: Path = REPO, env: Mapping[str, str] | None = None, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run pulumi with the environment of the local tools. Raises LocalError with the command when it fails."""
    result = subprocess.run(
        ["pulumi", *words, "--non-interactive"],
        cwd=cwd,
        env={**tools.environment(), **(env or {})},
        text=True,
        capture_output=capture,
        check=False,
    )
    if result.returncode:
        detail = f":\n{result.stdout}{result.stderr}".rstrip() if capture else ""
        raise LocalError(
            f"pulumi {' '.join(words)} ended with exit code {result.returncode}{detail}",
            fix="read the reason above; what was made so far is in the state, and the next `make up` goes on from there",
        )
    return result


def select(stack: str = STACK, cwd: Path = REPO) -> None:
    """Select the stack, made if it is not there."""
    pulumi("stack", "select", stack, "--create", cwd=cwd, capture=True)


def up(stack: str = STACK, cwd: Path = REPO, config_file: Path | None = None) -> None:
    """Bring the stack up, with its own config file or another. A second run at once waits for the first."""
    select(stack, cwd)
    other = ["--config-file", str(config_file)] if config_file else []
    with cache.lock(f"stack-{stack}"):
        free_locks()
        pulumi("up", "--yes", "--skip-preview", "--stack", stack, *other, cwd=cwd)


def destroy(stack: str = STACK, cwd: Path = REPO) -> None:
    """Take everything of the stack away."""
    with cache.lock(f"stack-{stack}"):
        free_locks()
        pulumi("destroy", "--yes", "--skip-preview", "--stack", stack, cwd=cwd)


def free_locks() -> None:
    """Take away the locks of updates that were cut short: those of processes of this machine that are gone."""
    backend = tools.environment().get("PULUMI_BACKEND_URL", "")
    if not backend.startswith("file://"):
        return
    for lock in Path(backend.removeprefix("file://"), ".pulumi", "locks").rglob("*.json"):
        try:
            holder = json.loads(lock.read_text())
        except (OSError, json.JSONDecodeError):
            continue  # being written or taken away right now
        if holder.get("hostname") == socket.gethostname() and not Path(f"/proc/{holder.get('pid')}").exists():
            lock.unlink(missing_ok=True)


def outputs(stack: str = STACK, cwd: Path = REPO) -> dict[str, Any]:
    """Outputs of the stack, secrets hidden."""
    text = pulumi("stack", "output", "--json", "--stack", stack, cwd=cwd, capture=True).stdout
    result: dict[str, Any] = json.loads(text)
    return result
