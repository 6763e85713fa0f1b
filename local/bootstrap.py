"""Makes .venv from the lock files. Runs with any Python 3 and its standard library, before anything is installed.

Safe to call at any time: it mends a half-made environment, and two calls at once wait for each other.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
VENV = REPOSITORY / ".venv"
PYTHON = VENV / "bin" / "python"


def fail(problem: str, fix: str) -> None:
    """End with a sentence."""
    sys.exit(f"error: {problem}\n  to fix: {fix}")


def run(title: str, *command: str) -> None:
    """Run a command and say how long it took; its output is shown only when it fails."""
    begun = time.monotonic()
    print(f"  ... {title}", file=sys.stderr, flush=True)
    result = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if result.returncode:
        tail = "\n".join((result.stdout + result.stderr).splitlines()[-12:])
        fail(f"{' '.join(command)}\n{tail}", "check the network and the package index settings, then run again")
    print(f"  ok  {title}  {time.monotonic() - begun:.1f} s", file=sys.stderr)


def install_venv_package() -> None:
    """Debian and Ubuntu keep ensurepip in a package of its own."""
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        fail("this Python has no ensurepip, so it cannot make a virtual environment", f"sudo apt-get install {package}")
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run("refreshing the package lists", "apt-get", "update")
    run(f"installing {package}", "apt-get", "install", "--yes", "--no-install-recommends", package)


def main() -> None:
    """Make or mend .venv."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this is where the minimum is told
        fail(
            f"{sys.executable} is Python {sys.version_info.major}.{sys.version_info.minor}, 3.11 or newer is needed",
            "make up PYTHON=python3.12, or any newer one",
        )
    folder = os.open(REPOSITORY, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        install_venv_package()
    works = (
        PYTHON.exists()
        and not subprocess.run([PYTHON, "-c", "import pip"], capture_output=True, check=False).returncode
    )
    if not works:
        run("making .venv", sys.executable, "-m", "venv", "--clear", str(VENV))
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    run("installing uv", *pip, "--requirement", "requirements-uv.lock")
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(PYTHON), "--require-hashes"]
    run("installing the Python packages", *uv, "--requirement", "requirements.lock")
    (VENV / ".stamp").touch()


if __name__ == "__main__":
    main()
