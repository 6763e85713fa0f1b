"""Runs a program inside a root file system of ours: nothing of it writable, a process tree of its own, none of this machine's environment.

By bubblewrap, which needs no root. What may be read or written beside is given by name. Not for untrusted programs: the network is this machine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HOME = "/home/ray"
_EMPTY = ("/home", "/opt", "/tmp")  # folders that start empty and can hold mount points


def sandbox(
    root: Path,
    *,
    read_only: Mapping[str, Path] | None = None,
    writable: Mapping[str, Path] | None = None,
    variables: Mapping[str, str] | None = None,
) -> list[str]:
    """The start of a command that runs the rest inside `root`: folders by their path inside, none of the environment goes in."""
    words = ["bwrap", "--die-with-parent", "--unshare-pid", "--clearenv", "--ro-bind", str(root), "/"]
    words += [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--ro-bind",
        "/sys",
        "/sys",
        *(word for folder in _EMPTY for word in ("--tmpfs", folder)),
    ]
    words += ["--dir", HOME]
    for file in ("/etc/resolv.conf", "/etc/hosts"):
        words += ["--ro-bind-try", file, file]
    for inside, outside in sorted((read_only or {}).items()):
        words += ["--ro-bind", str(outside), inside]
    for inside, outside in sorted((writable or {}).items()):
        words += ["--bind", str(outside), inside]
    for name, value in sorted((variables or {}).items()):
        words += ["--setenv", name, value]
    return [*words, "--"]
