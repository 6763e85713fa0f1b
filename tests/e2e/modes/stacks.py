"""A second stack on the one-node cluster, with services of its own beside the local stack's: up, its endpoints, taken away.

Brought up by the real Pulumi engine and this checkout's program, from what Pulumi.local.yaml says about the cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import yaml

from components.config import PROJECT, deep_merge
from local import endpoint, stack
from tests.e2e.kuberay import kubectl

STACK = "modes"
NAMESPACE = "modes"
MODEL: dict[str, Any] = {
    "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "source": "/opt/models/smollm2-135m-instruct",
    "device": "cpu",
    "engine_args": {
        "dtype": "bfloat16",
        "enforce_eager": True,
        "max_model_len": 512,
        "max_num_seqs": 16,
        "kv_cache_memory_bytes": 1 << 29,
    },
    "ray_actor_options": {"num_cpus": 0},
}
"""The one model there is, on the CPU."""
SERVICE: dict[str, Any] = {
    "namespace": NAMESPACE,
    "pool": "machine",
    "image": {"pull_policy": "Never", "size_gib": 6},
    "ready_timeout_seconds": 600,
}
"""What every service of these tests has."""
RAY: dict[str, Any] = {
    **SERVICE,
    "head": {"cpu": 0.25, "memory_gib": 3, "cpu_limit": False},
    "worker": {"cpu": 0.5, "memory_gib": 7, "cpu_limit": False, "resources": {"CPU": "4"}},
}
"""One on Ray: small requests, no limits of CPU, beside the local stack's."""


class Project:
    """A Pulumi project of its own folder with this checkout's program: its stack's config is not in the checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        project = {"name": PROJECT, "runtime": {"name": "python"}, "main": str(stack.REPO)}
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump(project))

    def up(self, services: Mapping[str, Mapping[str, Any]]) -> None:
        """Bring these services up, or change to them."""
        local = yaml.safe_load((stack.REPO / "Pulumi.local.yaml").read_text())
        config = {
            **local["config"],
            f"{PROJECT}:software": {"kuberay": {"install": False}},  # the local stack's watches all namespaces
            f"{PROJECT}:services": dict(services),
        }
        # The salt is that of the local stack's file: nothing here is secret.
        (self.folder / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump({**local, "config": config}))
        stack.up(STACK, cwd=self.folder)

    def down(self) -> None:
        """Take all away, the last pod too: the next services need its memory."""
        stack.destroy(STACK, cwd=self.folder)
        stack.pulumi("stack", "rm", "--yes", "--stack", STACK, cwd=self.folder, capture=True)
        # With Redis KubeRay cleans it up by a Job of this namespace, which must not go before.
        kubectl("wait", "--for=delete", "rayclusters", "--all", "-n", NAMESPACE, "--timeout=360s", check=False)
        kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=300s")


@contextmanager
def deployed(folder: Path, services: Mapping[str, Mapping[str, Any]], objects: Sequence[Any] = ()) -> Iterator[Project]:
    """These services, for as long as the block runs, in a namespace with what they refer to."""
    project = Project(folder)
    for each in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *objects):
        kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(each))
    try:
        project.up(services)
        yield project
    finally:
        project.down()


@contextmanager
def client(service: str, timeout: float = 180, api_key: str = "none") -> Iterator[openai.OpenAI]:
    """The official client on a service's endpoint, without retries: what fails must be seen."""
    with endpoint.reach(NAMESPACE, f"{service}-serve-svc", 8000) as url:
        yield openai.OpenAI(base_url=f"{url}/v1", api_key=api_key, max_retries=0, timeout=timeout)


def secret(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    """A Secret that services refer to: the stack never sees what is in it."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(values)}


def config_map(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    """A ConfigMap of the namespace."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(values)}


def pods(selector: str = "") -> list[dict[str, Any]]:
    """Pods of the namespace that are not on their way out."""
    words = ("get", "pods", "-n", NAMESPACE, "-l", selector, "-o", "json")
    result = kubectl(*words, check=False)
    if result.returncode:
        result = kubectl(*words)  # on a busy machine the API server sometimes answers late
    found = json.loads(result.stdout)["items"]
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def until(what: str, seconds: float, check: Any, pause: float = 1) -> Any:
    """Ask `check` until it says something true, and return it. Fails with `what` after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (answer := check()):
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {what}"
        time.sleep(pause)
    return answer


def service(base: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A service with changes."""
    merged: dict[str, Any] = deep_merge(dict(base), changes)
    return merged
