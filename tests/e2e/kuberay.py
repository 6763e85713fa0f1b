"""KubeRay's own judgement of manifests without a pod: what it gets is suspended, which it looks at only after its validation."""

from __future__ import annotations

import copy
import json
import subprocess
import time
from collections.abc import Iterable, Mapping
from typing import Any

from local import tools

NAMESPACE = "manifests"
_INVALID = "Invalid"  # reasons of its events: InvalidRayServiceSpec, InvalidRayClusterMetadata, ...
_OF = "ray.io/originated-from-cr-name"


def kubectl(*words: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """kubectl on the one-node cluster."""
    result = subprocess.run(
        ["kubectl", *words], input=stdin, env=tools.environment(), text=True, capture_output=True, check=False
    )
    assert not check or result.returncode == 0, f"kubectl {' '.join(words)}: {result.stderr}"
    return result


def make_namespace() -> None:
    """A namespace in which no pod may be, whatever the operator does."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-pods", "namespace": NAMESPACE},
        "spec": {"hard": {"pods": "0"}},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for each in (namespace, quota):
        kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(each))


def delete_namespace() -> None:
    """Take it and all in it away. No pod may be there, so what KubeRay would do in one (clean a Redis up) is not waited for."""
    kubectl("delete", "rayservices,rayjobs", "--all", "-n", NAMESPACE, "--wait=false")
    kubectl("delete", "rayclusters", "--all", "-n", NAMESPACE, "--wait=false")
    for cluster in kubectl("get", "rayclusters", "-n", NAMESPACE, "-o", "name").stdout.split():
        nothing = json.dumps({"metadata": {"finalizers": None}})
        kubectl("patch", "-n", NAMESPACE, cluster, "--type", "merge", "-p", nothing, check=False)
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=180s")


def dry_run(manifest: Mapping[str, Any]) -> str | None:
    """What the API server says against it (unknown fields, types, values of the CRD); None when it takes it."""
    given = {**manifest, "metadata": {**manifest["metadata"], "namespace": NAMESPACE}}
    result = kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(given), check=False)
    return result.stderr.strip() if result.returncode else None


def kinds() -> set[tuple[str, str]]:
    """(API version, kind) of everything that the API server serves."""
    found = set()
    for line in kubectl("api-resources", "--no-headers").stdout.splitlines():
        *_, version, _namespaced, kind = line.split()
        found.add((version, kind))
    return found


def suspended(manifest: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The manifest under another name in the namespace, suspended."""
    given = copy.deepcopy(dict(manifest))
    given["metadata"] = {**given["metadata"], "name": name, "namespace": NAMESPACE}
    spec = given["spec"]
    if given["kind"] == "RayService":
        spec["rayClusterConfig"]["suspend"] = True
    else:
        spec["suspend"] = True
    return given


def create(manifest: Mapping[str, Any]) -> str | None:
    """What the API server says against it; None when it is there."""
    result = kubectl("create", "-f", "-", stdin=json.dumps(manifest), check=False)
    return result.stderr.strip() if result.returncode else None


def verdicts(names: Iterable[str], seconds: float = 180, *, silence: bool = False) -> dict[str, str]:
    """name -> "" where KubeRay has validated it and all it made of it, else what it refuses. Waits for all of them.

    silence: KubeRay's silence is a refusal too: it goes round on an object that the API server does not take from it.
    """
    waiting, found = set(names), dict[str, str]()
    deadline = time.monotonic() + seconds
    while waiting:
        refused, accepted = _look()
        for name in waiting & (refused.keys() | accepted):
            found[name] = refused.get(name, "")
        waiting -= found.keys()
        if silence and time.monotonic() >= deadline:
            return found | dict.fromkeys(waiting, f"no word of KubeRay in {seconds:g} s")
        assert not waiting or time.monotonic() < deadline, (
            f"no word of KubeRay in {seconds:g} s about {sorted(waiting)}"
        )
        if waiting:
            time.sleep(1)
    return found


def _look() -> tuple[dict[str, str], set[str]]:
    owners: dict[str, str] = {}  # of Ray clusters
    accepted: set[str] = set()
    for item in _items("rayservices,rayjobs,rayclusters"):
        metadata, status = item["metadata"], item.get("status", {})
        name = metadata["name"]
        if item["kind"] == "RayCluster":
            owners[name] = metadata.get("labels", {}).get(_OF, name)
            if status.get("state") == "suspended":
                accepted.add(owners[name])
        elif item["kind"] == "RayJob" and status.get("jobDeploymentStatus") == "Suspended":
            accepted.add(name)
    refused: dict[str, str] = {}
    for event in _items("events"):
        if event.get("type") == "Warning" and event.get("reason", "").startswith(_INVALID):
            about = event["involvedObject"]["name"]
            refused[owners.get(about, about)] = event["message"]
    return refused, accepted - refused.keys()


def _items(kinds: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", kinds, "-n", NAMESPACE, "-o", "json").stdout)["items"]
    return found
