"""What the cluster says, by kubectl: parsed JSON, or an error in our words."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from local import tools
from local.errors import LocalError


def read(*words: str) -> Any:
    """The JSON that `kubectl get` prints for these words. Raises LocalError with its reason."""
    result = subprocess.run(
        ["kubectl", "get", *words], env=tools.environment(), capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise LocalError(f"kubectl get {' '.join(words)}: {result.stderr.strip()}", fix="run `make up` first")
    return json.loads(result.stdout)


def read_one(kind: str, namespace: str, name: str) -> Any:
    """One object."""
    return read(kind, name, "-n", namespace, "-o", "json")
