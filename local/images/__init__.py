"""The images of the local cluster, made on this machine and put into the node's containerd: no registry is asked.

`localhost/llm-serve` has Ray Serve, vLLM, a small model and the serve apps of this checkout; `localhost/kuberay-operator`
has the operator's program alone. A changed serve app costs its last small layer.

Ray and vLLM are a layer of 3.4 GB, not a folder of the host in every Pod: the image is what runs, and nothing of the host shows
through. What that costs, on two cores that others used as well (load 5 to 17): 59 s to measure the layers, once a lock file; 166 s
to put them into containerd, once a store; 8 GB of disk, half of it the archive's content. A folder of the host would cost
none of it, and a manifest that works on one machine. Afterwards: 0.2 s for a changed serve app, 0.4 s when nothing changed.
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
