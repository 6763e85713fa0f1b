"""A version that is written in two places is the same in both."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from components import versions
from local import pins

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_local_environment_deploys_the_operator_that_is_built() -> None:
    config = yaml.safe_load((REPOSITORY / "Pulumi.local.yaml").read_text())["config"]
    kuberay = config["llm-serving:software"]["kuberay"]
    assert kuberay["version"] == pins.KUBERAY.removeprefix("v")
    assert kuberay["image"] == f"localhost/kuberay-operator:{pins.KUBERAY}"
    assert config["llm-serving:cluster"]["kubernetes_version"] == pins.KUBERNETES.removeprefix("v").rpartition(".")[0]


@pytest.mark.parametrize(
    ("module", "chart"),
    [
        ("dra-driver", versions.DRA_DRIVER),
        ("envoy-gateway", versions.GATEWAY),
        ("karpenter", versions.KARPENTER),
        ("keda", versions.KEDA),
        ("volcano", versions.VOLCANO),
    ],
)
def test_crds_that_judge_are_of_the_release_that_is_installed(module: str, chart: versions.Chart) -> None:
    assert pins.GO_MODULES[module].version.removeprefix("v") == chart.version.removeprefix("v")


def test_the_lock_file_has_hashes_and_no_addresses() -> None:
    for name in ("requirements.lock", "requirements-uv.lock"):
        text = (REPOSITORY / name).read_text()
        assert "://" not in text
        assert "index-url" not in text
        blocks = re.split(r"\n(?=\S)", text.strip())
        assert all("--hash=sha256:" in block for block in blocks)


def test_the_lock_file_has_every_package_that_the_project_names() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {re.match(r"[A-Za-z0-9._-]+", entry)[0].lower().replace("_", "-") for entry in wanted}  # type: ignore[index]
    locked = set(re.findall(r"^([a-z0-9.-]+)==", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE))
    assert names <= locked
