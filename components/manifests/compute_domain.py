"""The ComputeDomain of a service and the claim of its pods: IMEX channels, without which NVLink ends at the node. Pure.

Sources: kubernetes-sigs/dra-driver-nvidia-gpu v0.5.0 (api/nvidia.com/resource/v1beta1, demo/specs/imex); Amazon EKS user guide,
P6e-GB200 UltraServers. GPUs stay with the device plugin: only the channel is claimed. Not for the driver itself (dra_driver.py).
"""

from __future__ import annotations

from typing import Any

from components.derive.spec import GroupSpec, ServiceSpec
from components.manifests.pod_labels import SERVICE_LABEL

CLAIM = "imex-channel"
"""Name of the claim inside a pod."""
CLIQUE_LABEL = "nvidia.com/gpu.clique"
"""Label of GPU Feature Discovery: nodes of one value reach each other by NVLink."""


def template_name(spec: ServiceSpec) -> str:
    """ResourceClaimTemplate that the driver's controller makes for the domain."""
    return f"{spec.name}-{CLAIM}"


def objects(spec: ServiceSpec) -> list[dict[str, Any]]:
    """One domain for a service: it goes where the pods go, and pods of other services are outside of it."""
    if not any(group.compute_domain for group in spec.groups):
        return []
    return [
        {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": {"name": spec.name, "namespace": spec.config.namespace},
            "spec": {
                # Elastic since 25.8. Said, because the CRD that GPU Operator v26.7.0 brings still requires the field.
                "numNodes": 0,
                "channel": {"resourceClaimTemplate": {"name": template_name(spec)}},
            },
        }
    ]


def claimed(template: dict[str, Any], spec: ServiceSpec, group: GroupSpec) -> dict[str, Any]:
    """The pod template with the claim, in the pod and in the container that runs the engine; others as they are.

    Pods prefer the rack in which pods of the service are: where it has no room, NCCL goes between racks by EFA or TCP.
    """
    if not group.compute_domain:
        return template
    pod = template["spec"]
    container = pod["containers"][0]
    term = {"topologyKey": CLIQUE_LABEL, "labelSelector": {"matchLabels": {SERVICE_LABEL: spec.name}}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {
        **template,
        "spec": {
            **pod,
            "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
            "containers": [
                {**container, "resources": {**container["resources"], "claims": [{"name": CLAIM}]}},
                *pod["containers"][1:],
            ],
            "resourceClaims": [{"name": CLAIM, "resourceClaimTemplateName": template_name(spec)}],
        },
    }
