"""Versions of the cluster and its software, and queues, against the plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.checks import Check, error, ok, unchecked, warning
from components.doctor.drift import drift, shown
from components.doctor.live import Cluster, Item, Refused, object_path
from policies.facts import Release, Versions
from policies.facts.helm import CHART_LABEL


def kubernetes(cluster: Cluster, versions: Versions) -> Iterator[Check]:
    """The API server's minor version."""
    answer = cluster.get("/version") or {}
    live = ".".join(re.findall(r"\d+", f"{answer.get('major')}.{answer.get('minor')}")[:2])
    planned = versions.kubernetes
    if planned is None:
        yield ok("cluster", "Kubernetes", live)
    elif live != planned:
        yield error(
            "cluster", "Kubernetes", f"{live} runs and the plan has {planned}", "set cluster.kubernetes_version"
        )
    else:
        yield ok("cluster", "Kubernetes", live)


def releases(planned: Sequence[Release], controllers: Sequence[Item]) -> Iterator[Check]:
    """Each release by the chart label of its Deployments and DaemonSets, else by the tags of their images."""
    for release in planned:
        chart = release.chart.rsplit("/", 1)[-1]
        found = [c for c in controllers if _of(chart, release, c)]
        place = f"software '{release.name}'"
        if not found:
            mend = "pulumi up, or software.<name>.install: false where another team has it elsewhere"
            yield error(place, "installed", f"no Deployment or DaemonSet of {chart} in {release.namespace}", mend)
            continue
        versions = sorted({v for v in (_version(chart, each) for each in found) if v})
        wanted = (release.version or "").removeprefix("v")
        if not versions:
            yield unchecked(place, "version", "neither chart labels nor image tags name one", "look by hand")
        elif wanted and wanted not in versions:
            yield error(place, "version", f"{', '.join(versions)} runs and the plan has {wanted}", "pulumi up")
        else:
            yield ok(place, "version", wanted or versions[0])
        for each in found:
            yield from _running(place, each)


def _of(chart: str, release: Release, controller: Item) -> bool:
    metadata = controller["metadata"]
    label = str((metadata.get("labels") or {}).get(CHART_LABEL, ""))
    if label:
        return re.fullmatch(rf"{re.escape(chart)}-v?\d.*", label) is not None
    # Volcano's chart and plain manifests have no such label; theirs lie in the release's own namespace.
    own = release.namespace is None or metadata.get("namespace") == release.namespace
    return own and chart.split("-")[0] in str(metadata.get("name"))


def _version(chart: str, controller: Item) -> str | None:
    label = str((controller["metadata"].get("labels") or {}).get(CHART_LABEL, ""))
    if label.startswith(f"{chart}-"):
        return label.removeprefix(f"{chart}-").removeprefix("v")
    pod = ((controller.get("spec") or {}).get("template") or {}).get("spec") or {}
    for container in pod.get("containers") or []:
        match = re.search(r":v?(\d+\.\d+\.\d+)", str(container.get("image")))
        if match:
            return match.group(1)
    return None


def _running(place: str, controller: Item) -> Iterator[Check]:
    """Deployments: available of wanted; DaemonSets: ready of scheduled."""
    status, name = controller.get("status") or {}, controller["metadata"]["name"]
    if controller.get("kind") == "DaemonSet":
        wanted, ready = status.get("desiredNumberScheduled") or 0, status.get("numberReady") or 0
    else:
        wanted, ready = (controller.get("spec") or {}).get("replicas", 1), status.get("availableReplicas") or 0
    if ready < wanted:
        yield error(place, "running", f"{name}: {ready} of {wanted} pods run", f"kubectl describe its pods ({name})")


def queues(cluster: Cluster, planned: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Each queue: there, and as stated."""
    for manifest in planned:
        place = f"queue '{manifest['metadata']['name']}'"
        try:
            path = object_path(cluster, manifest)
            live = cluster.get(path) if path else None
        except Refused as why:
            yield unchecked(place, "queue", str(why))
            continue
        if live is None:
            yield error(place, "queue", "it is not there" if path else "the cluster has no queues", "pulumi up")
            continue
        found = list(drift({"spec": manifest["spec"]}, live))
        if found:
            yield error(place, "queue", f"differs from the plan: {shown(found)}", "pulumi up, and find who changed it")
            continue
        state = (live.get("status") or {}).get("state")
        if state not in (None, "Open"):
            yield warning(place, "queue", f"its state is {state}: it takes nothing", "open it (vcctl queue operate)")
        else:
            yield ok(place, "queue", "as the plan has it")
