"""Names of images. The tag is derived from what is inside, so that code and image cannot drift apart."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import serve_apps


@cache
def serve_apps_hash() -> str:
    """First twelve hex digits of a hash over what an image holds of serve_apps/: Python files and metadata (paths and contents, sorted)."""
    root = Path(serve_apps.__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*root.rglob("*.py"), *(root / serve_apps.METADATA).iterdir()]):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def serve_image_tag(*, ray: str, vllm: str, python: str) -> str:
    """Tag of the image with this Ray, vLLM, Python and the serve apps of this checkout."""
    return f"ray{ray}-vllm{vllm}-py{python.replace('.', '')}-{serve_apps_hash()}"
