"""Who can reach a service: the head's ports are code execution, the endpoint costs GPUs.

Not for: what pods may do on their node (pod_security.py), or the doors of the VPC (aws_exposure.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Object, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error, warning

from ._values import before
from .published import GUARDED, SCHEME, keyed

HEAD_PORTS = {8265: "dashboard and jobs", 10001: "Ray client", 6379: "GCS", 52365: "dashboard agent"}
_HEAD_PORT_NAMES = {
    "dashboard": 8265,
    "client": 10001,
    "gcs-server": 6379,
    "gcs": 6379,
    "redis": 6379,
    "dashboard-agent": 52365,
}
_INTERNAL = ("service.beta.kubernetes.io/aws-load-balancer-internal", "networking.gke.io/load-balancer-type")


def head_service(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.head is None:
            continue
        if workload.head_ingress:
            yield _exposed(workload, "an Ingress (enableIngress) publishes its dashboard")
        service = mapping(workload.head_service)
        kind = str(workload.head_service_type or mapping(service.get("spec")).get("type") or "ClusterIP")
        if kind in ("LoadBalancer", "NodePort"):
            yield _exposed(
                workload, f"its Service is a {kind}: dashboard 8265, Ray client 10001 and GCS 6379 leave the cluster"
            )


def _exposed(workload: Workload, what: str) -> Problem:
    token = workload.auth_mode == "token"
    harm = "" if token else ", and without token authentication whoever reaches them runs code"
    return error(
        f"{workload.where}: head",
        what + harm,
        "keep it a ClusterIP (head.service_type) and use kubectl port-forward"
        + ("" if token else ", with auth.mode: token"),
    )


def other_services(stack: Stack) -> Iterator[Problem]:
    heads = {(w.namespace, f"{w.name}-head-svc"): w for w in stack.workloads if w.head is not None}
    for item in stack.of_kind("Service"):
        yield from _service(item, item.spec)
    for item in stack.of_kind("Ingress", "HTTPRoute", "TCPRoute", "VirtualService"):
        for name, port in _backends(item.spec):
            to_head = (item.namespace, name) in heads or name.endswith("-head-svc")
            number = port if isinstance(port, int) else _HEAD_PORT_NAMES.get(str(port))
            if number in (8265, 10001) or (to_head and number != 8000):  # 6379 may be a Redis of one's own
                yield error(
                    item.where,
                    f"it publishes port {port} of Service '{name}' ({HEAD_PORTS.get(number or 0, 'the Ray head')}): whoever reaches it runs code",
                    "publish the Serve endpoint only (port 8000 of the -serve-svc Service)",
                )


def _service(item: Object, spec: Mapping[str, Any]) -> Iterator[Problem]:
    kind = str(spec.get("type") or "ClusterIP")
    selector = mapping(spec.get("selector"))
    open_to = kind in ("LoadBalancer", "NodePort") or bool(items(spec.get("externalIPs")))
    head = selector.get("ray.io/node-type") == "head" or str(selector.get("ray.io/identifier", "")).endswith("-head")
    if not open_to:
        return
    for port in map(mapping, items(spec.get("ports"))):
        numbers = {
            whole(port.get("port")),
            whole(port.get("targetPort")),
            _HEAD_PORT_NAMES.get(str(port.get("targetPort"))),
        }
        found = next((n for n in numbers if n in HEAD_PORTS and (head or n in (8265, 10001))), None)
        if found is not None:
            yield error(
                item.where,
                f"a {kind} Service publishes port {found} ({HEAD_PORTS[found]}): whoever reaches it runs code in the Ray cluster",
                "make it a ClusterIP, or publish the Serve endpoint only",
            )


def _backends(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(Service, port) of Ingress and Gateway routes, wherever they are nested."""
    stack: list[Any] = [spec]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            service = value.get("service") if isinstance(value.get("service"), dict) else None
            if service is not None:
                port = mapping(service.get("port"))
                yield str(service.get("name", "")), port.get("number", port.get("name"))
            for ref in items(value.get("backendRefs")):
                yield str(mapping(ref).get("name", "")), mapping(ref).get("port")
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def endpoint(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        service = mapping(workload.serve_service)
        if service:
            yield from _public(workload.where, service, "its endpoint")
    names = {(w.namespace, w.name): w for w in stack.workloads}
    for item in stack.of_kind("Service"):
        spec = item.spec
        selector = mapping(spec.get("selector"))
        if selector.get("ray.io/node-type") == "head":
            continue
        ports = {whole(mapping(port).get(key)) for port in items(spec.get("ports")) for key in ("port", "targetPort")}
        ours = [names[key] for value in selector.values() if (key := (item.namespace, str(value))) in names]
        if "ray.io/serve" in selector or (ours and 8000 in ports):
            yield from _public(item.where, mapping(item.manifest), "it", bool(ours) and keyed(ours[0]))


def _public(where: str, service: Mapping[str, Any], what: str, key: bool = False) -> Iterator[Problem]:
    spec, annotations = mapping(service.get("spec")), mapping(mapping(service.get("metadata")).get("annotations"))
    kind = str(spec.get("type") or "ClusterIP")
    if kind == "LoadBalancer":
        managed = annotations.get("service.beta.kubernetes.io/aws-load-balancer-type") in (
            "external",
            "nlb-ip",
        ) or spec.get("loadBalancerClass")
        internal = (
            annotations.get(SCHEME) == "internal"
            or any(str(annotations.get(key, "")).lower() in ("true", "internal", "0.0.0.0/0") for key in _INTERNAL)
            or (managed and SCHEME not in annotations)
        )
        ranges = [str(r) for r in items(spec.get("loadBalancerSourceRanges"))]
        if not internal and (not ranges or "0.0.0.0/0" in ranges):
            open_to = (
                f"vLLM asks for its key only under {', '.join(GUARDED)}: /invocations runs the same inference"
                if key
                else "the engine behind it asks nobody for a key: anyone uses the GPUs"
            )
            yield warning(
                where,
                f"{what} is a load balancer on the internet and {open_to}",
                "set expose.internal: true, limit loadBalancerSourceRanges, or put a gateway with authentication in front",
            )
    elif kind == "NodePort":
        yield warning(
            where,
            f"{what} is open on every node's address"
            + (", on paths without its key, too" if key else " without authentication"),
            "use ClusterIP, or an internal load balancer",
        )


def authentication(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if not workload.by_kuberay or workload.head is None or workload.auth_mode == "token":
            continue
        if before(workload.ray_version, "2.52.0"):
            message = f"Ray {workload.ray_version} has no token authentication: whoever reaches ports 8265 or 10001 inside the cluster network runs code"
            mend = "use Ray 2.52 or newer with auth.mode: token, and a NetworkPolicy until then"
        else:
            message = (
                "token authentication is off: whoever reaches ports 8265 or 10001 inside the cluster network runs code"
            )
            mend = "set auth.mode: token"
        yield warning(workload.where, message, mend)


def dashboard_delete(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if not workload.by_kuberay or not before(workload.ray_version, "2.54.0"):
            continue
        token = workload.auth_mode == "token"
        kind = str(workload.head_service_type or "ClusterIP")
        reachable = workload.head_ingress or kind in ("LoadBalancer", "NodePort")
        yield (error if reachable and not token else warning)(
            workload.where,
            f"the dashboard of Ray {workload.ray_version} takes DELETE requests from any web page that reaches it (CVE-2026-27482): Serve is shut down, jobs are deleted",
            "use Ray 2.54 or newer" + ("" if token else " and auth.mode: token"),
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="security-head-exposed",
        title="The head's ports stay inside the cluster",
        why=(
            "Dashboard, jobs and client ports run what they are sent: that is their purpose, and CVE-2023-48022 (ShadowRay) is thousands of clusters that had them on the "
            "internet. A LoadBalancer, NodePort or Ingress on the head's Service is such a door."
        ),
        check=head_service,
        sources=("CVE-2023-48022", "kuberay#4115", "linagora/openrag#633"),
    ),
    Rule(
        id="security-service-exposed",
        title="No other Service or route publishes the head's ports",
        why="A Service by hand that selects ray.io/node-type: head, or a route to the head's Service, opens the same ports.",
        check=other_services,
        sources=("CVE-2023-48022",),
    ),
    Rule(
        id="security-endpoint-public",
        title="The endpoint is not open to the internet",
        why="Ray Serve LLM checks no API key. An open endpoint is free inference for whoever scans for port 8000, and prompts of other users in the prefix cache.",
        check=endpoint,
        sources=("https://docs.ray.io/en/latest/ray-security/index.html",),
    ),
    Rule(
        id="security-token-auth",
        title="Ray's token authentication is on",
        why=(
            "Every pod of the cluster network can reach the head. With authOptions.mode token (Ray 2.52 and newer) dashboard, jobs and client ask for a token that KubeRay "
            "puts into the pods."
        ),
        check=authentication,
        sources=("https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-auth.html",),
    ),
    Rule(
        id="security-dashboard-delete",
        title="Ray is new enough for CVE-2026-27482",
        why="Before 2.54 the dashboard refused POST and PUT from browsers and forgot DELETE: a web page opened by someone with a route to the dashboard shuts Serve down.",
        check=dashboard_delete,
        sources=("CVE-2026-27482",),
    ),
)
