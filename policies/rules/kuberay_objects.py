"""What KubeRay's own validation refuses in a RayService or RayJob around its cluster.

Source: controllers/ray/utils/validation.go at v1.7.0. Not for: the Ray cluster inside (kuberay_cluster.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._values import dig, listed, releases
from .kuberay_cluster import _GO_DURATION, SOURCE, cluster_spec

TIMEOUT = "ray.io/initializing-timeout"
_GATED = {
    "networkPolicy": "RayClusterNetworkPolicy",
    "tlsOptions": "RayClusterMTLS",
    "historyServerOptions": "RayClusterHistoryServer",
}


def timeout(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        given = workload.annotations.get(TIMEOUT)
        if workload.kind != "RayService" or given in (None, ""):
            continue
        text = str(given)
        number = whole(text)
        duration = _GO_DURATION.fullmatch(text) is not None or text in ("0", "+0", "-0")
        if number is None and not duration:
            yield error(
                workload.where,
                f"annotation {TIMEOUT} '{text}' is no Go duration and no number of seconds; KubeRay refuses the service",
                "give a duration such as 30m or 1h",
            )
        elif (number is not None and number <= 0) or text.startswith("-") or not any(c in "123456789" for c in text):
            yield error(
                workload.where, f"annotation {TIMEOUT} '{text}' is not more than 0", "give a duration such as 30m or 1h"
            )
        elif workload.ready_timeout_seconds is not None and 0 < _seconds(text) < workload.ready_timeout_seconds // 3:
            yield warning(
                workload.where,
                f"annotation {TIMEOUT} '{text}' is shorter than the engines take to load, and a service that runs into it must be deleted and made again",
                f"give at least {workload.ready_timeout_seconds} s",
            )


def _seconds(text: str) -> float:
    number = whole(text)
    if number is not None:
        return float(number)
    import re

    units = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
    return sum(float(n) * units[u] for n, u in re.findall(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", text))


def job(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind != "RayJob":
            continue
        where, spec = workload.where, workload.spec
        shutdown = spec.get("shutdownAfterJobFinishes") is True
        ttl, backoff = whole(spec.get("ttlSecondsAfterFinished")), whole(spec.get("backoffLimit"))
        own = any(mapping(c).get("command") for c in _submitters(spec))  # a submitter that brings its command
        if not spec.get("entrypoint") and workload.submission_mode != "InteractiveMode" and spec and not own:
            yield error(where, "the job has no entrypoint", "set job.entrypoint")
        if workload.suspend and not shutdown:
            yield error(where, "a suspended job needs shutdownAfterJobFinishes", "set job.shutdown_after_finish: true")
        if ttl is not None and ttl > 0 and not shutdown:
            yield error(
                where,
                f"ttlSecondsAfterFinished {ttl} needs shutdownAfterJobFinishes; KubeRay refuses the job",
                "set job.shutdown_after_finish: true, or ttl_seconds: 0",
            )
        if workload.submission_mode == "InteractiveMode" and backoff:
            yield error(
                where, f"InteractiveMode takes no retries and backoffLimit is {backoff}", "set job.backoff_limit: 0"
            )
        for key in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
            seconds = whole(spec.get(key))
            if seconds is not None and seconds <= 0:
                yield error(where, f"{key} {seconds} is not more than 0", f"give {key} a positive number")
        for key, value in (("ttlSecondsAfterFinished", ttl), ("backoffLimit", backoff)):
            if value is not None and value < 0:
                yield error(where, f"{key} {value} is less than 0", "give 0 or more")
        selector = mapping(spec.get("clusterSelector"))
        if not spec.get("rayClusterSpec") and not selector and spec:
            yield error(where, "the job has neither rayClusterSpec nor clusterSelector", "give one of them")
        if selector and (backoff or workload.submission_mode == "SidecarMode" or workload.suspend):
            yield error(
                where, "a job on an existing cluster takes no retries, no SidecarMode and no suspend", "leave them out"
            )
        head = workload.head
        if (
            workload.submission_mode == "SidecarMode"
            and head is not None
            and head.restart_policy not in (None, "", "Never")
        ):
            yield error(
                head.where,
                f"SidecarMode needs restartPolicy Never and it is {head.restart_policy}",
                "leave restartPolicy out",
            )
        if not shutdown and not spec.get("deletionStrategy") and any(g.gpus for g in workload.groups):
            yield warning(
                where,
                "its GPU cluster stays after the job has ended",
                "set job.shutdown_after_finish: true",
            )


def _submitters(spec: Mapping[str, Any]) -> list[Any]:
    return items(mapping(mapping(spec.get("submitterPodTemplate")).get("spec")).get("containers"))


def gates(stack: Stack) -> Iterator[Problem]:
    operators = releases(stack, "kuberay-operator")
    switched = {
        str(mapping(gate).get("name")): mapping(gate).get("enabled") is True
        for release in operators
        for gate in items(dig(release.values, "featureGates"))
    }
    for workload in stack.workloads:
        spec = cluster_spec(workload) if workload.by_kuberay else {}
        for key, gate in _GATED.items():
            if spec.get(key) and not switched.get(gate):
                yield (error if operators else warning)(
                    workload.where,
                    f"{key} needs KubeRay's gate {gate}, which is off{'' if operators else ' by default'}; KubeRay refuses the cluster without it",
                    f"set software.kuberay.feature_gates: {{{gate}: true}}",
                )
        if workload.kind == "RayService" and spec.get("upgradeStrategy"):
            yield error(
                workload.where,
                "rayClusterConfig.upgradeStrategy belongs to a RayCluster of its own; KubeRay refuses it in a RayService",
                "use upgradeStrategy of the RayService (upgrade.strategy)",
            )
        delay = whole(workload.spec.get("rayClusterDeletionDelaySeconds"))
        if workload.kind == "RayService" and delay is not None and delay < 0:
            yield error(workload.where, f"rayClusterDeletionDelaySeconds {delay} is less than 0", "give 0 or more")


def containers(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if not workload.by_kuberay or (workload.kind == "RayJob" and workload.spec.get("clusterSelector")):
            continue
        if workload.head is None:
            if workload.spec:
                yield error(workload.where, "it has no headGroupSpec", "give the cluster a head")
            continue
        for group in (workload.head, *workload.groups):
            if group.pod and not items(group.pod.get("containers")):
                yield error(
                    group.where,
                    "its pod template has no container; KubeRay refuses the cluster",
                    "give it the Ray container",
                )


def serve_config(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind != "RayService":
            continue
        text = workload.spec.get("serveConfigV2")
        if text and not workload.serve_config:
            yield error(workload.where, "serveConfigV2 is no YAML mapping", "give {applications: [...]}")
            continue
        if workload.spec and not workload.apps:
            yield warning(
                workload.where, "serveConfigV2 has no applications, so nothing is served", "give it an application"
            )
        for what, values in (
            ("name", [app.name for app in workload.apps]),
            ("route_prefix", [str(app.route_prefix) for app in workload.apps if app.route_prefix is not None]),
        ):
            twice = [value for value, count in Counter(values).items() if count > 1]
            if twice:
                yield error(
                    workload.where,
                    f"{what} {listed(twice)} is used by more than one application; Serve refuses the config",
                    f"give each application a {what} of its own",
                )
        for app in workload.apps:
            path = app.import_path
            if "." not in path.replace(":", ".") or path.startswith((".", ":")) or path.endswith((".", ":")):
                yield error(
                    workload.where,
                    f"import_path '{path}' of app '{app.name}' is no module and attribute",
                    "give module.path:attribute",
                )
            if app.route_prefix is not None and not str(app.route_prefix).startswith("/"):
                yield error(
                    workload.where,
                    f"route_prefix '{app.route_prefix}' of app '{app.name}' does not start with '/'",
                    f"use '/{app.route_prefix}'",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kuberay-initializing-timeout",
        title="The initializing timeout is a positive duration, longer than the load",
        why="A service that runs into ray.io/initializing-timeout ends in a state that no update leaves: it must be deleted and made again.",
        check=timeout,
        sources=(SOURCE, "kuberay: controllers/ray/utils/constant.go"),
    ),
    Rule(
        id="kuberay-job",
        title="A RayJob's settings go together",
        why="KubeRay checks modes, retries, deadlines and deletion of a job against each other and does not start one that contradicts itself.",
        check=job,
        sources=(SOURCE,),
    ),
    Rule(
        id="kuberay-gates",
        title="Fields behind feature gates",
        why="The CRD has fields whose gate is off by default; the operator refuses objects that use them.",
        check=gates,
        sources=(SOURCE,),
    ),
    Rule(
        id="kuberay-containers",
        title="Every pod template has the Ray container",
        why="KubeRay puts the start command into the first container of head and workers.",
        check=containers,
        sources=(SOURCE,),
    ),
    Rule(
        id="serve-config",
        title="serveConfigV2 is a config that Serve takes",
        why="serveConfigV2 is text to Kubernetes. What is wrong in it is found by Ray Serve after the GPUs are up.",
        check=serve_config,
        sources=("ray 2.60.0: python/ray/serve/schema.py ServeDeploySchema",),
    ),
)
