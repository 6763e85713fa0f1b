"""Ports of a RayService: where Serve listens, where KubeRay's Service and probes look, and what else is there.

Not for: who can reach the ports (exposure.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._values import LOOPBACK, listed

SERVE, _DEFAULT = "serve", 8000
# ray start's and KubeRay's own on every pod: GCS, dashboard, client, metrics, dashboard agent.
_TAKEN = {
    6379: "the GCS",
    8265: "the dashboard",
    10001: "the client server",
    8080: "the metrics exporter",
    52365: "the dashboard agent",
}
_METRICS = 8080
_PROXIES = ("Disabled", "HeadOnly", "EveryNode")


def ports(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind == "RayService" and workload.head is not None:
            yield from _head(workload, workload.head)
            yield from _listening(workload)


def _declared(group: PodGroup) -> dict[str, int | None]:
    containers = items(group.pod.get("containers"))
    first = mapping(containers[0]) if containers else {}
    given = map(mapping, items(first.get("ports")))
    return {
        str(port.get("name") or f"{port.get('containerPort')}-port"): whole(port.get("containerPort")) for port in given
    }


def _head(workload: Workload, head: PodGroup) -> Iterator[Problem]:
    declared = _declared(head)
    if not declared:
        return  # KubeRay's own: all of them
    if not any(name == SERVE or name.startswith(f"{SERVE}-") for name in declared) and workload.serve_service is None:
        yield error(
            head.where,
            f"its container has ports {listed(declared)} and none called serve: KubeRay makes no Service for the endpoint",
            "add {name: serve, containerPort: 8000}, or declare no ports at all",
        )
    if "dashboard" not in declared:
        yield error(
            head.where,
            f"its container has ports {listed(declared)} and none called dashboard: KubeRay finds no way to configure Serve",
            "add {name: dashboard, containerPort: 8265}, or declare no ports at all",
        )


def _listening(workload: Workload) -> Iterator[Problem]:
    options = mapping(workload.serve_config.get("http_options"))
    host, port = options.get("host"), whole(options.get("port"))
    if host is not None and str(host) in LOOPBACK:
        yield error(
            workload.where,
            f"Serve's http_options.host is {host}: the endpoint's Service reaches pods by their address, where nobody listens",
            'leave it out, or set "0.0.0.0"',
        )
    proxies = workload.serve_config.get("proxy_location")
    if proxies is not None and proxies not in _PROXIES:
        yield error(
            workload.where, f"Serve's proxy_location is '{proxies}'; allowed: {', '.join(_PROXIES)}", "set one of these"
        )
    elif proxies == "Disabled":
        yield error(
            workload.where,
            "Serve's proxy_location is Disabled: the service has no endpoint and is never ready",
            "leave it out",
        )
    elif proxies == "HeadOnly":
        excluded = workload.spec.get("excludeHeadPodFromServeSvc") is True
        effect = (
            "the head is excluded from the endpoint's Service, which so has no pod"
            if excluded
            else "workers are never ready"
        )
        yield (error if excluded else warning)(
            workload.where,
            f"Serve's proxy_location is HeadOnly, KubeRay's readiness probe asks the proxy of each worker, and {effect}",
            "leave proxy_location out",
        )
    listens = _DEFAULT if port is None else port
    moved = all("metrics-export-port" in group.ray_start_params for group in workload.pod_groups)
    if listens in _TAKEN and not (listens == _METRICS and moved):
        yield error(
            workload.where,
            f"Serve listens on port {listens}, which is that of {_TAKEN[listens]} in the same pod",
            "choose another (8000)",
        )
    for group in workload.pod_groups:
        looks = _declared(group).get(SERVE, _DEFAULT)
        probed = group.head or group.readiness_probe is None
        if looks is not None and looks != listens and probed:
            what = "KubeRay's Service and health check look" if group.head else "KubeRay's readiness probe looks"
            yield error(
                group.where,
                f"Serve listens on port {listens} and {what} at {looks}, the container port called serve: the service is never ready",
                f"name container port {listens} serve, or let Serve listen on {looks} (http_options.port)",
            )


def probed(stack: Stack) -> Iterator[Problem]:
    """Probes of a plain engine ask the port that it listens on."""
    for workload in stack.workloads:
        if workload.by_kuberay or not workload.engines:
            continue
        for group in workload.groups:
            listens = listening(group)
            declared = _declared(group)
            probes = {
                "liveness": group.liveness_probe,
                "readiness": group.readiness_probe,
                "startup": group.startup_probe,
            }
            for name, probe in probes.items():
                asked = next(
                    (
                        mapping(mapping(probe).get(kind)).get("port")
                        for kind in ("httpGet", "tcpSocket")
                        if mapping(probe).get(kind)
                    ),
                    None,
                )
                number = declared.get(str(asked)) if isinstance(asked, str) and not asked.isdigit() else whole(asked)
                if isinstance(asked, str) and number is None:
                    yield error(
                        group.where,
                        f"its {name} probe asks port '{asked}', which no port of the container is called",
                        f"ask {listens}, or name the port",
                    )
                elif listens is not None and number is not None and number != listens:
                    yield error(
                        group.where,
                        f"its {name} probe asks port {number} and vLLM listens on {listens}: it never passes",
                        f"ask {listens}",
                    )


def listening(group: PodGroup) -> int | None:
    """--port of a plain vLLM, 8000 without one; None where a shell or an environment variable says it."""
    containers = items(group.pod.get("containers"))
    first = mapping(containers[0] if containers else {})
    words = [str(word) for key in ("command", "args") for word in items(first.get(key))]
    if any("$" in word or " " in word.strip() for word in words if "port" in word):
        return None
    for index, word in enumerate(words):
        if word.startswith("--port="):
            return whole(word.removeprefix("--port="))
        if word == "--port" and index + 1 < len(words):
            return whole(words[index + 1])
    return _DEFAULT


RULES: tuple[Rule, ...] = (
    Rule(
        id="serve-ports",
        title="Serve listens where KubeRay looks",
        why=(
            "KubeRay takes the endpoint's port from a container port called serve, 8000 without one, on the head for its Service and on workers for their readiness "
            "probe. Ports of a head that are declared replace all that KubeRay would declare itself."
        ),
        check=ports,
        sources=(
            "kuberay PR#1816",
            "kuberay#3791",
            "kuberay#4994",
            "kuberay v1.7.0: controllers/ray/common/service.go, pod.go",
        ),
    ),
    Rule(
        id="probe-port",
        title="Probes ask a port on which the engine listens",
        why="A readiness probe of another port leaves the pod out of its Service for ever; a liveness probe of another port ends the engine again and again.",
        check=probed,
        sources=(
            "https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/",
        ),
    ),
)
