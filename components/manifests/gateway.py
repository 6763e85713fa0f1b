"""Envoy Gateway and its GatewayClass, for RayServices that are upgraded step by step. Pure.

Source: envoyproxy/gateway v1.9.0 (charts/gateway-helm, charts/gateway-crds-helm, api/v1alpha1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.config import Environment
from policies.facts import NodePool

CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
PROXY = "cluster-internal"


def needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Never by itself: a second Gateway implementation beside a team's own is no repair."""
    return False


def values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Values of the controller; its CRDs have their own life."""
    return {"crds": {"enabled": False}}


def crd_values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Values of the chart of CRDs: Gateway API's standard channel, and Envoy Gateway's own kinds."""
    return {"crds": {"envoyGateway": {"enabled": True}, "gatewayAPI": {"enabled": True, "channel": "standard"}}}


def objects(env: Environment, namespace: str) -> list[dict[str, Any]]:
    """EnvoyProxy and GatewayClass. Proxies get a ClusterIP: KubeRay's Gateway splits traffic inside the cluster, and a load
    balancer for each service (Envoy Gateway's default) would cost money that nobody asked for."""
    name = env.software.gateway.class_name
    proxy = {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyProxy",
        "metadata": {"name": PROXY, "namespace": namespace},
        "spec": {"provider": {"type": "Kubernetes", "kubernetes": {"envoyService": {"type": "ClusterIP"}}}},
    }
    gateway_class = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": name},
        "spec": {
            "controllerName": CONTROLLER,
            "parametersRef": {
                "group": "gateway.envoyproxy.io",
                "kind": "EnvoyProxy",
                "name": PROXY,
                "namespace": namespace,
            },
        },
    }
    return [proxy, gateway_class]
