"""Images are the same bytes for the same folders, and an archive holds what the store lacks."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from local.images.oci import Image, Layer, Tree, blob_of, write_archive


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tree"
    (made / "sub").mkdir(parents=True)
    (made / "b.txt").write_text("b")
    (made / "a.txt").write_text("a")
    (made / "sub" / "run").write_text("#!/bin/sh\n")
    (made / "sub" / "run").chmod(0o750)
    (made / "link").symlink_to("a.txt")
    return made


def _tar(layer: Layer) -> list[tarfile.TarInfo]:
    archive = io.BytesIO()
    image = Image(name="localhost/x:1", layers=(layer.blob(),), config={})
    write_archive(archive, [image], {layer.blob().digest: layer})
    archive.seek(0)
    with tarfile.open(fileobj=archive) as outer:
        blob = outer.extractfile(f"blobs/sha256/{layer.blob().digest.removeprefix('sha256:')}")
        assert blob is not None
        with tarfile.open(fileobj=io.BytesIO(blob.read())) as inner:
            return inner.getmembers()


def _archive(images: list[Image], layers: dict[str, Layer]) -> dict[str, bytes]:
    written = io.BytesIO()
    write_archive(written, images, layers)
    written.seek(0)
    with tarfile.open(fileobj=written) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def test_a_layer_has_the_entries_sorted_below_its_target_with_owners_and_times_fixed(folder: Path) -> None:
    entries = _tar(Layer(trees=(Tree(source=folder, target="opt/app"),)))
    assert [entry.name for entry in entries] == [
        "opt",
        "opt/app",
        "opt/app/a.txt",
        "opt/app/b.txt",
        "opt/app/link",
        "opt/app/sub",
        "opt/app/sub/run",
    ]
    assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in entries} == {(0, 0, "", 1_700_000_000)}
    modes = {entry.name: oct(entry.mode) for entry in entries}
    assert (modes["opt/app/a.txt"], modes["opt/app/sub/run"], modes["opt"]) == ("0o644", "0o755", "0o755")
    assert entries[4].linkname == "a.txt"


def test_a_layer_is_the_same_bytes_whenever_its_files_were_written(folder: Path) -> None:
    layer = Layer(trees=(Tree(source=folder, target="opt"),))
    before = layer.blob()
    os.utime(folder / "a.txt", (1, 1))
    (folder / "b.txt").chmod(0o600)
    assert layer.blob() == before
    (folder / "a.txt").write_text("other")
    assert layer.blob() != before


def test_a_layer_leaves_out_what_is_not_kept(folder: Path) -> None:
    layer = Layer(trees=(Tree(source=folder, target="", keep=lambda path: path.name != "sub"),))
    assert [entry.name for entry in _tar(layer)] == ["a.txt", "b.txt", "link"]


def test_an_archive_is_an_image_layout_whose_digests_hold(folder: Path) -> None:
    layer = Layer(trees=(Tree(source=folder, target="opt"),))
    image = Image(name="localhost/thing:v1", layers=(layer.blob(),), config={"Env": ["A=1"], "User": "1000:1000"})
    files = _archive([image], {layer.blob().digest: layer})
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"
    index: dict[str, Any] = json.loads(files["index.json"])
    (described,) = index["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == "localhost/thing:v1"
    assert described["digest"] == image.digest
    manifest = json.loads(files[f"blobs/sha256/{described['digest'].removeprefix('sha256:')}"])
    config = json.loads(files[f"blobs/sha256/{manifest['config']['digest'].removeprefix('sha256:')}"])
    assert config["rootfs"]["diff_ids"] == [layer.blob().digest]
    assert config["config"] == {"Env": ["A=1"], "User": "1000:1000"}


def test_an_archive_leaves_out_layers_that_are_not_given(folder: Path) -> None:
    kept = Layer(trees=(Tree(source=folder, target="opt"),))
    image = Image(name="localhost/thing:v1", layers=(blob_of(b"elsewhere"), kept.blob()), config={})
    files = _archive([image], {kept.blob().digest: kept})
    names = [name for name in files if name.startswith("blobs/")]
    assert len(names) == 3  # one layer, the configuration, the manifest


def test_a_layer_that_changed_since_it_was_measured_is_not_written_under_its_old_name(folder: Path) -> None:
    layer = Layer(trees=(Tree(source=folder, target="opt"),))
    image = Image(name="localhost/thing:v1", layers=(layer.blob(),), config={})
    digest = layer.blob().digest
    (folder / "a.txt").write_text("z")
    with pytest.raises(ValueError, match="a layer of localhost/thing:v1 has changed since it was measured"):
        write_archive(io.BytesIO(), [image], {digest: layer})
