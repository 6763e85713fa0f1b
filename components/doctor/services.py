"""Services against the plan: there, as stated, running, with the pods that the plan holds; and pods that find no place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.checks import Check, error, ok, unchecked, warning
from components.doctor.drift import drift, shown
from components.doctor.live import Cluster, Item, Refused, object_path
from components.manifests.pod_labels import SERVICE_LABEL
from components.plan.result import ServicePlan

WORKLOADS = ("RayService", "RayCluster", "RayJob", "Deployment")
# Written by Ray's autoscaler and by KubeRay's own controllers after the object was made.
_OTHERS_WRITE = ("replicas", "scaleStrategy")


def check(cluster: Cluster, service: ServicePlan, manifests: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Every object of one service."""
    place = f"service '{service.name}'"
    missing: list[str] = []
    for manifest in manifests:
        kind = str(manifest["kind"])
        try:
            path = object_path(cluster, manifest)
            live = cluster.get(path) if path else None
        except Refused as why:
            yield unchecked(place, kind, str(why), "let the credentials read it, or look by hand")
            continue
        if live is None:
            missing.append(
                f"{kind} {manifest['metadata']['name']}" + ("" if path else " (the cluster has no such kind)")
            )
            continue
        yield from _stated(place, kind, manifest, live)
        if kind in WORKLOADS:
            yield from _state(place, kind, service, live)
    if missing:
        yield error(place, "objects", f"not there: {', '.join(missing)}", "pulumi up")


def _stated(place: str, kind: str, manifest: Mapping[str, Any], live: Item) -> Iterator[Check]:
    parts = {key: manifest[key] for key in ("spec",) if key in manifest}
    metadata = {key: manifest["metadata"][key] for key in ("labels", "annotations") if key in manifest["metadata"]}
    found = [
        each
        for each in drift({**parts, "metadata": metadata}, live)
        if not _by_others(kind, each[0]) and "pulumi.com/" not in each[0]
    ]
    if found:
        yield error(place, kind, f"differs from the plan: {shown(found)}", "pulumi up, and find who changed it")
    elif kind in WORKLOADS:
        yield ok(place, kind, "as the plan has it")


def _by_others(kind: str, path: str) -> bool:
    return kind == "RayCluster" and "workerGroupSpecs" in path and path.rsplit(".", 1)[-1] in _OTHERS_WRITE


def _state(place: str, kind: str, service: ServicePlan, live: Item) -> Iterator[Check]:
    status = live.get("status") or {}
    yield from {"RayService": _ray_service, "RayCluster": _ray_cluster, "RayJob": _ray_job, "Deployment": _deployment}[
        kind
    ](place, service, status, live)


def _ray_service(place: str, service: ServicePlan, status: Item, live: Item) -> Iterator[Check]:
    conditions = {str(c.get("type")): c for c in status.get("conditions") or []}
    ready = conditions.get("Ready", {})
    if ready.get("status") != "True":
        why = ready.get("message") or status.get("serviceStatus") or "no status yet"
        yield error(place, "running", f"not ready: {why}", f"kubectl describe rayservice {service.name}")
    elif conditions.get("UpgradeInProgress", {}).get("status") == "True":
        yield warning(place, "running", "an upgrade is on its way: two Ray clusters hold GPUs", "wait for its end")
    else:
        yield ok(place, "running", "ready")
    active = status.get("activeServiceStatus") or {}
    for name, app in sorted((active.get("applicationStatuses") or {}).items()):
        if app.get("status") != "RUNNING":
            message = str(app.get("message") or "").strip().splitlines()
            text = f"{app.get('status')}{': ' + message[-1] if message else ''}"
            yield error(place, f"application '{name}'", text, "look at its deployments in the dashboard")
        for deployment, found in sorted((app.get("serveDeploymentStatuses") or {}).items()):
            if found.get("status") not in ("HEALTHY", None):
                text = f"{deployment} is {found.get('status')}: {found.get('message') or 'no message'}"
                yield error(place, f"application '{name}'", text, "look at its replicas in the dashboard")
    yield from _workers(place, service, active.get("rayClusterStatus") or {})


def _workers(place: str, service: ServicePlan, status: Item) -> Iterator[Check]:
    """Worker pods against what the plan holds. Nothing is said where the operator says nothing."""
    available = status.get("availableWorkerReplicas")
    if not isinstance(available, int) or not service.groups:
        return
    low, high = sum(g.pods.min for g in service.groups), sum(g.pods.max for g in service.groups)
    text = f"{available} worker pods are available; the plan holds {low:g} to {high:g}"
    if available < low:
        yield error(place, "workers", text, "look at pods that wait")
    elif available > high:
        yield error(place, "workers", text, "find who scaled the groups")
    else:
        yield ok(place, "workers", text)


def _ray_cluster(place: str, service: ServicePlan, status: Item, live: Item) -> Iterator[Check]:
    state = str(status.get("state") or "no state yet")
    if state != "ready":
        why = status.get("reason") or ""
        yield error(
            place, "running", f"{state}{': ' + why if why else ''}", f"kubectl describe raycluster {service.name}"
        )
    else:
        yield ok(place, "running", state)
    yield from _workers(place, service, status)


def _ray_job(place: str, service: ServicePlan, status: Item, live: Item) -> Iterator[Check]:
    job = str(status.get("jobStatus") or status.get("jobDeploymentStatus") or "not started")
    if job in ("FAILED", "STOPPED", "Failed"):
        yield error(place, "running", f"{job}: {status.get('message') or 'no message'}", "look at the job's logs")
    else:
        yield ok(place, "running", job)


def _deployment(place: str, service: ServicePlan, status: Item, live: Item) -> Iterator[Check]:
    wanted, ready = int((live.get("spec") or {}).get("replicas") or 0), int(status.get("readyReplicas") or 0)
    low, high = sum(g.pods.min for g in service.groups), sum(g.pods.max for g in service.groups)
    text = f"{ready} of {wanted} pods are ready; the plan holds {low:g} to {high:g}"
    if ready < wanted:
        yield error(place, "running", text, f"kubectl describe deployment {service.name}")
    elif not low <= wanted <= high:
        yield error(place, "running", text, "find who scaled it")
    else:
        yield ok(place, "running", text)


def waiting(services: Sequence[ServicePlan], pods: Sequence[Item]) -> Iterator[Check]:
    """Pods of the services that no node takes, with the scheduler's own words."""
    names = {service.name for service in services}
    for pod in pods:
        owner = (pod["metadata"].get("labels") or {}).get(SERVICE_LABEL)
        for condition in (pod.get("status") or {}).get("conditions") or []:
            if owner in names and condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                text = f"pod {pod['metadata']['name']} waits: {condition.get('message') or condition.get('reason')}"
                yield error(f"service '{owner}'", "scheduling", text, "make room, or lower replicas.min")
