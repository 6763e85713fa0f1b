"""kube-prometheus-stack: Helm values, and what Prometheus scrapes of Ray and vLLM. Pure.

Sources: prometheus-community/helm-charts kube-prometheus-stack 88.5.3; KubeRay's pod labels (ray-operator/controllers/ray/utils).
Not for: dashboards (dashboards.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.config import Environment
from policies.facts import NodePool


def installed(env: Environment) -> bool:
    """Whether the stack installs Prometheus; then others may declare ServiceMonitors, whose CRD comes with it."""
    return env.software.monitoring.install is True


def needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Never by itself: clusters often have a Prometheus, and two operators fight over the same objects."""
    return False


def values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Helm values. The password of Grafana is made by its chart in the cluster and is in no value."""
    config = env.software.monitoring
    storage = {
        "volumeClaimTemplate": {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": f"{config.storage_gib}Gi"}},
            }
        }
    }
    every = {f"{kind}SelectorNilUsesHelmValues": False for kind in ("podMonitor", "probe", "rule", "serviceMonitor")}
    return {
        # Helm never upgrades a crds/ folder; the chart's own hook does.
        "crds": {"upgradeJob": {"enabled": True}},
        "prometheus": {
            "prometheusSpec": {**every, "retention": f"{config.retention_days}d", "storageSpec": storage},
            "additionalPodMonitors": pod_monitors(env),
        },
        # Dashboards are ConfigMaps with this label, in any namespace.
        "grafana": {
            "sidecar": {"dashboards": {"enabled": True, "label": "grafana_dashboard", "searchNamespace": "ALL"}}
        },
    }


CLUSTER = {"sourceLabels": ["__meta_kubernetes_pod_label_ray_io_cluster"], "targetLabel": "ray_io_cluster"}
"""Relabelling: the Ray cluster as a label of every series."""


def pod_monitors(env: Environment) -> list[dict[str, Any]]:
    """Ray heads and workers (Ray, Serve and vLLM metrics on port 8080, named metrics by KubeRay), and plain vLLM services."""
    ray = {"key": "ray.io/node-type", "operator": "In", "values": ["head", "worker"]}
    monitors = [_pod_monitor("ray", ray, {"port": "metrics", "relabelings": [CLUSTER]})]
    plain = sorted(name for name, service in env.services.items() if service.kind == "vllm")
    if plain:
        named = {"key": "app.kubernetes.io/name", "operator": "In", "values": plain}
        monitors.append(_pod_monitor("vllm", named, {"port": "serve"}))
    return monitors


def _pod_monitor(name: str, selects: dict[str, Any], endpoint: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "jobLabel": "app.kubernetes.io/name",
        "namespaceSelector": {"any": True},
        "selector": {"matchExpressions": [selects]},
        "podMetricsEndpoints": [endpoint],
    }
