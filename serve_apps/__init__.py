"""What services run: one folder each, with typed args (args.py: pydantic only) and the code (app.py: ray at the top, vllm inside the replica).

A serve app has a builder that Serve calls; a job has `python -m serve_apps.<app>`, which KubeRay runs in a RayJob.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class App:
    """One app: where its code is, and the type of its arguments."""

    import_path: str
    """serve: where Serve finds the builder; job: the module that `python -m` runs."""
    args_module: str
    args_class: str
    kind: Literal["serve", "job"] = "serve"

    def args(self) -> type[BaseModel]:
        """The type of the arguments (needs pydantic, neither ray nor vllm)."""
        found: type[BaseModel] = getattr(import_module(self.args_module), self.args_class)
        return found


# The apps a service may name. To add one: a folder with args.py and app.py, and a row here.
APPS: dict[str, App] = {
    "openai_chat": App("serve_apps.openai_chat.app:build", "serve_apps.openai_chat.args", "OpenAIChatArgs"),
    "batch": App("serve_apps.batch", "serve_apps.batch.args", "BatchArgs", kind="job"),
}

METADATA = "serve_apps.dist-info"
"""Folder of this package that an image holds beside it: by it vLLM finds vllm_plugin.py (importlib.metadata, entry points)."""
