"""NetworkPolicies of a service: the endpoint for its clients, the head's ports for its own pods and KubeRay. Pure.

KubeRay's own (spec.networkPolicy, alpha gate RayClusterNetworkPolicy of 1.7) are made after the cluster's pods, know no operator
and no plain vLLM; these are there before the first pod.
Sources: KubeRay v1.7.0, ray-operator/controllers/ray/{networkpolicy_controller,rayservice_controller,rayjob_controller}.go.
Not for security groups (components/eks_cluster.py), which know nodes and no pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components import versions
from components.config import Environment
from components.config.access import Peer
from components.derive.spec import ServiceSpec
from components.manifests.pod_labels import SERVICE_LABEL
from policies.facts.quantities import whole

DASHBOARD, CLIENT, AGENT, DNS = 8265, 10001, 52365, 53
# Ray's metrics of every pod; of the head also those of its autoscaler and dashboard (KubeRay: metrics, as-metrics, dash-metrics).
METRICS = (8080, 44217, 44227)
# Labels of KubeRay's operator, by its chart and by its kustomization alike.
OPERATOR = {"app.kubernetes.io/component": "kuberay-operator"}
_NAMESPACE = "kubernetes.io/metadata.name"


def objects(spec: ServiceSpec) -> list[dict[str, Any]]:
    """One policy for all pods of the service, one more for the head."""
    config = spec.config.network
    if not config.enabled:
        return []
    own = {"podSelector": {"matchLabels": {SERVICE_LABEL: spec.name}}}
    ray = spec.config.kind != "vllm"
    serving = [_serving_port(spec)]
    rules = [{"from": [own]}, *_from(_clients(spec), serving)]
    if ray or config.clients is not None:
        rules += _from(config.metrics, METRICS if ray else serving)  # vLLM's metrics are a path of its endpoint
    body: dict[str, Any] = {"podSelector": own["podSelector"], "policyTypes": ["Ingress"], "ingress": rules}
    if config.egress is not None:
        body["policyTypes"] = ["Ingress", "Egress"]
        dns = [{"protocol": protocol, "port": DNS} for protocol in ("UDP", "TCP")]
        # DNS by port and not by pod: the resolver may be on the node (NodeLocal DNSCache) and have no label.
        body["egress"] = [{"to": [own]}, {"ports": dns}, *({"to": [_peer(peer)]} for peer in config.egress)]
    found = [_policy(spec, spec.name, body)]
    if ray:
        found.append(_policy(spec, f"{spec.name}-head", _head(spec)))
    return found


def _head(spec: ServiceSpec) -> dict[str, Any]:
    """KubeRay asks the dashboard for Serve's state and the head for its proxy's health; its submitter sends jobs."""
    dashboard = whole(spec.config.head.ray_start_params.get("dashboard-port")) or DASHBOARD
    rules = [{"from": [_operator(spec.environment)], "ports": _ports((dashboard, AGENT, _serving_port(spec)))}]
    job = spec.config.job
    if spec.config.kind == "ray_job" and job is not None and job.submission_mode == "K8sJobMode":
        submitter = {"podSelector": {"matchLabels": {"batch.kubernetes.io/job-name": spec.name}}}
        rules.append({"from": [submitter], "ports": _ports((dashboard,))})
    rules += _from(spec.config.network.operators, (dashboard, CLIENT))
    labels = {SERVICE_LABEL: spec.name, "ray.io/node-type": "head"}
    return {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"], "ingress": rules}


def _operator(env: Environment) -> dict[str, Any]:
    """KubeRay's pods in the namespace where this stack installs it; where another team did, in any."""
    installed = env.software.kuberay.install is not False
    namespaces = {"matchLabels": {_NAMESPACE: versions.KUBERAY.namespace}} if installed else {}
    return {"namespaceSelector": namespaces, "podSelector": {"matchLabels": dict(OPERATOR)}}


def _clients(spec: ServiceSpec) -> tuple[Peer, ...] | None:
    """Stated clients; with them the proxies of the Gateway that this stack installs, where traffic comes through one."""
    stated = spec.config.network.clients
    by_gateway = spec.config.expose.gateway is not None or spec.config.upgrade.strategy == "incremental"
    if stated is None or not by_gateway or not spec.environment.software.gateway.install:
        return stated
    return (*stated, Peer(namespace=versions.GATEWAY.namespace))


def _serving_port(spec: ServiceSpec) -> int:
    return 8000 if spec.config.kind == "vllm" else spec.config.expose.port


def _from(peers: Sequence[Peer] | None, ports: Sequence[int]) -> list[dict[str, Any]]:
    """The rule for ports. No list: everyone; an empty one: nobody, and no rule."""
    if peers is None:
        return [{"ports": _ports(ports)}]
    return [{"from": [_peer(peer) for peer in peers], "ports": _ports(ports)}] if peers else []


def _peer(peer: Peer) -> dict[str, Any]:
    if peer.cidr is not None:
        return {"ipBlock": {"cidr": peer.cidr}}
    namespaces = {"matchLabels": {_NAMESPACE: peer.namespace}} if peer.namespace is not None else {}
    found: dict[str, Any] = {"namespaceSelector": namespaces}
    if peer.pods:
        found["podSelector"] = {"matchLabels": dict(sorted(peer.pods.items()))}
    return found


def _ports(numbers: Sequence[int]) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": number} for number in numbers]


def _policy(spec: ServiceSpec, name: str, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": spec.config.namespace},
        "spec": body,
    }
