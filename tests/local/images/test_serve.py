"""The names of the images that are made are the ones that the local stack asks for."""

from __future__ import annotations

import shutil
from importlib.metadata import Distribution
from pathlib import Path, PurePosixPath

import pytest
import yaml

import serve_apps
from components import versions
from components.images import serve_apps_hash
from components.images import serve_image_tag as tag_of
from local.images import operator, serve
from serve_apps import vllm_plugin

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


def test_the_tag_follows_from_what_tells_vllm_of_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = serve_apps_hash.__wrapped__()
    package = Path(shutil.copytree(Path(serve_apps.__file__).parent, tmp_path / "serve_apps"))
    monkeypatch.setattr(serve_apps, "__file__", str(package / "__init__.py"))
    assert serve_apps_hash.__wrapped__() == before
    (package / serve_apps.METADATA / "entry_points.txt").write_text("")
    assert serve_apps_hash.__wrapped__() != before


def test_the_plugin_that_vllm_is_told_of_is_there() -> None:
    """As vLLM finds it: by the metadata that lies beside the package."""
    (found,) = Distribution.at(Path(serve_apps.__file__).parent / serve_apps.METADATA).entry_points
    assert (found.group, found.load()) == ("vllm.general_plugins", vllm_plugin.cpu_waits)
