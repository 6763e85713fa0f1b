"""PodDisruptionBudgets: a drain takes one replica at a time. Pure.

Not for the head: one pod cannot be kept by a budget without blocking every drain, and with fault tolerance it comes back.
"""

from __future__ import annotations

from typing import Any

from components.derive.spec import GroupSpec, ServiceSpec
from components.manifests.pod_labels import SERVICE_LABEL


def objects(spec: ServiceSpec) -> list[dict[str, Any]]:
    """Budgets of a service that has more than one replica at rest; of plain vLLM also where it may scale beyond one."""
    if not spec.config.disruption_budget:
        return []
    if spec.config.kind == "vllm":
        most = max((engine.max_replicas for engine in spec.engines), default=0)
        return [_budget(spec, spec.name, {"maxUnavailable": 1}, {})] if most > 1 else []
    if spec.config.kind == "ray_job":  # batch work is retried
        return []
    return [
        _budget(spec, f"{spec.name}-{group.name}", {"minAvailable": floor}, {"ray.io/group": group.name})
        for group in spec.groups
        if (floor := _floor(spec, group)) > 0
    ]


def _floor(spec: ServiceSpec, group: GroupSpec) -> int:
    """Pods of a group that stay: all at rest but those of one replica. A whole number, since Kubernetes cannot count what a
    percentage or maxUnavailable would be of: RayCluster has no scale subresource (kubernetes.io, "Specifying a Disruption Budget")."""
    at_rest = group.min if spec.autoscaling else group.replicas
    return (at_rest - 1) * group.hosts


def _budget(spec: ServiceSpec, name: str, limit: dict[str, int], labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": spec.config.namespace},
        "spec": {
            **limit,
            "selector": {"matchLabels": dict(sorted({SERVICE_LABEL: spec.name, **labels}.items()))},
            # a pod that never became ready serves nobody, and would block the drain for ever
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
