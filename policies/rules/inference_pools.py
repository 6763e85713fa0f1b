"""InferencePools of the Gateway API's inference extension: engines that they select, and the port on which these listen.

Not for: routes to Services (object_references.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.facts import Object, Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._lost import lost
from ._selectors import asked, labels
from ._values import dig, listed, releases, true
from .serve_ports import listening

# Charts of gateways that know InferencePools only when told: the class of their Gateways, and where their values say so.
_SWITCHES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "agentgateway": ("agentgateway", ("inferenceExtension", "enabled")),
    "istiod": ("istio", ("pilot", "env", "ENABLE_GATEWAY_API_INFERENCE_EXTENSION")),
    "kgateway": ("kgateway", ("inferenceExtension", "enabled")),
    "nginx-gateway-fabric": ("nginx", ("nginxGateway", "gwAPIInferenceExtension", "enable")),
}
_GROUPS = ("inference.networking.k8s.io/", "inference.networking.x-k8s.io/")


def pools(stack: Stack) -> Iterator[Problem]:
    found = [item for item in stack.of_kind("InferencePool") if item.api_version.startswith(_GROUPS)]
    if not found:
        return
    yield from _routes(stack, found)
    yield from _pickers(stack, found)
    engines = [(w, g, labels(w, g)) for w in stack.workloads if w.engines and not w.by_kuberay for g in w.groups]
    for item in found:
        spec = item.spec
        selector = spec.get("selector")
        wanted = asked(selector) or {str(k): str(v) for k, v in mapping(selector).items() if isinstance(v, str)}
        near = [(w, g, given) for w, g, given in engines if w.namespace == item.namespace]
        mine = [(w, g) for w, g, given in near if wanted and wanted.items() <= given.items()]
        if wanted and not mine:
            shared = [w.name for w, _, given in near if set(wanted) <= set(given) or wanted.items() & given.items()]
            if shared:
                yield error(
                    item.where,
                    f"it selects {listed(f'{k}={v}' for k, v in sorted(wanted.items()))}, and pods of '{shared[0]}' have other labels: it has no endpoint",
                    "select labels that the engine's pods have",
                )
        ports = _ports(spec)
        for workload, group in mine:
            port = listening(group)
            if port is not None and ports and port not in ports:
                yield error(
                    item.where,
                    f"its target port is {listed(map(str, sorted(ports)))} and '{workload.name}' listens on {port}: requests are refused",
                    f"set targetPorts: [{{number: {port}}}]",
                )


def gateways(stack: Stack) -> Iterator[Problem]:
    """Gateways whose routes lead to a pool, and the switch of who runs them."""
    classes = {(g.namespace, g.name): str(g.spec.get("gatewayClassName")) for g in stack.of_kind("Gateway")}
    for chart, (name, path) in _SWITCHES.items() if classes else ():
        found = releases(stack, chart)
        ways = (path, path[1:]) if chart == "istiod" else (path,)  # values of istiod may leave pilot out
        if not found or any(true(dig(each.values, *way), False) for each in found for way in ways):
            continue
        for route in stack.of_kind("HTTPRoute", "GRPCRoute"):
            parents = map(mapping, items(route.spec.get("parentRefs")))
            ours = {classes.get((str(p.get("namespace") or route.namespace), str(p.get("name")))) for p in parents}
            rules = map(mapping, items(route.spec.get("rules")))
            pool = any(
                mapping(b).get("kind") == "InferencePool" for rule in rules for b in items(rule.get("backendRefs"))
            )
            if pool and name in ours:
                yield warning(
                    route.where,
                    f"its backend is an InferencePool, and {chart} does not look at pools unless {'.'.join(path)} is true: BackendNotFound, requests get 500",
                    f"set {'.'.join(path)}: true",
                )


def _routes(stack: Stack, found: Sequence[Object]) -> Iterator[Problem]:
    """Routes that name a pool by another API group than its own."""
    groups = {(item.namespace, item.name): item.api_version.rpartition("/")[0] for item in found}
    for route in stack.of_kind("HTTPRoute", "GRPCRoute"):
        for rule in map(mapping, items(route.spec.get("rules"))):
            for backend in map(mapping, items(rule.get("backendRefs"))):
                own = groups.get((str(backend.get("namespace") or route.namespace), str(backend.get("name"))))
                given = str(backend.get("group") or "")
                if backend.get("kind") == "InferencePool" and own is not None and given != own:
                    yield error(
                        route.where,
                        f"its backend '{backend.get('name')}' is an InferencePool of group '{given}', and the pool is of {own}: BackendNotFound, requests get 500",
                        f"set group: {own}",
                    )


def _pickers(stack: Stack, found: Sequence[Object]) -> Iterator[Problem]:
    """The endpoint picker's Service, where Services beside the pool are seen."""
    named = {str(mapping(item.spec.get("endpointPickerRef")).get("name")) for item in found}
    for item in found:
        given = mapping(item.spec.get("endpointPickerRef"))
        engines = {w.name for w in stack.workloads if w.engines}
        beside = {
            service.name: {whole(mapping(port).get("port")) for port in items(service.spec.get("ports"))}
            for service in stack.of_kind("Service", group="v1")
            if service.namespace == item.namespace and service.name not in engines
        }
        name, port = str(given.get("name") or ""), whole(mapping(given.get("port")).get("number"))
        if name and given.get("kind") in (None, "Service"):
            yield from lost(item.where, "its endpoint picker's Service", name, beside, named, "requests get 500")
        if port is not None and beside.get(name) and port not in beside[name]:
            yield error(
                item.where,
                f"its endpoint picker is on port {port}, and Service '{name}' has {listed(sorted(map(str, beside[name])))}: requests get 500",
                "name the Service's port",
            )


def _ports(spec: Mapping[str, Any]) -> set[int]:
    """targetPorts of v1, targetPortNumber of v1alpha2."""
    numbers = [whole(mapping(port).get("number")) for port in items(spec.get("targetPorts"))]
    return {number for number in (*numbers, whole(spec.get("targetPortNumber"))) if number is not None}


RULES: tuple[Rule, ...] = (
    Rule(
        id="inference-pool",
        title="An InferencePool finds its engines and their port",
        why=(
            "The endpoint picker takes pods by the pool's labels and sends requests to its target port. A pool without endpoints answers 503, one with another port than the "
            "engine's refuses connections."
        ),
        check=pools,
        sources=(
            "gateway-api-inference-extension#1591",
            "gateway-api-inference-extension PR#959",
            "https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/",
        ),
    ),
    Rule(
        id="inference-gateway",
        title="A gateway that routes to an InferencePool knows pools",
        why="Istio, kgateway, agentgateway and NGINX Gateway Fabric watch InferencePools only where their inference extension is switched on. Without it the pool is there and the route says that it is not.",
        check=gateways,
        sources=(
            "kubernetes-sigs/gateway-api-inference-extension#1344",
            "https://istio.io/latest/docs/tasks/traffic-management/ingress/gateway-api-inference-extension/",
            "https://gateway-api-inference-extension.sigs.k8s.io/guides/",
        ),
    ),
)
