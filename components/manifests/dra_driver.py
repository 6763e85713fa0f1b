"""Helm values of NVIDIA's DRA driver, for ComputeDomains alone. Pure.

Sources: kubernetes-sigs/dra-driver-nvidia-gpu v0.5.0 (deployments/helm/dra-driver-nvidia-gpu); Amazon EKS user guide, P6e-GB200
UltraServers. GPUs stay with the GPU Operator's device plugin: two that hand out one GPU give it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.config import Environment
from components.derive.nvlink import joined_pools
from components.manifests.gpu_operator import tolerations
from components.node_pools import node_selector
from policies.facts import NodePool

OPERATOR_DRIVER_ROOT = "/run/nvidia/driver"
"""Where a driver that the GPU Operator installs lies on the node."""


def needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether NVLink joins the nodes of a pool, or a service says that its pods claim a channel."""
    return bool(joined_pools(pools)) or any(each.worker.compute_domain for each in env.services.values())


def values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Values of the chart. Its plugin runs on the nodes that NVLink joins: on others it has nothing to give."""
    found = joined_pools(pools)
    gpu = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    plugin: dict[str, Any] = {"tolerations": [gpu, *tolerations(found)]}
    selectors = [node_selector(pool) for pool in found]
    if selectors and all(selectors):
        terms = [
            {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]}
            for labels in selectors
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        plugin["affinity"] = {"nodeAffinity": required}
    by_operator = any(pool.kind == "existing" and pool.driver_version is None for pool in found)
    return {
        "nvidiaDriverRoot": OPERATOR_DRIVER_ROOT if by_operator else "/",
        "resources": {"gpus": {"enabled": False}, "computeDomains": {"enabled": True}},
        "kubeletPlugin": plugin,
    }
