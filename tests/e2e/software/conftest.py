"""A one-node cluster of its own for the cluster software: another scheduler for KubeRay than the stack `local` has."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from local import builds, cluster, gobuild, gotools, tools
from local.cluster import Cluster
from local.images import operator, store
from local.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = Settings(
    name="software",
    node_network=IPv4Network("10.231.8.0/30"),
    pod_network=IPv4Network("10.228.0.0/16"),
    service_network=IPv4Network("10.227.0.0/16"),
)
PROGRAM = """\
import sys

sys.path.insert(0, {root!r})

import pulumi

from components import cluster, cluster_software, node_pools
from components.config import load_pulumi

env = load_pulumi()
pools = node_pools.resolve(env)
software = cluster_software.build(env, pools, cluster.build(env, pools))
"""


@dataclass(frozen=True)
class Kube:
    """kubectl on the cluster, with what it prints as data."""

    kubeconfig: Path

    def __call__(self, *words: str, stdin: str | None = None) -> str:
        result = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig), *words],
            input=stdin,
            env=tools.environment(),
            text=True,
            capture_output=True,
            check=False,
        )
        assert result.returncode == 0, f"kubectl {' '.join(words)}: {result.stderr}"
        return result.stdout

    def get(self, *words: str) -> Any:
        return json.loads(self("get", *words, "-o", "json"))

    def apply(self, objects: Sequence[Mapping[str, Any]]) -> None:
        text = "\n---\n".join(json.dumps(each) for each in objects)
        self("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)

    def until(self, look: Callable[[], Any], what: str, seconds: float = 120) -> Any:
        """What `look` finds, once it finds something."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = look()
            if found:
                return found
            time.sleep(0.5)
        raise AssertionError(f"{what}: not within {seconds:g} s")


@dataclass
class Engine:
    """The real engine with a stack of cluster software and nothing else, on a state of its own."""

    folder: Path
    kubeconfig: Path
    program: str = PROGRAM
    log: list[str] = field(default_factory=list)

    def run(self, *words: str) -> str:
        result = subprocess.run(
            ["pulumi", *words, "--non-interactive"],
            cwd=self.folder,
            env={
                **tools.environment(),
                "KUBECONFIG": str(self.kubeconfig),
                "PULUMI_BACKEND_URL": f"file://{self.folder}",
            },
            text=True,
            capture_output=True,
            check=False,
        )
        assert result.returncode == 0, f"pulumi {' '.join(words)}:\n{result.stdout[-6000:]}\n{result.stderr[-2000:]}"
        return result.stdout

    def up(self, config: Mapping[str, Any] | None = None) -> str:
        """Bring the stack to `config` (the environment's keys), and return what the engine said."""
        (self.folder / "Pulumi.yaml").write_text("name: llm-serving\nruntime: python\n")
        (self.folder / "__main__.py").write_text(self.program.format(root=str(ROOT)))
        values = {f"llm-serving:{key}": value for key, value in (config or {}).items()}
        (self.folder / "Pulumi.software.yaml").write_text(yaml.safe_dump({"config": values}))
        self.run("stack", "select", "software", "--create")
        return self.run("up", "--yes", "--skip-preview")

    def destroy(self) -> None:
        self.run("destroy", "--yes", "--skip-preview")

    def resources(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("stack", "export"))["deployment"].get("resources", [])
        return found


@pytest.fixture(scope="session")
def node() -> Iterator[Cluster]:
    """The cluster, with the operator's image; gone afterwards."""
    if os.geteuid() != 0:
        if os.environ.get("CI"):
            pytest.fail("the one-node cluster needs root")
        pytest.skip("the one-node cluster needs root")
    tools.ensure()
    cluster.down(SETTINGS)
    running = cluster.up(SETTINGS)
    try:
        store.load(running, [operator.made()])
        yield running
    finally:
        cluster.down(SETTINGS, images=True)


@pytest.fixture(scope="session")
def kube(node: Cluster) -> Kube:
    return Kube(node.kubeconfig)


@pytest.fixture
def engine(node: Cluster, tmp_path: Path) -> Iterator[Engine]:
    """An engine whose stack is destroyed at the end of the test."""
    made = Engine(tmp_path, node.kubeconfig)
    yield made
    made.destroy()


@pytest.fixture(scope="session")
def volcano_module(node: Cluster) -> Path:
    """Source of Volcano at the version of the chart."""
    return gotools.fetch_module("volcano")


@pytest.fixture(scope="module")
def kwok(kube: Kube) -> Iterator[None]:
    """KWOK as a process of this machine, minding nodes that carry its annotation; the real node is none of its business."""
    program = gobuild.ensure(builds.KWOK) / "kwok"
    with tempfile.TemporaryDirectory() as home, (Path(home) / "log").open("w") as log:
        process = subprocess.Popen(
            [
                str(program),
                f"--kubeconfig={kube.kubeconfig}",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={"HOME": home, "PATH": "/usr/bin:/bin"},
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)
