"""The root file system of the engine image: a small Debian with Python 3.11 and a C++ compiler, made by mmdebstrap.

Not for the Python packages: environment.py lays those beside it, so that a changed lock does not make this anew.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from local import cache, debs
from local.errors import LocalError
from local.progress import step

SUITE = "bookworm"
PYTHON = "3.11"
"""The suite's own Python, the one that the lock of the engine environment is made for."""
USER, UID = "ray", 1000
"""Who runs in the image, as in Ray's own images."""
MOUNT_POINTS = ("opt/engine", "opt/models", "opt/app")
"""Where the engine environment, models and serve apps lie in the image."""
PACKAGES = (
    "ca-certificates",
    "g++",  # torch.compile on CPU writes C++ and compiles it
    "gcc",
    "libnuma1",  # vLLM reads the NUMA nodes
    "procps",
    f"libpython{PYTHON}-dev",
    f"python{PYTHON}",
    "wget",  # KubeRay's probes are `bash -c "wget ..."`
)
EPOCH = 1_700_000_000
"""Time of every file made here, in seconds: the same bytes whenever it is made."""


CLEANING = (
    # The machine that builds leaves no trace, and a container gets its own of these.
    'cd "$1" && rm -rf etc/hostname etc/resolv.conf etc/machine-id var/log/* var/cache/ldconfig var/cache/debconf '
    "etc/passwd- etc/group- etc/shadow- etc/gshadow- etc/subuid- etc/subgid- root/.bash_history",
    'cd "$1" && rm -rf usr/share/doc usr/share/man usr/share/locale usr/share/info && touch etc/resolv.conf etc/hostname etc/hosts',
)
"""Last hooks of every root file system."""
_HOOKS = (
    f'chroot "$1" useradd --uid {UID} --user-group --create-home --shell /bin/bash {USER}',
    *CLEANING,
    f'cd "$1" && mkdir -p {" ".join(MOUNT_POINTS)}',
)


def recipe() -> str:
    """Changes when what is made here changes."""
    return cache.recipe_hash(platform.machine(), str(EPOCH), *PACKAGES, *_HOOKS)


def ensure() -> Path:
    """The root folder; made when the cache lacks it (about a minute). Needs root. Raises LocalError."""
    found = cache.find("engine-rootfs", SUITE, recipe())
    return (found or cache.ensure("engine-rootfs", SUITE, _build, recipe=recipe())) / "root"


def _build(folder: Path) -> None:
    debian(folder, PACKAGES, _HOOKS, "the engine image")


def debian(folder: Path, packages: Sequence[str], hooks: Sequence[str], what: str) -> None:
    """Make a small Debian with these packages in `folder`/root, finished by the hooks. Needs root. Raises LocalError."""
    if os.geteuid() != 0:
        raise LocalError(
            f"the root file system of {what} is not made yet, and making it needs root", fix="sudo make up"
        )
    needed = {"mmdebstrap": "mmdebstrap", "bwrap": "bubblewrap"}
    missing = [package for program, package in needed.items() if not shutil.which(program)]
    if not Path("/usr/share/keyrings/debian-archive-keyring.gpg").exists():
        missing.append("debian-archive-keyring")  # Ubuntu has no Debian keys
    if missing:
        debs.install(missing)
    command = [
        "mmdebstrap",
        "--variant=minbase",
        "--quiet",
        f"--include={','.join(packages)}",
        "--aptopt=Acquire::Retries 3",
        *(f"--customize-hook={hook}" for hook in hooks),
        SUITE,
        str(folder / "root"),
    ]
    if mirror := os.environ.get("DEBIAN_MIRROR"):
        command.append(mirror)
    with step(f"making the root file system of {what} (Debian {SUITE})"):
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(EPOCH), "TMPDIR": str(folder)}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise LocalError(
            f"mmdebstrap failed: {' '.join(result.stderr.split())[-600:]}",
            fix="check that Debian's packages can be fetched (DEBIAN_MIRROR=URL names another mirror), then run again",
        )
