"""Node autoscalers: Helm values of cluster-autoscaler and of Karpenter. Pure.

Sources: kubernetes/autoscaler chart 9.59.0 and FAQ; karpenter-provider-aws v1.14.1 (charts/karpenter).
Not for: Karpenter's NodePools (karpenter.py), scale-from-zero tags (autoscaler_tags.py) or roles (iam_controllers.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.config import AwsCluster, Environment
from components.manifests import monitoring
from components.manifests.iam_controllers import CLUSTER_AUTOSCALER, KARPENTER
from components.node_pools import node_autoscaler
from policies.facts import NodePool


def karpenter_needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether Karpenter adds the nodes, on AWS."""
    return isinstance(env.cluster, AwsCluster) and node_autoscaler(env) == "karpenter"


def cluster_autoscaler_needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether cluster-autoscaler does, on AWS."""
    return isinstance(env.cluster, AwsCluster) and node_autoscaler(env) == "cluster_autoscaler"


def karpenter_values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Values of Karpenter. Cluster and queue names come with `for_cluster`. Its pods must not wait for nodes it makes."""
    return {
        "serviceAccount": {"name": KARPENTER},
        "serviceMonitor": {"enabled": monitoring.installed(env)},
        "settings": {
            "eksControlPlane": True,
            "featureGates": {
                "nodeRepair": any(getattr(pool, "node_repair", False) for pool in env.node_pools.values()),
                "reservedCapacity": True,
            },
        },
    }


def karpenter_for_cluster(cluster_name: str, interruption_queue: Any) -> dict[str, Any]:
    """What only the cluster knows; the queue's name may be an output."""
    settings: dict[str, Any] = {"clusterName": cluster_name}
    return {
        "settings": settings | ({"interruptionQueue": interruption_queue} if interruption_queue is not None else {})
    }


def cluster_autoscaler_values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Values of cluster-autoscaler."""
    region = env.cluster.region if isinstance(env.cluster, AwsCluster) else ""
    return {
        "cloudProvider": "aws",
        "awsRegion": region,
        "fullnameOverride": CLUSTER_AUTOSCALER,
        "rbac": {"serviceAccount": {"name": CLUSTER_AUTOSCALER}},
        "serviceMonitor": {"enabled": monitoring.installed(env), "namespace": "kube-system"},
        "extraArgs": {
            # Groups of the same shape in several zones grow together, and the one that wastes least is chosen.
            "balance-similar-node-groups": True,
            "expander": "least-waste",
            # Pods with an emptyDir (every Ray pod: /dev/shm, logs) would otherwise hold their node for ever.
            "skip-nodes-with-local-storage": False,
            "skip-nodes-with-system-pods": False,
            # GPU nodes take minutes to start and to load a model: what is idle for a short while is kept.
            "scale-down-unneeded-time": "15m",
            "max-node-provision-time": "30m",
        },
    }


def cluster_autoscaler_for_cluster(cluster_name: str) -> dict[str, Any]:
    """What only the cluster knows: node groups are found by the tags EKS gives them."""
    return {"autoDiscovery": {"clusterName": cluster_name}}
