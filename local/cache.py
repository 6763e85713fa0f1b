"""The cache of built and fetched things: one folder outside the repository, one entry a name, version and recipe.

An entry is made in a folder of its own and then renamed, under a lock, so that two runs at once make it once and a
run cut short leaves nothing that looks finished. Not for state: what a running cluster needs is in settings.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from local.progress import console, step

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "llm-serving-stack"


def root() -> Path:
    """`$XDG_CACHE_HOME/llm-serving-stack`, else `~/.cache/llm-serving-stack`."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    # The XDG specification says to ignore a relative path.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / NAME


def recipe_hash(*parts: str | bytes) -> str:
    """Ten hexadecimal digits that change when any part changes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:10]


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the lock `name` of this cache; says so when another run holds it, then waits."""
    folder = root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    held = FileLock(folder / f"{name}.lock")
    try:
        held.acquire(timeout=0.2)
    except Timeout:
        with step(f"waiting for another run that holds '{name}'"):
            held.acquire()
    try:
        yield
    finally:
        held.release()


@contextmanager
def lock_if_free(name: str) -> Iterator[bool]:
    """Hold the lock `name` when nobody does; tells whether it is held, and never waits."""
    folder = root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    held = FileLock(folder / f"{name}.lock")
    try:
        held.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        held.release()


@contextmanager
def shared(name: str) -> Iterator[None]:
    """Hold the lock `name` together with others that share it; who wants it alone, by `lock`, waits for all."""
    folder = root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def find(name: str, version: str, recipe: str = "") -> Path | None:
    """The finished entry, or None."""
    path = _entry(name, version, recipe)
    return path if path.is_dir() else None


def ensure(name: str, version: str, build: Callable[[Path], None], *, recipe: str = "") -> Path:
    """The folder of an entry, made by `build(folder)` when it is not there yet.

    `build` fills an empty folder; when it raises, the folder is removed and the entry does not come to be.
    """
    path = _entry(name, version, recipe)
    if path.is_dir():
        return path
    with lock(path.name):
        if path.is_dir():
            return path
        working = path.with_name(f"{path.name}.part")
        # Holding the lock, nobody else is at work here: what lies there is from a run cut short.
        shutil.rmtree(working, ignore_errors=True)
        working.mkdir(parents=True)
        try:
            build(working)
        except BaseException:
            shutil.rmtree(working, ignore_errors=True)
            raise
        os.rename(working, path)
    return path


def remove(name: str, version: str, recipe: str = "") -> None:
    """Forget an entry."""
    path = _entry(name, version, recipe)
    with lock(path.name):
        shutil.rmtree(path, ignore_errors=True)


def remove_all() -> None:
    """Delete the whole cache."""
    shutil.rmtree(root(), ignore_errors=True)
    console.print(f"  removed {root()}", markup=False)


def _entry(name: str, version: str, recipe: str) -> Path:
    suffix = f"-{recipe}" if recipe else ""
    return root() / "entries" / f"{name}-{version}{suffix}"
