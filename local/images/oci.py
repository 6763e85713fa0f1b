"""Writes OCI images: layers as tars of folders, and an archive of an image that `ctr images import` reads.

The same folders give the same bytes: entries are sorted, times fixed. Layers are not compressed: they go from one folder of
this machine to another. An archive may leave out layers that the store has (https://github.com/opencontainers/image-spec).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

EPOCH = 1_700_000_000
"""Time of every entry, in seconds."""
_BLOCK = 512
_BUFFER = 1 << 20
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True, kw_only=True)
class Blob:
    """Bytes in a store, by their hash."""

    digest: str
    """sha256:..."""
    size: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A folder or a file of this machine as a part of a layer."""

    source: Path
    target: str
    """Path in the image, without a leading slash; "" is the root."""
    owned: bool = False
    """Keep owners and modes; else all is root's, and readable by all."""
    keep: Callable[[PurePosixPath], bool] = field(default=lambda _: True)
    """Which paths below `source` to take; a folder left out is not entered."""

    def write(self, layer: tarfile.TarFile) -> None:
        """Append the entries, sorted."""
        for path, inside in self._entries():
            entry = layer.gettarinfo(path, arcname=inside)
            entry.mtime, entry.uname, entry.gname = EPOCH, "", ""
            if not self.owned:
                entry.uid = entry.gid = 0
                entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            if entry.isreg():
                with path.open("rb") as content:
                    layer.addfile(entry, content)
            else:
                layer.addfile(entry)

    def _entries(self) -> Iterator[tuple[Path, str]]:
        if not self.source.is_dir():
            yield self.source, self.target
            return
        waiting = [(self.source, PurePosixPath())]
        while waiting:
            path, below = waiting.pop()
            inside = str(PurePosixPath(self.target) / below)
            if inside != ".":
                yield path, inside
            if path.is_dir() and not path.is_symlink():
                names = sorted(os.listdir(path), reverse=True)
                waiting += [(path / name, below / name) for name in names if self.keep(below / name)]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer made of trees, with the folders above them."""

    trees: tuple[Tree, ...]

    def blob(self) -> Blob:
        """What `write` would write, without keeping it."""
        sink = _Hashing(None)
        self.write(sink)
        return sink.blob()

    def write(self, target: _Hashing) -> None:
        """Write the tar."""
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT, copybufsize=_BUFFER) as layer:  # type: ignore[call-overload]
            above = {parent for tree in self.trees for parent in PurePosixPath(tree.target).parents}
            for folder in sorted(str(path) for path in above if path.name):
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, EPOCH
                layer.addfile(entry)
            for tree in self.trees:
                tree.write(layer)


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image: its name, its layers from the lowest up, and what a container of it runs."""

    name: str
    layers: tuple[Blob, ...]
    config: Mapping[str, Any]
    """The `config` object of an OCI image: Env, Entrypoint, User, WorkingDir."""

    def config_bytes(self) -> bytes:
        """The image's configuration."""
        return _json(
            {
                "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                "config": dict(self.config),
                "os": "linux",
                "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in self.layers]},
            }
        )

    def manifest_bytes(self) -> bytes:
        """The manifest: the digest of these bytes is the image's digest."""
        return _json(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _descriptor("application/vnd.oci.image.config.v1+json", blob_of(self.config_bytes())),
                "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer) for layer in self.layers],
            }
        )

    @property
    def digest(self) -> str:
        """The image's digest."""
        return blob_of(self.manifest_bytes()).digest


def write_archive(target: BinaryIO, images: Sequence[Image], layers: Mapping[str, Layer]) -> None:
    """Write an archive of the images to a file or a pipe, with the given layers in it, by their digest.

    Layers that are not given must be in the store that reads it. Raises ValueError when a layer is not what its digest says.
    """
    _small(target, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
    manifests: list[dict[str, Any]] = []
    held: set[str] = set()
    for image in images:
        for blob in image.layers:
            if blob.digest in layers and blob.digest not in held:
                held.add(blob.digest)
                target.write(_header(_blob_name(blob), blob.size))
                sink = _Hashing(target)
                layers[blob.digest].write(sink)
                if sink.blob() != blob:
                    raise ValueError(
                        f"a layer of {image.name} has changed since it was measured: {sink.blob()}, not {blob}"
                    )
                _pad(target, blob.size)
        for data in (image.config_bytes(), image.manifest_bytes()):
            if blob_of(data).digest not in held:
                held.add(blob_of(data).digest)
                _small(target, _blob_name(blob_of(data)), data)
        annotations = {
            "io.containerd.image.name": image.name,
            "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
        }
        manifests.append(_descriptor(_MANIFEST, blob_of(image.manifest_bytes())) | {"annotations": annotations})
    _small(target, "index.json", _json({"schemaVersion": 2, "manifests": manifests}))
    target.write(bytes(2 * _BLOCK))


class _Hashing:
    """A file that hashes and counts what it is given, and passes it on."""

    def __init__(self, file: BinaryIO | None) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self._size += len(data)
        return self._file.write(data) if self._file else len(data)

    def tell(self) -> int:
        return self._size

    def blob(self) -> Blob:
        return Blob(digest=f"sha256:{self._hash.hexdigest()}", size=self._size)


def blob_of(data: bytes) -> Blob:
    """The blob of these bytes."""
    return Blob(digest=f"sha256:{hashlib.sha256(data).hexdigest()}", size=len(data))


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = size, EPOCH
    return entry.tobuf(tarfile.USTAR_FORMAT)


def _small(target: BinaryIO, name: str, data: bytes) -> None:
    target.write(_header(name, len(data)))
    target.write(data)
    _pad(target, len(data))


def _pad(target: BinaryIO, size: int) -> None:
    target.write(bytes(-size % _BLOCK))


def _blob_name(blob: Blob) -> str:
    return f"blobs/sha256/{blob.digest.removeprefix('sha256:')}"


def _descriptor(media_type: str, blob: Blob) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": blob.digest, "size": blob.size}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
