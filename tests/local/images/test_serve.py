"""The names of the images that are made are the ones that the local stack asks for."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import yaml

from components import versions
from components.images import serve_image_tag as tag_of
from local.images import operator, serve

CONFIG = yaml.safe_load((Path(__file__).parents[3] / "Pulumi.local.yaml").read_text())["config"]


def test_the_serve_image_is_the_one_that_the_local_config_names_with_the_derived_tag() -> None:
    assert CONFIG["llm-serving:image"] == serve.REPOSITORY
    assert serve.serve_image_tag() == tag_of(ray=versions.RAY, vllm=versions.VLLM, python=versions.PYTHON)


def test_the_operators_image_is_the_one_that_the_local_config_names() -> None:
    assert CONFIG["llm-serving:software"]["kuberay"]["image"] == operator.NAME


def test_the_layer_of_serve_apps_has_the_files_that_the_tag_is_a_hash_of() -> None:
    kept = [
        path
        for path in ("openai_chat", "openai_chat/app.py", "__pycache__", "notes.md", "a.pyc")
        if serve._keep_app(PurePosixPath(path))
    ]
    assert kept == ["openai_chat", "openai_chat/app.py"]
