"""Kubernetes' own objects, Gateways, routes, scalers and monitors that their validation refuses beyond the schema, as tables.

Source of the rows: kubernetes 1.34 (pkg/apis/{core,autoscaling,policy,networking}/validation), gateway-api 4564255a and its inference
extension (CEL rules in the CRDs), keda 8b4f083c (apis/keda/v1alpha1), prometheus-operator 6adcebc5 (pkg/prometheus/resource_selector.go).
Not for: fields and choices of a schema (object_schema.py), whether what is named is there (object_references.py).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from policies.facts import Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule

from ._refusals import (  # fmt: skip
    Check,
    Rows,
    Table,
    Values,
    choice,
    filled,
    form,
    known,
    needs,
    of_objects,
    one_of,
    only,
    regex,
    share,
    unlike,
    within,
    without,
)

_DURATION = r"(0|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)"  # Prometheus'
_GATEWAY_DURATION = r"([0-9]{1,5}(h|m|s|ms)){1,4}"
_HOST = r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SOURCES = {"ContainerResource": "containerResource", "External": "external", "Object": "object", "Pods": "pods", "Resource": "resource"}  # fmt: skip


def _network(text: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(str(text), strict=False)
    except ValueError:
        return None


def _networks(key: str, inside: str = "") -> Check:
    """Addresses of networks; `inside`: within the network that another field names."""

    def check(at: Values) -> tuple[str, str] | None:
        outer = at.get(inside) if inside else None
        for text in items(at.get(key)) or [at.get(key)]:
            if not isinstance(text, str) or not known(text):
                continue
            network, around = _network(text), _network(outer)
            if "/" not in text or network is None:
                return f"{key} is '{text}'", "give an address and a prefix length, such as 10.0.0.0/16"
            if around is not None and network.version == around.version and not network.subnet_of(around):  # type: ignore[arg-type]
                return f"{key} {text} is not in {outer}", f"give a part of {outer}"
        return None

    return check


def _metric(at: Values) -> tuple[str, str] | None:
    source = _SOURCES.get(str(at.get("type")))
    if source and source not in at:
        return f"its type is {at['type']} and it has no {source}", f"give it {source}"
    target = mapping(mapping(at.get("pods")).get("target")).get("type")
    if source == "pods" and target not in (None, "AverageValue") and known(target):
        return f"pods.target.type is {target}", "use AverageValue: pods have no other"
    return None


def _end(at: Values) -> tuple[str, str] | None:
    first, last = at.get("port"), at.get("endPort")
    if (
        last is None
        or not known(f"{first}{last}")
        or (whole(first) is not None and (whole(last) or 0) >= (whole(first) or 0))
    ):
        return None
    return f"endPort {last} with port {first}", "give numbers, the end not below the start"


def _traffic(at: Values) -> tuple[str, str] | None:
    inside = at.get("type", "ClusterIP") == "ClusterIP" and not at.get("externalIPs")
    return ("externalTrafficPolicy is for Services that are reached from outside", "leave it out, or set type: LoadBalancer") if inside and at.get("externalTrafficPolicy") else None  # fmt: skip


def _peer(at: Values) -> tuple[str, str] | None:
    return ("it has ipBlock beside a selector", "make two peers of them") if at.get("ipBlock") and ("podSelector" in at or "namespaceSelector" in at) else None  # fmt: skip


def _filters(at: Values) -> tuple[str, str] | None:
    kinds = [str(mapping(each).get("type")) for each in items(at.get("filters"))]
    if "RequestRedirect" in kinds and items(at.get("backendRefs")):
        return "it redirects and has backendRefs", "leave backendRefs out of a rule that redirects"
    if "RequestRedirect" in kinds and "URLRewrite" in kinds:
        return "it has filters RequestRedirect and URLRewrite", "keep one"
    twice = [kind for kind in ("RequestRedirect", "URLRewrite") if kinds.count(kind) > 1]
    return (f"it has filter {twice[0]} twice", "keep one") if twice else None


def _filter(at: Values) -> tuple[str, str] | None:
    body = {"URLRewrite": "urlRewrite", "RequestRedirect": "requestRedirect"}.get(str(at.get("type")))
    return (f"its type is {at['type']} and it has no {body}", f"give it {body}") if body and body not in at else None


def _path(at: Values) -> tuple[str, str] | None:
    text = at.get("value")
    if at.get("type", "PathPrefix") not in ("Exact", "PathPrefix") or not isinstance(text, str) or not known(text):
        return None
    if not text.startswith("/"):
        return f"path '{text}' does not start with /", f"write /{text}"
    bad = [part for part in ("//", "/./", "/../", "%2f", "%2F", "#") if part in text]
    return (f"path '{text}' has {bad[0]}", "leave it out") if bad or text.endswith(("/..", "/.")) else None


def _backend(at: Values) -> tuple[str, str] | None:
    service = at.get("kind", "Service") == "Service" and at.get("group", "") in ("", "core")
    return ("it names a Service and no port", "give the Service's port") if service and "port" not in at else None


def _scalers(at: Values) -> tuple[str, str] | None:
    """KEDA's webhook (scaledobject_types.go, scaledobject_webhook.go)."""
    triggers = [mapping(each) for each in items(at.get("triggers"))]
    kinds = {each.get("type") for each in triggers}
    idle, least = whole(at.get("idleReplicaCount")), at.get("minReplicaCount")
    fewest = 0 if least is None else whole(least)
    if (
        idle is not None and fewest is not None and idle >= (fewest or (least is not None))
    ):  # KEDA takes a stated 0 for 1
        return f"idleReplicaCount {idle} is not below minReplicaCount {fewest}", "set it to 0, and minReplicaCount to 1 or more"  # fmt: skip
    modifiers = mapping(mapping(at.get("advanced")).get("scalingModifiers"))
    if at.get("fallback") and kinds and kinds <= {"cpu", "memory"} and not modifiers:
        return "it has a fallback and triggers of CPU and memory alone", "leave fallback out"
    if modifiers and not modifiers.get("formula"):
        return "scalingModifiers has no formula", "give it one"
    if modifiers and modifiers.get("target") in (None, ""):
        return "scalingModifiers has a formula and no target", "give it a target"
    return None


