"""The image of the engine Pods: Debian, Ray Serve with vLLM for CPU, the model, and on top the serve apps of this checkout."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import serve_apps
from components import versions
from components.images import serve_image_tag as tag_of
from local import cache
from local.engine import environment, model, rootfs
from local.engine.python import APP, VARIABLES
from local.images.made import Made, make, measured
from local.images.oci import Layer, Tree

REPOSITORY = "localhost/llm-serve"
_EMPTY_FOLDERS = ("dev", "proc", "sys")  # the container's own are mounted there
_RECIPE = "1"  # change it when a layer is written in another way

_CONFIG = {
    "Cmd": ["/bin/bash"],
    "Env": [f"{name}={value}" for name, value in sorted(VARIABLES.items())],
    "User": f"{rootfs.UID}:{rootfs.UID}",
    "WorkingDir": VARIABLES["HOME"],
}


def serve_image_tag() -> str:
    """The tag that the stack derives for this checkout: the same value, from the same function."""
    return tag_of(ray=versions.RAY, vllm=versions.VLLM, python=versions.PYTHON)


def made() -> Made:
    """The image; makes what the cache lacks of its parts. Raises LocalError."""
    root = Layer(trees=(Tree(source=rootfs.ensure(), target="", owned=True, keep=_keep_root),))
    engine = Layer(trees=(Tree(source=environment.ensure(), target=environment.PREFIX.strip("/")),))
    weights = Layer(trees=(Tree(source=model.ensure(), target=model.FOLDER.strip("/")),))
    package = Path(serve_apps.__file__).parent
    apps = Layer(
        trees=(
            Tree(source=package, target=f"{APP}/serve_apps".strip("/"), keep=_keep_app),
            Tree(source=package / serve_apps.METADATA, target=f"{APP}/{serve_apps.METADATA}".strip("/")),
        )
    )
    layers = [
        measured("root", cache.recipe_hash(_RECIPE, rootfs.recipe()), root),
        measured("engine", cache.recipe_hash(_RECIPE, environment.recipe()), engine),
        measured("model", cache.recipe_hash(_RECIPE, model.recipe()), weights),
        (apps, apps.blob()),
    ]
    return make(f"{REPOSITORY}:{serve_image_tag()}", layers, _CONFIG)


def _keep_root(path: PurePosixPath) -> bool:
    return len(path.parts) == 1 or path.parts[0] not in _EMPTY_FOLDERS


def _keep_app(path: PurePosixPath) -> bool:
    """Folders and Python files: what the tag is a hash of, beside the metadata."""
    return path.name != "__pycache__" and path.suffix in ("", ".py")
