"""An image of static programs is a well-formed OCI archive, the same bytes each time."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from local.cluster import oci


def _write(busybox: Path, target: Path) -> None:
    oci.write_archive(
        target, name="localhost/pause:1", programs={"/bin/busybox": busybox}, entrypoint=["/bin/busybox", "sleep", "9"]
    )


def test_every_blob_is_what_its_descriptor_says(tmp_path: Path) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"a program")
    _write(busybox, tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        files = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(data).hexdigest() == Path(name).name

    def blob(descriptor: dict[str, object]) -> bytes:
        data = files[f"blobs/{str(descriptor['digest']).replace(':', '/')}"]
        assert descriptor["size"] == len(data)
        return data

    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "localhost/pause:1"
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    layer = blob(manifest["layers"][0])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as inside:
        member = inside.getmember(config["config"]["Entrypoint"][0].lstrip("/"))
    assert member.mode == 0o755
    assert member.size == len(b"a program")


def test_the_same_busybox_gives_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "busybox").write_bytes(b"a program")
    for name in ("one", "two"):
        _write(tmp_path / "busybox", tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
