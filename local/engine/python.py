"""How this machine runs a program in the engine environment: the root file system, Ray, vLLM, the model and the serve apps of the image.

What the program started ends with it; it has a /tmp and a home of its own, and this machine's network. Not for building the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import serve_apps
from local.engine import environment, model, rootfs
from local.engine.sandbox import HOME, sandbox

APP = "/opt/app"
"""The folder on PYTHONPATH that holds the package serve_apps."""
PATH = f"{environment.PREFIX}/bin:/usr/local/bin:/usr/bin:/bin"
VARIABLES = {
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "PATH": PATH,
    "PYTHONPATH": APP,
    # No model is looked up on the network, and nobody is told what runs here.
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Environment of a program in the image, and of one run here."""


def engine_command(
    words: Sequence[str],
    *,
    read_only: Mapping[str, Path] | None = None,
    writable: Mapping[str, Path] | None = None,
    variables: Mapping[str, str] | None = None,
) -> list[str]:
    """The command that runs `words` in the engine environment from this machine, making the environment if it is missing.

    `read_only` and `writable` are further folders or files, by their path inside; `variables` are further environment variables.
    Raises LocalError when the environment cannot be made.
    """
    folders = {
        environment.PREFIX: environment.ensure(),
        model.FOLDER: model.ensure(),
        f"{APP}/serve_apps": Path(serve_apps.__file__).parent,
    }
    start = sandbox(
        rootfs.ensure(),
        read_only={**folders, **(read_only or {})},
        writable=writable,
        variables={**VARIABLES, **(variables or {})},
    )
    return [*start, *words]
