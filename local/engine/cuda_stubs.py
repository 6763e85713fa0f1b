"""Small stand-ins for the CUDA libraries that PyPI's torch is linked against, so that it loads on a machine with no GPU.

torch's CPU-only wheels are not on PyPI. The wheel that is there needs 2.7 GB of CUDA libraries before `import torch` works
(torch 2.13.0), none of which a CPU engine calls. Each stand-in has the name and the symbol versions that torch asks for;
a function of it that is called says its name and aborts. libcudart stays the real one (2 MB): torch calls it at load time.
Not for a machine that has a GPU, and not needed with a `+cpu` torch: then nothing is missing and nothing is made.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Run = Callable[[Sequence[str]], str]
"""Runs a command (its paths as given) and returns its standard output; raises when the command fails."""

_CUDA_LIBRARY = re.compile(r"^lib(cu|nv|nccl).*\.so\.\d+$")
# Loaded by name at run time when there is a GPU (the driver's own library): nothing to stand in for.
_DRIVER = "libcuda.so.1"
_NEEDED = re.compile(r"\(NEEDED\).*\[(?P<name>[^\]]+)\]")
_UNDEFINED = re.compile(r"\bUND (?P<name>(?:__)?(?:cu|nv|nccl)\w+)(?:@(?P<version>\S+))?(?: \(\d+\))?$")
_VERSION_FILE = re.compile(r"Version: \d+ +File: (?P<file>\S+)")
_VERSION_NAME = re.compile(r"Name: (?P<version>\S+)")

_SOURCE_HEAD = """\
#include <stdio.h>
#include <stdlib.h>
static void refuse(const char *name) {
  fprintf(stderr, "%s: this environment has no CUDA library (stand-in of the CPU engine)\\n", name);
  abort();
}
"""


def run_on_host(command: Sequence[str]) -> str:
    """Run on this machine. Raises subprocess.CalledProcessError."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True, kw_only=True)
class Stub:
    """One library to make: its soname, and its functions by symbol version ("" is no version)."""

    soname: str
    functions: dict[str, tuple[str, ...]]

    def source(self) -> str:
        """The C source."""
        names = sorted({name for group in self.functions.values() for name in group})
        return _SOURCE_HEAD + "".join(f'void {name}(void) {{ refuse("{name}"); }}\n' for name in names)

    def version_script(self) -> str:
        """The linker's version script; empty when no symbol has a version."""
        versioned = {version: names for version, names in sorted(self.functions.items()) if version}
        return "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in versioned.items())


def missing(site_packages: Path, run: Run = run_on_host) -> list[Stub]:
    """The CUDA libraries that the libraries of torch need and that no package in `site_packages` has, sorted by name."""
    lib = site_packages / "torch" / "lib"
    present = {path.name for folder in (lib, site_packages / "nvidia") for path in folder.rglob("*.so*")} | {_DRIVER}
    wanted: set[str] = set()
    file_of_version: dict[str, str] = {}
    symbols: set[tuple[str, str]] = set()
    for library in sorted(lib.glob("*.so*")):
        needed = {m["name"] for m in _NEEDED.finditer(run(["readelf", "--dynamic", "--wide", str(library)]))}
        wanted |= {name for name in needed if _CUDA_LIBRARY.match(name) and name not in present}
        file = ""
        for line in run(["readelf", "--version-info", "--wide", str(library)]).splitlines():
            if found := _VERSION_FILE.search(line):
                file = found["file"]
            elif file and (found := _VERSION_NAME.search(line)):
                file_of_version[found["version"]] = file
        for line in run(["readelf", "--dyn-syms", "--wide", str(library)]).splitlines():
            if found := _UNDEFINED.search(line):
                symbols.add((found["name"], found["version"] or ""))
    functions: dict[str, dict[str, list[str]]] = {name: defaultdict(list) for name in sorted(wanted)}
    # A symbol without a version may come from any library: those that carry no version have them all.
    unversioned = sorted(wanted - set(file_of_version.values()))
    for name, version in sorted(symbols):
        homes = [file_of_version[version]] if version else unversioned[:1]
        for home in homes:
            if home in functions:
                functions[home][version].append(name)
    return [
        Stub(soname=soname, functions={version: tuple(names) for version, names in sorted(by_version.items())})
        for soname, by_version in functions.items()
    ]


def make(site_packages: Path, work: Path, run: Run = run_on_host) -> list[Path]:
    """Compile the stand-ins into torch/lib with gcc, by way of the folder `work`. Returns the libraries made."""
    made = []
    for stub in missing(site_packages, run):
        source, script = work / f"{stub.soname}.c", work / f"{stub.soname}.map"
        source.write_text(stub.source())
        target = site_packages / "torch" / "lib" / stub.soname
        command = [
            "gcc",
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            "-fno-builtin",
            f"-Wl,-soname,{stub.soname}",
            "-Wl,--build-id=none",
        ]
        if text := stub.version_script():
            script.write_text(text)
            command.append(f"-Wl,--version-script={script}")
        run([*command, "-o", str(target), str(source)])
        made.append(target)
    return made
