"""Objects that point at others by name, label or port: autoscalers at workloads, monitors at pods, routes at Gateways and Services.

Kubernetes takes such an object whatever it points at; nothing happens then, and nothing says so. What is not seen may be there all
the same, so a miss is told only where something that it nearly names is seen. Not for: Services and their pods (service_objects.py),
what a scaler asks (pod_scaling.py), or who may come in (published.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Object, PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._selectors import asked, labels
from ._values import listed
from .pod_resources import containers

_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_WITHOUT_SCALE = ("RayCluster", "RayJob", "RayService")
_SERVE_PORT = 8000


def scalers(stack: Stack) -> Iterator[Problem]:
    plain = {(w.namespace, w.kind, w.name): w for w in stack.workloads}
    for item in stack.of_kind(*_SCALERS):
        target = mapping(item.spec.get("scaleTargetRef"))
        kind, name = str(target.get("kind") or "Deployment"), str(target.get("name") or "")
        if kind in _WITHOUT_SCALE:
            yield error(
                item.where,
                f"it scales {kind} '{name}', which has no scale subresource: it never changes anything",
                "let Ray's autoscaler add pods (autoscaling, replicas.min and max of the models)",
            )
            continue
        mine = plain.get((item.namespace, kind, name))
        if mine is None:
            names = [w.name for w in stack.workloads if w.namespace == item.namespace and w.kind == kind]
            near = closest_names(name, names, 1)
            if near:
                yield error(
                    item.where, f"{kind} '{name}' is not in namespace '{item.namespace}'", f"did you mean '{near[0]}'?"
                )
        elif item.kind == "HorizontalPodAutoscaler":
            yield from _requests(item, mine)


def _requests(item: Object, workload: Workload) -> Iterator[Problem]:
    """A share of the request needs a request in every container (a limit stands in for it)."""
    for metric in map(mapping, items(item.spec.get("metrics"))):
        resource = mapping(metric.get("resource"))
        name = str(resource.get("name"))
        if metric.get("type") != "Resource" or mapping(resource.get("target")).get("type") != "Utilization":
            continue
        lacking = []
        for group in workload.groups:
            for container in map(mapping, items(group.pod.get("containers"))):
                given = mapping(container.get("resources"))
                if name not in mapping(given.get("requests")) and name not in mapping(given.get("limits")):
                    lacking.append(str(container.get("name")))
        if lacking:
            yield error(
                item.where,
                f"it scales on a share of the requested {name} and {listed(lacking)} of '{workload.name}' request{'s' if len(lacking) == 1 else ''} none: "
                "the metric is never there",
                f"request {name} in every container, or scale on an AverageValue",
            )


def monitors(stack: Stack) -> Iterator[Problem]:
    plain = [(w, g, labels(w, g)) for w in stack.workloads if not w.by_kuberay for g in w.groups]
    for item in stack.of_kind("PodMonitor"):
        yield from _pod_monitor(item, plain)
    services = stack.of_kind("Service")
    for item in stack.of_kind("ServiceMonitor"):
        yield from _service_monitor(item, services)


def _spaces(item: Object) -> tuple[str, ...] | None:
    """Namespaces that a monitor looks at; None for all."""
    given = mapping(item.spec.get("namespaceSelector"))
    if given.get("any") is True:
        return None
    return tuple(map(str, items(given.get("matchNames")))) or (item.namespace,)


Pods = Sequence[tuple[Workload, PodGroup, Mapping[str, str]]]


def _pod_monitor(item: Object, plain: Pods) -> Iterator[Problem]:
    wanted, spaces = asked(item.spec.get("selector")), _spaces(item)
    if not wanted or mapping(item.spec.get("selector")).get("matchExpressions"):
        return
    fitting = [(w, g) for w, g, given in plain if wanted.items() <= given.items()]
    mine = [(w, g) for w, g in fitting if spaces is None or w.namespace in spaces]
    if not mine and fitting:
        yield warning(
            item.where,
            f"it looks for pods in {listed(spaces or ())}, and those with its labels are in {listed(sorted({w.namespace for w, _ in fitting}))}: nothing is scraped",
            "name their namespace in namespaceSelector.matchNames",
        )
    elif not mine:
        near = [
            w.name for w, _, given in plain if w.namespace in (spaces or (w.namespace,)) and _one_apart(wanted, given)
        ]
        if near:
            yield error(
                item.where,
                f"no pod has {listed(f'{k}={v}' for k, v in sorted(wanted.items()))}: nothing is scraped",
                f"select the labels of the pods of '{near[0]}'",
            )
    for workload, group in mine:
        ports = [port for _, container in containers(group.pod) for port in items(container.get("ports"))]
        for port, names in _not_named(item.spec.get("podMetricsEndpoints"), ports):
            yield error(
                item.where,
                f"it scrapes port '{port}' by name, and pods of '{workload.name}' have {names}: nothing is scraped",
                "give the container's port that name, or name one that it has",
            )


def _not_named(endpoints: object, ports: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """(port that a monitor's endpoint names, names that there are) where no port has that name."""
    names = {str(mapping(port)["name"]) for port in ports if mapping(port).get("name")}
    for endpoint in map(mapping, items(endpoints)):
        asked_for = endpoint.get("port")
        if asked_for is not None and str(asked_for) not in names:
            yield str(asked_for), listed(sorted(names)) if names else "no named port"


def _one_apart(wanted: Mapping[str, str], given: Mapping[str, str]) -> bool:
    """Whether labels that are asked for and given differ in one value that looks like the other."""
    wrong = [(value, given[key]) for key, value in wanted.items() if key in given and given[key] != value]
    absent = [key for key in wanted if key not in given]
    return not absent and len(wrong) == 1 and bool(closest_names(wrong[0][0], [wrong[0][1]], 1))


def _service_monitor(item: Object, services: Sequence[Object]) -> Iterator[Problem]:
    wanted, spaces = asked(item.spec.get("selector")), _spaces(item)
    if not wanted or mapping(item.spec.get("selector")).get("matchExpressions"):
        return
    for service in services:
        given = {str(k): str(v) for k, v in service.labels.items()}
        if not wanted.items() <= given.items() or (spaces is not None and service.namespace not in spaces):
            continue
        for port, names in _not_named(item.spec.get("endpoints"), items(service.spec.get("ports"))):
            yield error(
                item.where,
                f"it scrapes port '{port}' by name, and Service '{service.name}' has {names}: nothing is scraped",
                "name the port of the Service",
            )


class _View:
    """Gateways, Services and grants that are seen."""

    def __init__(self, stack: Stack) -> None:
        self.gateways = {(g.namespace, g.name): g.spec for g in stack.of_kind("Gateway")}
        self.ports: dict[tuple[str, str], set[int]] = {}
        for service in stack.of_kind("Service"):
            numbers = {whole(mapping(port).get("port")) for port in items(service.spec.get("ports"))}
            self.ports[service.namespace, service.name] = {n for n in numbers if n is not None}
        for workload in stack.workloads:
            if workload.kind == "RayService" and not workload.serve_service:
                self.ports.setdefault((workload.namespace, f"{workload.name}-serve-svc"), {_serve_port(workload)})
        self.grants = [(g.namespace, g.spec) for g in stack.of_kind("ReferenceGrant")]

    def granted(self, route: Object, namespace: str) -> bool:
        """Whether a grant of the other namespace lets this one's routes in."""
        for where, spec in self.grants:
            froms = [mapping(each) for each in items(spec.get("from"))]
            if where == namespace and any(
                f.get("kind") == route.kind and f.get("namespace") == route.namespace for f in froms
            ):
                return True
        return False


def _serve_port(workload: Workload) -> int:
    """Port of the Service that KubeRay makes: the container port called serve, 8000 without one."""
    for group in workload.pod_groups:
        for container in map(mapping, items(group.pod.get("containers"))):
            for port in map(mapping, items(container.get("ports"))):
                if port.get("name") == "serve":
                    return whole(port.get("containerPort")) or _SERVE_PORT
    return _SERVE_PORT


def routes(stack: Stack) -> Iterator[Problem]:
    view: _View | None = None
    for item in stack.of_kind("HTTPRoute", "GRPCRoute", "TCPRoute"):
        view = view or _View(stack)
        for parent in map(mapping, items(item.spec.get("parentRefs"))):
            space = str(parent.get("namespace") or item.namespace)
            gateway = view.gateways.get((space, str(parent.get("name"))))
            if gateway is not None and parent.get("kind") in (None, "Gateway"):
                yield from _listener(item, parent, gateway, space)
        for rule in map(mapping, items(item.spec.get("rules"))):
            for backend in map(mapping, items(rule.get("backendRefs"))):
                yield from _backend(item, backend, view, stack.complete)


def _listener(item: Object, parent: Mapping[str, Any], gateway: Mapping[str, Any], space: str) -> Iterator[Problem]:
    given = [mapping(each) for each in items(gateway.get("listeners"))]
    name = f"Gateway '{parent.get('name')}'"
    section, port = parent.get("sectionName"), whole(parent.get("port"))
    names = [str(each.get("name")) for each in given]
    if section is not None and "None" not in names and str(section) not in names:
        yield error(
            item.where,
            f"{name} has no listener '{section}', it has {listed(names)}: the route is not accepted",
            f"name one of {', '.join(names)} in sectionName, or leave it out",
        )
        return
    meant = [
        each
        for each in given
        if (section is None or str(each.get("name")) == str(section))
        and (port is None or whole(each.get("port")) == port)
    ]
    if space != item.namespace and meant and all(_same_only(each) for each in meant):
        yield error(
            item.where,
            f"{name} is in namespace '{space}' and lets in routes of its own namespace only, the default: the route is not accepted",
            "set allowedRoutes.namespaces of its listener (from: All, or a Selector), or put the route beside it",
        )


def _same_only(listener: Mapping[str, Any]) -> bool:
    given = mapping(mapping(listener.get("allowedRoutes")).get("namespaces")).get("from")
    return given in (None, "Same", "None")


def _backend(item: Object, backend: Mapping[str, Any], view: _View, complete: bool) -> Iterator[Problem]:
    if backend.get("kind") not in (None, "Service"):
        return
    space, name, port = (
        str(backend.get("namespace") or item.namespace),
        str(backend.get("name")),
        whole(backend.get("port")),
    )
    seen = complete or (space, name) in view.ports or any(where == space for where, _ in view.grants)
    if space != item.namespace and seen and not view.granted(item, space):
        yield (error if complete else warning)(
            item.where,
            f"its backend '{name}' is in namespace '{space}' and no ReferenceGrant there lets it be: requests get 500",
            f"put a ReferenceGrant into '{space}', or the route beside the Service",
        )
    known = view.ports.get((space, name))
    if known and port is not None and port not in known:
        yield error(
            item.where,
            f"Service '{name}' has no port {port}, it has {listed(map(str, sorted(known)))}: the route has no backend",
            f"set port: {min(known)}",
        )


def budgets(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("PodDisruptionBudget"):
        if item.spec.get("minAvailable") is not None and item.spec.get("maxUnavailable") is not None:
            yield error(
                item.where, "it has minAvailable and maxUnavailable: the API server refuses it", "keep one of them"
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="scaler-target",
        title="An autoscaler scales what is there, by what is there",
        why=(
            "An autoscaler of a workload that does not exist, or has no scale subresource, waits for ever. A share of the requested CPU or memory is a share of nothing "
            "where a container requests none."
        ),
        check=scalers,
        sources=(
            "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
            "kuberay: CRDs of v1.7.0 (subresources: status)",
        ),
    ),
    Rule(
        id="monitor-target",
        title="A monitor finds the pods' port by its name",
        why=(
            "The Prometheus Operator looks for the port's name in pods or Services, and in its own namespace unless told. A miss drops the targets without a word: "
            "dashboards stay empty, and scalers that ask Prometheus see no load."
        ),
        check=monitors,
        sources=("NVIDIA/nvcf#1694", "prometheus-operator#2833", "llm-d/llm-d-async#359", "kubeai-project/kubeai#391"),
    ),
    Rule(
        id="route-target",
        title="A route finds its listener and its Service",
        why=(
            "A Gateway lets in routes of its own namespace unless its listener says otherwise, a backend in another namespace needs a ReferenceGrant there, and ports are the "
            "Service's, not the pods'. The route is stored in each case and answers nobody."
        ),
        check=routes,
        sources=(
            "https://gateway-api.sigs.k8s.io/guides/multiple-ns/",
            "https://gateway-api.sigs.k8s.io/api-types/referencegrant/",
        ),
    ),
    Rule(
        id="disruption-form",
        title="A budget says one thing",
        why="minAvailable and maxUnavailable exclude each other; the API server refuses a budget that has both.",
        check=budgets,
        sources=("kubernetes v1.34: pkg/apis/policy/validation/validation.go",),
    ),
)
