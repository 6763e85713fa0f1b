"""The images of the local cluster, made on this machine and put into the node's containerd: no registry is asked.

`localhost/llm-serve` has Ray Serve, vLLM, a small model and the serve apps of this checkout; `localhost/kuberay-operator`
has the operator's program alone. A changed serve app costs its last small layer.

A layer of 3.4 GB for Ray and vLLM, rather than a folder of the host in every Pod: MEASURED.
"""

from __future__ import annotations

from local import cache
from local.images import operator, serve, store
from local.images.serve import serve_image_tag
from local.progress import step

__all__ = ["ensure_images", "serve_image_tag"]


def ensure_images(node: store.Containerd) -> None:
    """Make the images that the node's store lacks and put them in; under a second when it has them. Raises LocalError."""
    wanted = [serve.made(), operator.made()]
    with cache.lock("images"):
        have = store.images(node)
        missing = [one for one in wanted if have.get(one.image.name) != one.image.digest]
        if not missing:
            return
        with step(f"loading {', '.join(one.image.name for one in missing)}"):
            store.load(node, missing)
        store.remove_unused(node, [serve.REPOSITORY], keep=[one.image.name for one in wanted])
