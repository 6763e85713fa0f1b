"""What containerd's store has, and how images get into it and out: by its own client, ctr."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import BinaryIO, Protocol, cast

from local.errors import LocalError
from local.images import oci
from local.images.made import Made


class Containerd(Protocol):
    """Whoever can say how the node's containerd is called."""

    def ctr(self, *arguments: str) -> list[str]:
        """Command line of containerd's client, in the namespace of the kubelet."""


def images(node: Containerd) -> dict[str, str]:
    """Digests of the images in the store, by name."""
    rows = [line.split() for line in _ctr(node, "images", "list").splitlines()[1:]]
    return {row[0]: row[2] for row in rows}


def load(node: Containerd, wanted: Sequence[Made]) -> None:
    """Put images into the store; layers that it has are not sent again. Raises LocalError."""
    blobs = set(_ctr(node, "content", "list", "--quiet").split())
    layers = {digest: layer for one in wanted for digest, layer in one.layers.items() if digest not in blobs}
    process = subprocess.Popen(
        node.ctr("images", "import", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        with cast(BinaryIO, process.stdin) as pipe:
            oci.write_archive(pipe, [one.image for one in wanted], layers)
    except BrokenPipeError:
        pass  # it has ended: its own words say why
    except BaseException:
        process.kill()
        raise
    finally:
        output = process.stdout.read().decode() if process.stdout else ""
        code = process.wait()
    if code:
        raise LocalError(
            f"containerd did not take {', '.join(one.image.name for one in wanted)}: {' '.join(output.split())[-400:]}",
            fix="see whether the disk is full (`df -h`), then run again",
        )


def remove_unused(node: Containerd, repositories: Sequence[str], keep: Sequence[str]) -> None:
    """Remove images of these repositories that no container uses, but those to keep: an engine's layers are gigabytes."""
    used = {row.split()[1] for row in _ctr(node, "containers", "list").splitlines()[1:] if len(row.split()) > 1}
    have = images(node)
    gone = {name for name in have if name.rpartition(":")[0] in repositories} - set(keep) - used
    digests = {have[name] for name in gone} - {
        digest for name, digest in have.items() if not name.startswith("sha256:") and name not in gone
    }
    # The kubelet's own name for an image, sha256:..., would keep its layers.
    gone |= {name for name, digest in have.items() if name.startswith("sha256:") and digest in digests}
    for name in sorted(gone):
        _ctr(node, "images", "remove", name)


def _ctr(node: Containerd, *arguments: str) -> str:
    result = subprocess.run(node.ctr(*arguments), capture_output=True, text=True, check=False)
    if result.returncode:
        raise LocalError(
            f"ctr {' '.join(arguments)}: {result.stderr.strip()[-400:]}", fix="is the cluster up? `make status`"
        )
    return result.stdout