def _trigger(at: Values) -> tuple[str, str] | None:
    given = mapping(at.get("metadata"))
    if at.get("useCachedMetrics") is True and at.get("type") in ("cpu", "memory", "cron"):
        return f"useCachedMetrics is not for a {at['type']} trigger", "leave it out"
    if at.get("metricType") == "Utilization" and at.get("type") not in ("cpu", "memory") and known(at.get("type")):
        return f"metricType Utilization is for cpu and memory, and this is {at.get('type')}", "use AverageValue"
    if at.get("type") != "prometheus":
        return None
    missing = [key for key in ("query", "threshold") if given.get(key) in (None, "")]
    if missing and not (missing == ["threshold"] and given.get("valueLocation")):
        return f"its metadata has no {missing[0]}", f"give it {missing[0]}"
    return form("threshold", r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", "a number")(given)


def _relabel(at: Values) -> tuple[str, str] | None:
    action = str(at.get("action") or "replace").lower()
    if action in ("replace", "hashmod", "lowercase", "uppercase", "keepequal", "dropequal") and not at.get("targetLabel"):  # fmt: skip
        return f"action {action} has no targetLabel", "give it one"
    return ("action hashmod has no modulus", "give it one") if action == "hashmod" and not at.get("modulus") else None


def _rule(at: Values) -> tuple[str, str] | None:
    if at.get("record") and (at.get("for") or at.get("keep_firing_for")):
        return "it records, and has for, which alerts have", "leave for out"
    return None


_RELABELINGS: Rows = tuple(
    (f"{key}[]", check) for key in ("relabelings", "metricRelabelings") for check in (_relabel, regex("regex"))
)
_ENDPOINT: Rows = (
    *((("", form(key, _DURATION, "a duration such as 30s"))) for key in ("interval", "scrapeTimeout")),
    *_RELABELINGS,
)


def _under(prefix: str, rows: Rows) -> Rows:
    return tuple((f"{prefix}.{path}" if path else prefix, check) for path, check in rows)


_SCALING: Rows = (
    ("", within("stabilizationWindowSeconds", 0, 3600)),
    ("policies[]", within("periodSeconds", 1, 1800)),
    ("policies[]", within("value", 1)),
    ("", choice("selectPolicy", "Max", "Min", "Disabled")),
)
_PEERS: Rows = (("", _peer), ("ipBlock", _networks("cidr")), ("ipBlock", _networks("except", "cidr")))
TABLE: Table = {
    ("Service", ""): ("the API server", (
        ("spec", only("type", "ExternalName", "externalName")),
        ("spec", _traffic),
        ("spec", needs("loadBalancerClass", "type", "LoadBalancer")),
        ("spec", choice("sessionAffinity", "None", "ClientIP")),
        ("spec", _networks("loadBalancerSourceRanges")),
    )),
    ("HorizontalPodAutoscaler", "autoscaling"): ("the API server", (
        ("spec.metrics[]", _metric),
        *_under("spec.behavior.scaleUp", _SCALING),
        *_under("spec.behavior.scaleDown", _SCALING),
        *((f"spec.metrics[].{source}.target", within("averageValue", 1e-3)) for source in ("pods", "external")),
    )),
    ("PodDisruptionBudget", "policy"): ("the API server", (
        ("spec", within("minAvailable", 0)), ("spec", within("maxUnavailable", 0)),
        ("spec", share("maxUnavailable")),
        ("spec", share("minAvailable")),
        ("spec", choice("unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget")),
    )),
    ("NetworkPolicy", "networking.k8s.io"): ("the API server", (
        *_under("spec.ingress[].from[]", _PEERS), *_under("spec.egress[].to[]", _PEERS),
        ("spec.ingress[].ports[]", _end), ("spec.egress[].ports[]", _end),
    )),
    ("ScaledObject", "keda.sh"): ("KEDA", (
        ("spec", _scalers), ("spec", filled("triggers")), ("spec", unlike("triggers", "name")),
        ("spec.fallback", within("failureThreshold", 0)), ("spec.fallback", within("replicas", 0)),
        ("spec.triggers[]", _trigger),
    )),
    ("ServiceMonitor", "monitoring.coreos.com"): ("Prometheus Operator", _under("spec.endpoints[]", _ENDPOINT)),
    ("PodMonitor", "monitoring.coreos.com"): ("Prometheus Operator", _under("spec.podMetricsEndpoints[]", _ENDPOINT)),
    ("PrometheusRule", "monitoring.coreos.com"): ("Prometheus Operator's webhook", (
        ("spec", unlike("groups", "name", what="group a name of its own and name")),
        ("spec.groups[].rules[]", one_of("alert", "record")), ("spec.groups[].rules[]", _rule),
        ("spec.groups[].rules[]", form("for", _DURATION, "a duration such as 5m")),
        ("spec.groups[].rules[]", form("record", r"[a-zA-Z_:][a-zA-Z0-9_:]*", "letters, digits, _ and :")),
    )),
    ("InferencePool", "inference.networking.k8s.io"): ("the API server", (
        ("spec", unlike("targetPorts", "number")),
        ("spec.endpointPickerRef", lambda at: ("it names a Service and no port", "give port: {number: 9002}") if at.get("kind", "Service") == "Service" and "port" not in at else None),
    )),
    ("InferenceObjective", "inference.networking.x-k8s.io"): ("the API server", (("spec", filled("poolRef")),)),
    ("Gateway", "gateway.networking.k8s.io"): ("the API server", (
        ("spec", filled("listeners")), ("spec", unlike("listeners", "name")),
        ("spec", unlike("listeners", "port", "protocol", "hostname")),
        ("spec.listeners[]", without("protocol", "HTTP", "tls")),
        ("spec.listeners[]", without("protocol", "TCP", "tls")), ("spec.listeners[]", form("hostname", _HOST, "a name without port or scheme")),
        ("spec.listeners[]", lambda at: ("tls.mode is Passthrough, which is for TLS", "set protocol: TLS, or mode: Terminate") if at.get("protocol") == "HTTPS" and mapping(at.get("tls")).get("mode") == "Passthrough" else None),
        ("spec.listeners[].tls", lambda at: ("it ends TLS and has no certificateRefs", "name a Secret of the certificate") if at.get("mode", "Terminate") == "Terminate" and not at.get("certificateRefs") and not at.get("options") else None),
    )),
    ("HTTPRoute", "gateway.networking.k8s.io"): ("the API server", (
        ("spec", form("hostnames", rf"(?!\d+(\.\d+){{3}}$){_HOST}", "names, no addresses or ports")),
        ("spec.rules[]", _filters), ("spec.rules[].filters[]", _filter), ("spec.rules[].matches[].path", _path),
        ("spec.rules[].backendRefs[]", _backend), ("spec.rules[].backendRefs[]", within("weight", 0, 1000000)),
        ("spec.rules[].timeouts", form("request", _GATEWAY_DURATION, "a duration such as 600s")),
        ("spec.rules[].timeouts", form("backendRequest", _GATEWAY_DURATION, "a duration such as 600s")),
    )),
}  # fmt: skip


def objects(stack: Stack) -> Iterator[Problem]:
    return of_objects(TABLE, stack)


RULES: tuple[Rule, ...] = (
    Rule(
        id="object-refused",
        title="Services, scalers, policies, monitors, Gateways and routes are ones that their validation takes",
        why=(
            "Beyond types and choices each kind has conditions between its fields: a listener of HTTPS needs a certificate, a trigger a threshold, a metric the source of its type. The API server, "
            "a webhook or the operator refuses what breaks them, and a half-applied release stands without its scaler or its route."
        ),
        check=objects,
        sources=(
            "kubernetes 1.34: pkg/apis/{core,autoscaling,policy,networking}/validation",
            "keda 8b4f083c: apis/keda/v1alpha1/scaledobject_webhook.go",
            "prometheus-operator 6adcebc5: pkg/prometheus/resource_selector.go",
            "gateway-api 4564255a: apis/v1 (CEL)",
        ),
    ),
)
