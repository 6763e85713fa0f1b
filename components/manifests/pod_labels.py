"""The label by which everything around a service finds its pods: KubeRay's own names a cluster, which changes in an upgrade."""

from __future__ import annotations

from typing import Any

from components.derive.spec import ServiceSpec

SERVICE_LABEL = "llm-serving/service"


def labelled(template: dict[str, Any], spec: ServiceSpec) -> dict[str, Any]:
    """The pod template with the label of its service."""
    metadata = template.get("metadata", {})
    labels = dict(sorted({**metadata.get("labels", {}), SERVICE_LABEL: spec.name}.items()))
    return {**template, "metadata": {**metadata, "labels": labels}}
