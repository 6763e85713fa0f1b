"""Endpoints that an Ingress or a Gateway publishes: encrypted, and nobody's without a key.

Not for the head's ports, or load balancers of Services (exposure.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Object, Stack, Workload
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, warning

SCHEME = "service.beta.kubernetes.io/aws-load-balancer-scheme"
GUARDED = ("/v1", "/v2", "/inference", "/cohere")
"""Paths on which vLLM asks for its key (entrypoints/serve/middleware/authenticate.py, 0.29.0)."""
_ALB = "alb.ingress.kubernetes.io/"
# Annotations by which a load balancer or an ingress controller asks who comes.
_ASKS = (
    "alb.ingress.kubernetes.io/auth-type",
    "alb.ingress.kubernetes.io/jwt-validation",
    "alb.ingress.kubernetes.io/mutual-authentication",
    "nginx.ingress.kubernetes.io/auth-type",
    "nginx.ingress.kubernetes.io/auth-url",
    "nginx.ingress.kubernetes.io/auth-tls-secret",
)


class Doors:
    """What publishes endpoints, and what stands beside it, by name: one pass over a stack's objects."""

    def __init__(self, stack: Stack) -> None:
        self.serving = {(w.namespace, f"{w.name}-serve-svc"): w for w in stack.workloads}
        self.fronts = stack.of_kind("Ingress", "HTTPRoute")
        self.gateways = {(item.namespace, item.name): item for item in stack.of_kind("Gateway")}
        self.proxies = {(item.namespace, item.name): item for item in stack.of_kind("EnvoyProxy")}
        self.guarded: set[tuple[str, str, str]] = set()  # (namespace, kind, name) that a SecurityPolicy asks before
        for item in stack.of_kind("SecurityPolicy"):
            self.guarded |= _asked_before(item)

    def __iter__(self) -> Iterator[tuple[Object, Workload | None, tuple[str, ...]]]:
        """(Ingress or HTTPRoute, workload that it publishes, its paths), of those that lead to an endpoint."""
        for item in self.fronts:
            leads = [(name, path) for name, path in backends(item) if name.endswith("-serve-svc")]
            if leads:
                yield item, self.serving.get((item.namespace, leads[0][0])), tuple(sorted({path for _, path in leads}))

    def gateways_of(self, route: Object) -> list[Object]:
        """Gateways of a route, as far as they are seen."""
        refs = map(mapping, items(route.spec.get("parentRefs")))
        wanted = ((str(ref.get("namespace") or route.namespace), str(ref.get("name", ""))) for ref in refs)
        return [self.gateways[each] for each in wanted if each in self.gateways]

    def encrypted(self, item: Object) -> bool:
        """Whether connections end in TLS. What is not seen is taken to be."""
        if item.kind == "HTTPRoute":
            listeners = [
                mapping(listener)
                for gateway in self.gateways_of(item)
                for listener in items(gateway.spec.get("listeners"))
            ]
            return not listeners or any(listener.get("protocol") in ("HTTPS", "TLS") for listener in listeners)
        notes = item.annotations
        if ingress_class(item) == "alb":
            return f"{_ALB}certificate-arn" in notes or "HTTPS" in str(notes.get(f"{_ALB}listen-ports", ""))
        return bool(items(item.spec.get("tls")))

    def public(self, item: Object) -> bool:
        """Whether the internet certainly reaches it: by the scheme of a load balancer that is seen, without limits to addresses."""
        if item.kind == "Ingress":
            notes = item.annotations
            ranges = str(notes.get(f"{_ALB}inbound-cidrs", "")).replace(" ", "").split(",")
            limited = ranges != [""] and not {"0.0.0.0/0", "::/0"} & set(ranges)
            return ingress_class(item) == "alb" and notes.get(f"{_ALB}scheme") == "internet-facing" and not limited
        return any(self._scheme(gateway) == "internet-facing" for gateway in self.gateways_of(item))

    def _scheme(self, gateway: Object) -> object:
        infrastructure = mapping(gateway.spec.get("infrastructure"))
        name = str(mapping(infrastructure.get("parametersRef")).get("name", ""))
        proxy = self.proxies.get((gateway.namespace, name))
        provider = mapping(proxy.spec.get("provider")) if proxy else {}
        service = mapping(mapping(provider.get("kubernetes")).get("envoyService"))
        return mapping(service.get("annotations")).get(SCHEME)

    def asks(self, item: Object) -> bool:
        """Whether something in front of the engine asks who comes."""
        if any(key.startswith(_ASKS) for key in map(str, item.annotations)):
            return True
        gateways = ((gateway.namespace, "Gateway", gateway.name) for gateway in self.gateways_of(item))
        return any(each in self.guarded for each in ((item.namespace, item.kind, item.name), *gateways))


