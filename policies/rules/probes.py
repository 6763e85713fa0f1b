"""Probes and what runs alone: no probe kills an engine that still loads, none gates the head, and one replica is one outage.

Not for: how long the deployment waits for Ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, seats
from .startup_time import cold_seconds

_ENGINE_PATHS = ("/health", "/ping", "/v1/models", "/-/healthz", "/-/routes")
_AUTHENTICATED = ("/api/version", "/api/v0", "/api/jobs", "/api/serve", "/api/cluster")
# Process start, weights from a warm cache, torch.compile and CUDA graphs of a small model; nothing serves sooner.
LEAST_LOAD_SECONDS = 60
_WITH_POD = {
    "name",
    "emptyDir",
    "configMap",
    "secret",
    "projected",
    "downwardAPI",
}  # volumes that begin without weights


def _text(probe: Mapping[str, Any] | None) -> str:
    """Path or command of a probe, for a search."""
    given = mapping(probe)
    http = mapping(given.get("httpGet"))
    return " ".join(map(str, [http.get("path", ""), *items(mapping(given.get("exec")).get("command"))]))


def _port(probe: Mapping[str, Any] | None) -> str:
    return str(mapping(mapping(probe).get("httpGet")).get("port", ""))


def patience(probe: Mapping[str, Any] | None) -> int | None:
    """Seconds from the container's start until a failing probe acts (Kubernetes' defaults: delay 0, period 10, failures 3)."""
    given = mapping(probe)
    if not given:
        return None
    delay, period, failures = (
        whole(given.get(k)) for k in ("initialDelaySeconds", "periodSeconds", "failureThreshold")
    )
    return (delay or 0) + (period if period is not None else 10) * (failures if failures is not None else 3)


def head_readiness(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        head = workload.head
        if head is None or not workload.by_kuberay:
            continue
        for name, probe in (
            ("readiness", head.readiness_probe),
            ("startup", head.startup_probe),
            ("liveness", head.liveness_probe),
        ):
            if probe and _asks_engine(probe):
                yield error(
                    head.where,
                    f"its {name} probe asks an engine ({_text(probe).strip() or 'port ' + _port(probe)}), which starts only after workers have joined, and workers join "
                    "through the Service of a ready head: neither comes first",
                    "leave the probe out (KubeRay probes GCS and raylet), and watch the engine by Serve's own health",
                )


def _asks_engine(probe: Mapping[str, Any]) -> bool:
    text, port = _text(probe), _port(probe)
    by_port = port in ("8000", "serve", "serving") or ":8000" in text
    return by_port and any(path in text for path in _ENGINE_PATHS)


def kills_loading(stack: Stack) -> Iterator[Problem]:
    by_workload: dict[str, list[Seat]] = {}
    for seat in seats(stack):
        by_workload.setdefault(seat.workload.where, []).append(seat)
    for workload in stack.workloads:
        known = {
            group.name: _cold(seat, group) for seat in by_workload.get(workload.where, ()) for group in seat.groups
        }
        for group in workload.groups:
            load = max(load_seconds(workload), known.get(group.name, 0))
            startup, liveness = patience(group.startup_probe), patience(group.liveness_probe)
            if workload.by_kuberay and not (group.liveness_probe and _asks_engine(group.liveness_probe)):
                continue  # KubeRay's own and raylet probes do not wait for an engine
            if not workload.by_kuberay and not workload.engines:
                continue  # a GPU pod of another kind may have nothing to load
            if startup is not None:
                limit, name = startup, "startup"
            elif liveness is not None:
                limit, name = liveness, "liveness"
            else:
                continue
            if limit < load:
                yield (error if limit < min(load, LEAST_LOAD_SECONDS) else warning)(
                    group.where,
                    f"its {name} probe gives up after {limit} s and the engine needs about {load} s to load: the container is killed and starts over",
                    f"add a startupProbe with periodSeconds x failureThreshold of at least {2 * load} s",
                )


def _cold(seat: Seat, group: PodGroup) -> int:
    """The least time (s) to download and load its weights; to load them, where a volume that outlives the pod may have them."""
    stored = any(set(mapping(volume)) - _WITH_POD for volume in items(group.pod.get("volumes")))
    return round(cold_seconds(seat, stored) or 0)


def load_seconds(workload: Workload) -> int:
    """About how long engines load: a third of the time the deployment waits, where that is known (it is three times the estimate)."""
    if workload.ready_timeout_seconds is None:
        return LEAST_LOAD_SECONDS
    return max(LEAST_LOAD_SECONDS, workload.ready_timeout_seconds // 3)


def token(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.auth_mode != "token":
            continue
        for group in workload.pod_groups:
            if not (group.liveness_probe or group.readiness_probe or group.startup_probe):
                continue
            for name, probe in (
                ("liveness", group.liveness_probe),
                ("readiness", group.readiness_probe),
                ("startup", group.startup_probe),
            ):
                text = _text(probe)
                if (
                    any(path in text for path in _AUTHENTICATED)
                    and "authorization" not in text.lower()
                    and not _headers(probe)
                ):
                    yield warning(
                        group.where,
                        f"its {name} probe asks the dashboard ({text.strip()}) without the token, and gets 401",
                        "probe /api/healthz (not authenticated), or send the header Authorization: Bearer",
                    )


def _headers(probe: Mapping[str, Any] | None) -> bool:
    headers = items(mapping(mapping(probe).get("httpGet")).get("httpHeaders"))
    return any("authorization" in str(mapping(h).get("name", "")).lower() for h in headers)


def token_tools(stack: Stack) -> Iterator[Problem]:
    """Other containers that call the dashboard of a cluster with token authentication."""
    for workload in stack.workloads:
        head = workload.head
        if workload.auth_mode != "token" or head is None:
            continue
        for container in map(mapping, items(head.pod.get("containers"))[1:]):
            words = " ".join(map(str, [*items(container.get("command")), *items(container.get("args"))]))
            names = {str(mapping(e).get("name")) for e in items(container.get("env"))}
            if (
                "8265" in words
                and not names & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
                and "authorization" not in words.lower()
            ):
                yield warning(
                    head.where,
                    f"container '{container.get('name')}' calls the dashboard, which asks for a token it does not have",
                    "give it RAY_AUTH_TOKEN from the cluster's Secret",
                )


def single_replica(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind not in ("RayService", "Deployment"):
            continue
        for engine in workload.engines:
            if (
                engine.device == "cpu"
                or engine.max_replicas != 1
                or engine.role == "prefill"
                or _watched(workload, engine.groups)
            ):
                continue
            yield warning(
                engine.where,
                "it has one replica and KubeRay's liveness probe watches only the raylet: while the engine hangs or restarts nobody answers"
                if workload.kind == "RayService"
                else "it has one replica: while it restarts nobody answers",
                "set replicas.min to 2, or accept the outage",
            )


def _watched(workload: Workload, names: tuple[str, ...]) -> bool:
    """Whether worker pods have a liveness probe of their own."""
    groups: tuple[PodGroup, ...] = tuple(g for g in workload.groups if not names or g.name in names)
    return workload.kind == "RayService" and bool(groups) and all(group.liveness_probe for group in groups)


RULES: tuple[Rule, ...] = (
    Rule(
        id="probe-head-gated",
        title="No engine probe gates the head",
        why=(
            "The head's Service has no endpoint until the head is ready, and workers join through it. A head that is ready only when an engine over several "
            "pods answers waits for workers that wait for it."
        ),
        check=head_readiness,
        sources=("production-stack#742",),
    ),
    Rule(
        id="probe-kills-loading",
        title="Probes are more patient than the load",
        why=(
            "Download, load, compilation and graph capture take minutes. A liveness probe that counts from the start kills the container in the middle, and "
            "it begins again from nothing."
        ),
        check=kills_loading,
        sources=(
            "kserve/kserve#5062",
            "vllm-project/aibrix#1054",
            "https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
        ),
    ),
    Rule(
        id="probe-token",
        title="Probes do not ask what needs a token",
        why="With token authentication every dashboard endpoint but the health checks answers 401 without the header.",
        check=token,
        sources=("kuberay#4451", "ray#58408"),
    ),
    Rule(
        id="auth-token-tools",
        title="Tools beside the head carry the token",
        why="Collectors, submitters and scripts that call the dashboard get 401 once token authentication is on, and some then restart for ever.",
        check=token_tools,
        sources=("kuberay#4451", "kuberay#5056"),
    ),
    Rule(
        id="probe-single-replica",
        title="One replica is one outage",
        why=(
            "KubeRay's liveness probe asks the raylet, not the engine. A hung engine stays in its pod until Serve's health check replaces it, and with one "
            "replica nobody answers meanwhile."
        ),
        check=single_replica,
        sources=("kuberay#4685",),
    ),
)
