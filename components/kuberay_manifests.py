"""KubeRay installed from the manifests of its Go module, by kustomize: for a cluster that reaches no chart repository.

Not for deciding what they say (manifests/kuberay_overlay.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pulumi
import pulumi_kubernetes as k8s

from components import crds
from components.config import ConfigError, Environment
from components.manifests import kuberay, kuberay_overlay

# In the project's folder, which git ignores: paths are inputs of resources, so they must be the same in every run.
BUILD = Path("build/kuberay")


class KubeRayManifests(pulumi.ComponentResource):
    """CRDs, then the operator. `ready`: both."""

    ready: tuple[pulumi.Resource, ...]

    def __init__(
        self, name: str, *, env: Environment, after: Sequence[pulumi.Resource], opts: pulumi.ResourceOptions
    ) -> None:
        published = published_folder(env)
        super().__init__("llm-serving:software:KubeRayManifests", name, {}, opts)
        folder = BUILD / pulumi.get_stack()
        applied = crds.from_folder(
            f"{name}-crds",
            crd_files(published),
            kuberay.version(env),
            folder / "crds",
            pulumi.ResourceOptions(parent=self, depends_on=list(after)),
        )
        overlay = write_overlay(env, published, folder / "operator")
        operator = k8s.kustomize.v2.Directory(
            name,
            directory=str(overlay),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*after, applied]),
        )
        self.ready = (applied, operator)
        self.register_outputs({})


def published_folder(env: Environment) -> Path:
    """The published kustomization. Raises ConfigError when it is not there."""
    given = env.software.kuberay.directory or ""
    folder = Path(os.path.expandvars(given)).expanduser()
    if not (folder / "kustomization.yaml").is_file():
        shown = f"'{given}' is '{folder}', which" if str(folder) != given else f"'{given}'"
        raise ConfigError(
            [
                f"software.kuberay.directory: {shown} holds no kustomization.yaml; give the folder config/default of the "
                "module github.com/ray-project/kuberay/ray-operator (`make up` sets KUBERAY_MANIFESTS to it)"
            ]
        )
    return folder.resolve()


def crd_files(published: Path) -> list[Path]:
    """The CRDs beside the published kustomization."""
    return sorted((published.parent / "crd" / "bases").glob("*.yaml"))


def write_overlay(env: Environment, published: Path, folder: Path) -> Path:
    """Write the overlay; kustomize wants relative paths from it."""
    folder.mkdir(parents=True, exist_ok=True)
    written = kuberay_overlay.files(env, os.path.relpath(published, folder.resolve()))
    for stale in {path.name for path in folder.iterdir()} - set(written):
        (folder / stale).unlink()
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