def _asked_before(policy: Object) -> set[tuple[str, str, str]]:
    """Routes and Gateways before which Envoy Gateway asks by this SecurityPolicy."""
    spec = policy.spec
    if not {"apiKeyAuth", "jwt", "oidc", "basicAuth", "extAuth", "authorization"} & set(map(str, spec)):
        return set()
    refs = [*map(mapping, items(spec.get("targetRefs"))), mapping(spec.get("targetRef"))]
    return {(policy.namespace, str(ref.get("kind")), str(ref.get("name"))) for ref in refs if ref}


def backends(item: Object) -> Iterator[tuple[str, str]]:
    """(Service, path) of every rule."""
    spec = item.spec
    default = mapping(mapping(spec.get("defaultBackend")).get("service")).get("name")
    if default:
        yield str(default), "/"
    for rule in map(mapping, items(spec.get("rules"))):
        for path in map(mapping, items(mapping(rule.get("http")).get("paths"))):
            name = mapping(mapping(path.get("backend")).get("service")).get("name", "")
            yield str(name), str(path.get("path") or "/")
        matches = list(map(mapping, items(rule.get("matches")))) or [{}]
        for backend in map(mapping, items(rule.get("backendRefs"))):
            for match in matches:
                yield str(backend.get("name", "")), str(mapping(match.get("path")).get("value") or "/")


def ingress_class(item: Object) -> str:
    """Name of the class of an Ingress, by its field or by the older annotation; "" for none."""
    return str(item.spec.get("ingressClassName") or item.annotations.get("kubernetes.io/ingress.class") or "")


def keyed(workload: Workload | None) -> bool:
    """Whether vLLM itself asks for a key: plain vLLM with VLLM_API_KEY or --api-key. Ray Serve's ingress asks nobody."""
    if workload is None or workload.by_kuberay or not workload.groups:
        return False
    group = workload.groups[0]
    main = group.main_container
    words = [str(word) for word in (*items(main.get("command")), *items(main.get("args")))]
    return "VLLM_API_KEY" in group.env or any("--api-key" in word for word in words)


def tls(stack: Stack) -> Iterator[Problem]:
    doors = Doors(stack)
    for item, _, _ in doors:
        if not doors.encrypted(item):
            yield warning(
                item.where,
                "it publishes an endpoint without TLS: prompts, answers and API keys cross the network as text",
                "give a certificate: tls_secret or certificate_arn of expose.ingress, tls_secret of expose.gateway",
            )


def public(stack: Stack) -> Iterator[Problem]:
    doors = Doors(stack)
    for item, workload, _ in doors:
        if doors.public(item) and not doors.asks(item) and not keyed(workload):
            yield warning(
                item.where,
                "it puts an endpoint on the internet and nothing asks for a key: anyone uses the GPUs",
                "keep it internal (expose.ingress.internal, expose.gateway.load_balancer: internal), limit source_ranges, or ask for keys: "
                "api_keys.teams with expose.gateway, api_keys.engine of kind vllm, an authentication of the load balancer",
            )


def guarded(stack: Stack) -> Iterator[Problem]:
    doors = Doors(stack)
    for item, workload, paths in doors:
        bare = [path for path in paths if not path.startswith(GUARDED)]
        if bare and keyed(workload) and not doors.asks(item):
            yield warning(
                item.where,
                f"it publishes path {', '.join(bare)}, and vLLM asks for its key only under {', '.join(GUARDED)}: /invocations, /tokenize, "
                "/pooling, /metrics and the docs are open to everyone",
                "publish /v1 only (paths)",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="security-endpoint-tls",
        title="A published endpoint has TLS",
        why="OpenAI clients send the key as a bearer token with every request; without TLS whoever sees the traffic has the key, the prompts and the answers.",
        check=tls,
        sources=("https://kubernetes.io/docs/concepts/services-networking/ingress/#tls",),
    ),
    Rule(
        id="security-endpoint-open",
        title="A published endpoint asks who comes",
        why=(
            "Ray Serve LLM checks no key, and vLLM only when it is given one. An internet-facing load balancer without any authentication is found by scanners within hours and "
            "serves whoever asks."
        ),
        check=public,
        sources=(
            "https://docs.ray.io/en/latest/ray-security/index.html",
            "https://docs.vllm.ai/en/stable/usage/security/",
        ),
    ),
    Rule(
        id="security-endpoint-paths",
        title="vLLM's key guards what is published",
        why="vLLM's middleware compares the key only on paths that begin with /v1, /v2, /inference or /cohere; /invocations runs the same inference without one.",
        check=guarded,
        sources=(
            "vllm: entrypoints/serve/middleware/authenticate.py",
            "https://docs.vllm.ai/en/stable/usage/security/",
        ),
    ),
)
