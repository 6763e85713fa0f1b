"""An image with Redis from Debian's packages, for GCS fault tolerance where no registry is asked. The local stack does not run it."""

from __future__ import annotations

import platform
from pathlib import Path, PurePosixPath

from local import cache
from local.engine import rootfs
from local.images.made import Made, make, measured
from local.images.oci import Layer, Tree

NAME = "localhost/redis:bookworm"
PACKAGES = ("redis-server",)
_CONFIG = {"Cmd": ["redis-server"], "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "User": "redis", "WorkingDir": "/tmp"}


def made() -> Made:
    """The image; makes what the cache lacks of it (half a minute). Needs root. Raises LocalError."""
    recipe = cache.recipe_hash(platform.machine(), str(rootfs.EPOCH), *PACKAGES, *rootfs.CLEANING)

    def build(folder: Path) -> None:
        rootfs.debian(folder, PACKAGES, rootfs.CLEANING, "the Redis image")

    folder = cache.find("redis-rootfs", rootfs.SUITE, recipe) or cache.ensure(
        "redis-rootfs", rootfs.SUITE, build, recipe=recipe
    )
    root = Layer(trees=(Tree(source=folder / "root", target="", owned=True, keep=_keep),))
    return make(NAME, [measured("redis", recipe, root)], _CONFIG)


def _keep(path: PurePosixPath) -> bool:
    return len(path.parts) == 1 or path.parts[0] not in ("dev", "proc", "sys")  # the container's own are mounted there
