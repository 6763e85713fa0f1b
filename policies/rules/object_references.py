"""Objects that point at others by name, label or port: routes at Gateways and Services, disruption budgets at pods.

Kubernetes takes such an object whatever it points at; nothing happens then, and nothing says so. What is not seen may be there all
the same, so a miss is told only where something that it nearly names is seen. Not for: autoscalers and monitors (scaler_references.py),
Services and their pods (service_objects.py), or who may come in (published.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Object, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._values import listed

_SERVE_PORT = 8000


class _View:
    """Gateways, Services and grants that are seen."""

    def __init__(self, stack: Stack) -> None:
        self.gateways = {(g.namespace, g.name): g.spec for g in stack.of_kind("Gateway")}
        self.ports: dict[tuple[str, str], set[int]] = {}
        for service in stack.of_kind("Service"):
            numbers = {whole(mapping(port).get("port")) for port in items(service.spec.get("ports"))}
            self.ports[service.namespace, service.name] = {n for n in numbers if n is not None}
        self.pools = {(pool.namespace, pool.name) for pool in stack.of_kind("InferencePool")}
        for workload in stack.workloads:
            if workload.kind == "RayService" and not workload.serve_service:
                self.ports.setdefault((workload.namespace, f"{workload.name}-serve-svc"), {_serve_port(workload)})
        self.grants = [(g.namespace, g.spec) for g in stack.of_kind("ReferenceGrant")]

    def granted(self, route: Object, namespace: str, kind: str) -> bool:
        """Whether a grant of the other namespace lets this one's routes at objects of a kind."""
        for where, spec in self.grants:
            froms, to = ([mapping(each) for each in items(spec.get(key))] for key in ("from", "to"))
            if (
                where == namespace
                and any(f.get("kind") == route.kind and f.get("namespace") == route.namespace for f in froms)
                and any(each.get("kind") == kind for each in to)
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
    kind = str(backend.get("kind") or "Service")
    if kind not in ("InferencePool", "Service"):
        return
    space, name, port = (
        str(backend.get("namespace") or item.namespace),
        str(backend.get("name")),
        whole(backend.get("port")),
    )
    there = (space, name) in (view.pools if kind == "InferencePool" else view.ports)
    seen = complete or there or any(where == space for where, _ in view.grants)
    if space != item.namespace and seen and not view.granted(item, space, kind):
        yield (error if complete else warning)(
            item.where,
            f"its backend '{name}' is in namespace '{space}' and no ReferenceGrant there lets it be: requests get 500",
            f"put a ReferenceGrant to {kind}s into '{space}', or the route beside the {kind}",
        )
    known = view.ports.get((space, name)) if kind == "Service" else None
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
        id="route-target",
        title="A route finds its listener and its Service",
        why=(
            "A Gateway lets in routes of its own namespace unless its listener says otherwise, a backend in another namespace needs a ReferenceGrant there, and ports are the "
            "Service's, not the pods'. The route is stored in each case and answers nobody."
        ),
        check=routes,
        sources=(
            "envoyproxy/ai-gateway#2230",
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
