"""An image with the folders that its layers are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local import cache
from local.images.oci import Blob, Image, Layer
from local.progress import step


@dataclass(frozen=True, kw_only=True)
class Made:
    """An image, and how each of its layers is written."""

    image: Image
    layers: Mapping[str, Layer]
    """By digest."""


def make(name: str, layers: list[tuple[Layer, Blob]], config: Mapping[str, Any]) -> Made:
    """An image of measured layers, from the lowest up."""
    image = Image(name=name, layers=tuple(blob for _, blob in layers), config=config)
    return Made(image=image, layers={blob.digest: layer for layer, blob in layers})


def measured(name: str, recipe: str, layer: Layer) -> tuple[Layer, Blob]:
    """A layer with its digest and size; they are remembered by `recipe`, which must change when the layer does."""

    def build(folder: Path) -> None:
        with step(f"measuring the layer '{name}'"):
            blob = layer.blob()
        (folder / "blob.json").write_text(json.dumps({"digest": blob.digest, "size": blob.size}))

    found = cache.find("layer", name, recipe) or cache.ensure("layer", name, build, recipe=recipe)
    return layer, Blob(**json.loads((found / "blob.json").read_text()))
