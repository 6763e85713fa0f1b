"""Ingress, or Gateway and HTTPRoute, with TLS in front of the endpoint, and the keys of teams at the Gateway. Pure.

Sources: AWS Load Balancer Controller v3.5.0, docs/guide/ingress/annotations.md; Gateway API 1.6 (HTTPRoute timeouts are standard
since 1.2); Envoy Gateway v1.9.0, api/v1alpha1/{api_key_auth_types,envoyproxy_types}.go. Envoy takes the key from
`Authorization: Bearer <key>`, too (api_key_auth.proto), so that OpenAI clients need no other header.
Not for the Gateway that KubeRay makes for incremental upgrades: it splits traffic inside the cluster.
"""

from __future__ import annotations

from typing import Any

from components.derive.spec import ServiceSpec
from components.manifests.load_balancer import network

ALB = "alb"
CLIENT_HEADER = "x-client-id"
"""Header in which the Gateway tells the endpoint whose key it was."""
_GATEWAY_API = "gateway.networking.k8s.io"
_ENVOY = "gateway.envoyproxy.io"


def objects(spec: ServiceSpec) -> list[dict[str, Any]]:
    """Whatever publishes the endpoint beyond its Service; a job and a shared cluster have none."""
    expose = spec.config.expose
    found: list[dict[str, Any]] = []
    if spec.config.kind not in ("ray_service", "vllm"):
        return found
    if expose.ingress is not None:
        found.append(_ingress(spec))
    if expose.gateway is not None:
        found += _route(spec)
    return found


def class_name(spec: ServiceSpec) -> str | None:
    """IngressClass: stated, else the one of the AWS Load Balancer Controller on AWS; None is the cluster's default."""
    stated = spec.config.expose.ingress.class_name if spec.config.expose.ingress else None
    return stated or (ALB if spec.environment.cluster.kind == "aws" else None)


def _ingress(spec: ServiceSpec) -> dict[str, Any]:
    ingress = spec.config.expose.ingress
    assert ingress is not None
    name = class_name(spec)
    annotations = {**_annotations(spec, name), **ingress.annotations}
    if spec.config.kind == "vllm" and not all(engine.min_replicas for engine in spec.engines):
        # Pulumi waits until the Service behind an Ingress has a pod, and at zero it has none
        annotations["pulumi.com/skipAwait"] = "true"
    service = {"name": f"{spec.name}-serve-svc", "port": {"number": spec.config.expose.port}}
    paths = [{"path": path, "pathType": "Prefix", "backend": {"service": service}} for path in ingress.paths]
    body: dict[str, Any] = {"rules": [{"host": ingress.host, "http": {"paths": paths}}]}
    if name is not None:
        body["ingressClassName"] = name
    if ingress.tls_secret is not None:
        body["tls"] = [{"hosts": [ingress.host], "secretName": ingress.tls_secret}]
    metadata: dict[str, Any] = {"name": spec.name, "namespace": spec.config.namespace}
    if annotations:
        metadata["annotations"] = dict(sorted(annotations.items()))
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": body}


def _annotations(spec: ServiceSpec, name: str | None) -> dict[str, str]:
    ingress = spec.config.expose.ingress
    assert ingress is not None
    if name == "nginx":
        prefix = "nginx.ingress.kubernetes.io"
        seconds = f"{ingress.timeout_seconds}"
        return {
            f"{prefix}/proxy-buffering": "off",  # tokens as they come
            f"{prefix}/proxy-read-timeout": seconds,
            f"{prefix}/proxy-send-timeout": seconds,
        }
    if name != ALB:
        return {}
    prefix = "alb.ingress.kubernetes.io"
    annotations = {
        f"{prefix}/healthcheck-path": "/health" if spec.config.kind == "vllm" else "/-/healthz",
        f"{prefix}/listen-ports": '[{"HTTPS": 443}]',
        f"{prefix}/load-balancer-attributes": f"idle_timeout.timeout_seconds={ingress.timeout_seconds}",
        f"{prefix}/scheme": "internal" if ingress.internal else "internet-facing",
        f"{prefix}/target-type": "ip",
    }
    if ingress.certificate_arn is not None:
        annotations[f"{prefix}/certificate-arn"] = ingress.certificate_arn
    if ingress.source_ranges:
        annotations[f"{prefix}/inbound-cidrs"] = ",".join(ingress.source_ranges)
    return annotations


def _route(spec: ServiceSpec) -> list[dict[str, Any]]:
    gateway = spec.config.expose.gateway
    assert gateway is not None
    found: list[dict[str, Any]] = []
    if gateway.gateway is not None:
        namespace, _, name = gateway.gateway.partition("/")
        parent = {"name": name, "namespace": namespace}
    else:
        found += _gateway(spec)
        parent = {"name": f"{spec.name}-endpoint"}
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": path}} for path in gateway.paths],
        "backendRefs": [{"name": f"{spec.name}-serve-svc", "port": spec.config.expose.port}],
        "timeouts": {"request": f"{gateway.timeout_seconds}s"},
    }
    route = _object(
        spec,
        f"{_GATEWAY_API}/v1",
        "HTTPRoute",
        spec.name,
        {"parentRefs": [parent], "hostnames": [gateway.host], "rules": [rule]},
    )
    teams = spec.config.api_keys.teams
    if teams:
        # before the route: it refuses what it cannot check, and an open moment is one too many
        found.append(_keys(spec, teams))
    return [*found, route]


def _gateway(spec: ServiceSpec) -> list[dict[str, Any]]:
    gateway = spec.config.expose.gateway
    assert gateway is not None
    name = f"{spec.name}-endpoint"
    listener = {
        "name": "https",
        "protocol": "HTTPS",
        "port": 443,
        "hostname": gateway.host,
        "tls": {"mode": "Terminate", "certificateRefs": [{"name": gateway.tls_secret}]},
        "allowedRoutes": {"namespaces": {"from": "Same"}},
    }
    body: dict[str, Any] = {"gatewayClassName": spec.gateway_class or "", "listeners": [listener]}
    found: list[dict[str, Any]] = []
    if gateway.load_balancer != "none":
        service = {"type": "LoadBalancer", "annotations": network(gateway.load_balancer == "internal")}
        provider = {"type": "Kubernetes", "kubernetes": {"envoyService": service}}
        found.append(_object(spec, f"{_ENVOY}/v1alpha1", "EnvoyProxy", name, {"provider": provider}))
        body["infrastructure"] = {"parametersRef": {"group": _ENVOY, "kind": "EnvoyProxy", "name": name}}
    return [*found, _object(spec, f"{_GATEWAY_API}/v1", "Gateway", name, body)]


def _keys(spec: ServiceSpec, teams: tuple[str, ...]) -> dict[str, Any]:
    """Envoy Gateway's SecurityPolicy on the route. The key goes no further, unless the engine asks for one as well."""
    auth = {
        "credentialRefs": [{"name": secret} for secret in teams],
        "extractFrom": [{"headers": ["Authorization"]}],
        "forwardClientIDHeader": CLIENT_HEADER,
        "sanitize": spec.config.api_keys.engine is None,
    }
    target = {"group": _GATEWAY_API, "kind": "HTTPRoute", "name": spec.name}
    return _object(
        spec, f"{_ENVOY}/v1alpha1", "SecurityPolicy", spec.name, {"targetRefs": [target], "apiKeyAuth": auth}
    )


def _object(spec: ServiceSpec, api: str, kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": spec.config.namespace},
        "spec": body,
    }
