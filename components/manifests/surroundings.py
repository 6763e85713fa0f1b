"""What surrounds a workload: everything of a service beside its custom resource, or plain vLLM's Deployment and Service. Pure.

Not for deciding: each builder says by itself whether a service has its object.
"""

from __future__ import annotations

from typing import Any

from components.derive.spec import ServiceSpec
from components.manifests import (
    compute_domain,
    disruption,
    engine_logs,
    external_secrets,
    ingress,
    network_policy,
    pod_monitor,
    vllm_scaling,
)

AFTER_WORKLOAD = frozenset(
    {"HTTPRoute", "HorizontalPodAutoscaler", "Ingress", "ScaledObject", "Service"},
)
"""Kinds made after the workload: Pulumi waits for the endpoints of a Service and an Ingress, and scalers want their target."""


def objects(spec: ServiceSpec) -> list[dict[str, Any]]:
    """In the order in which they are made: what the workload needs, what guards it, what leads to it."""
    return [
        *external_secrets.objects(spec),
        *compute_domain.objects(spec),
        *engine_logs.objects(spec),
        *network_policy.objects(spec),
        *disruption.objects(spec),
        *pod_monitor.objects(spec),
        *vllm_scaling.objects(spec),
        *ingress.objects(spec),
    ]
