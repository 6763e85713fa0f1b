"""The sandbox image: what keeps a Pod's namespaces open. A static busybox that sleeps, made on this machine.

Same bytes for the same busybox, so that an import into containerd changes nothing the second time.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_archive(busybox: Path, name: str, target: Path) -> None:
    """Write an OCI image archive with busybox in it, named `name`, to the file `target`."""
    layer = _tar({"bin/busybox": busybox.read_bytes()}, mode=0o755)
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": ["/bin/busybox", "sleep", "2147483647"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    described = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    described |= {"annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": "1"}}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [described]}),
    }
    for blob in (layer, config, manifest):
        files[f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}"] = blob
    target.write_bytes(_tar(files, mode=0o644))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _descriptor(media_type: str, data: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
