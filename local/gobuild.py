"""Builds programs from Go modules with a go.mod of our own.

`go install module@version` refuses modules whose go.mod has replace directives. So a module is made here that requires
the wanted one and repeats those directives that mean something outside its source tree. Not for fetching anything else.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from local import cache, gotools, pins
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
    go = gotools.toolchain()
    with cache.shared("go"):
        return cache.ensure(build.name, version, lambda folder: _build(build, go, folder), recipe=build.key())


class Builds:
    """Builds of what the cache lacks of `wanted`, begun in that order, beside the caller's work.

    Two at a time: the linker and some big packages keep one processor only.
    """

    def __init__(self, wanted: Sequence[GoBuild]) -> None:
        missing = [build for build in wanted if not is_built(build)]
        if missing:
            gotools.toolchain()
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._running = {build: self._pool.submit(ensure, build) for build in missing}

    def wait(self, *wanted: GoBuild) -> None:
        """Until these are built; until all are when none is named. Raises what one that failed raised, and begins no other."""
        asked = [running for build, running in self._running.items() if not wanted or build in wanted]
        try:
            for each in as_completed(asked):
                each.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Begin no other build; what is being built is finished and kept."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def is_built(build: GoBuild) -> bool:
    """Whether the cache has the programs of `build`."""
    return cache.find(build.name, pins.GO_MODULES[build.module].version, build.key()) is not None


def remove_build_cache() -> None:
    """Delete what Go keeps between builds, modules' sources excepted."""
    shutil.rmtree(cache.root() / "go-build", ignore_errors=True)


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
        answer = gotools.download(build.module, go)
        env = gotools.environment(go)
        parsed = subprocess.run(
            [go, "mod", "edit", "-json", str(answer["GoMod"])], capture_output=True, env=env, check=True
        )
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
    # -s -w leaves debugging information out of the program, and the compiler need not write it: 5 to 10 % of its time.
    flags = ("-gcflags=all=-dwarf=false", f"-ldflags=-s -w {build.ldflags}")
    command = [str(go), "build", "-v", "-o", str(output), *flags, package]
    compiled = 0
    with log.open("a") as written:
        process = subprocess.Popen(
            command, cwd=work, env=gotools.environment(go), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            written.write(line)
            written.flush()
            compiled += not line.startswith("go: ")
            current.detail = f"{output.name}: {compiled} packages compiled"
    if process.wait():
        tail = "\n".join(log.read_text().splitlines()[-12:])
        raise LocalError(
            f"go build of {output.name} failed (log: {log}):\n{tail}", fix="look at the log, then run again"
        )
