"""PodMonitor of one service, for a Prometheus that this stack did not install. Pure.

Not for the stack's own Prometheus: its release scrapes every service (monitoring.py), and twice would count double.
"""

from __future__ import annotations

from typing import Any

from components.derive.spec import ServiceSpec
from components.manifests import monitoring
from components.manifests.pod_labels import SERVICE_LABEL


def objects(spec: ServiceSpec) -> list[dict[str, Any]]:
    """The PodMonitor, where it is asked for. Ray, Serve and vLLM report on port metrics (8080); plain vLLM on its endpoint."""
    metrics = spec.config.metrics
    if not metrics.pod_monitor or monitoring.installed(spec.environment):
        return []
    endpoint: dict[str, Any] = {"interval": f"{metrics.interval_seconds}s", "port": "serve"}
    if spec.config.kind != "vllm":
        endpoint |= {"port": "metrics", "relabelings": [monitoring.CLUSTER]}
    metadata: dict[str, Any] = {"name": spec.name, "namespace": spec.config.namespace}
    if metrics.labels:
        metadata["labels"] = dict(sorted(metrics.labels.items()))
    return [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PodMonitor",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": {SERVICE_LABEL: spec.name}},
                "podMetricsEndpoints": [endpoint],
            },
        }
    ]
