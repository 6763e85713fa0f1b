"""Helm values of AWS' own controllers in the cluster: the load balancer controller and the EFA device plugin. Pure.

Source: aws/eks-charts v0.0.242.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.config import AwsCluster, Environment, Expose
from components.manifests import monitoring
from components.manifests.gpu_operator import tolerations
from components.manifests.iam_controllers import LOAD_BALANCER_CONTROLLER
from components.manifests.ingress import ALB
from policies.facts import NodePool


def load_balancer_controller_needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether a service on AWS has a load balancer: without the controller the in-tree code makes a Classic one."""
    return isinstance(env.cluster, AwsCluster) and any(_load_balancer(each.expose) for each in env.services.values())


def _load_balancer(expose: Expose) -> bool:
    by_gateway = expose.gateway is not None and expose.gateway.load_balancer != "none"
    by_ingress = expose.ingress is not None and expose.ingress.class_name in (None, ALB)
    return expose.type == "LoadBalancer" or by_gateway or by_ingress


def load_balancer_controller_values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Values of the AWS Load Balancer Controller; names of cluster and VPC come with `for_cluster`."""
    region = env.cluster.region if isinstance(env.cluster, AwsCluster) else ""
    return {
        "region": region,
        "serviceAccount": {"name": LOAD_BALANCER_CONTROLLER},
        # Its webhook would stand before every Service of type LoadBalancer, others' too; ours name their class by annotation.
        "enableServiceMutatorWebhook": False,
        # Asked of each ALB otherwise, and without those permissions no ALB is made (aws-load-balancer-controller: docs, iam_policy.json).
        "enableShield": False,
        "enableWaf": False,
        "enableWafv2": False,
        "serviceMonitor": {"enabled": monitoring.installed(env)},
    }


def load_balancer_controller_for_cluster(cluster_name: str, vpc_id: Any) -> dict[str, Any]:
    """What only the cluster knows; the id may be an output. The VPC is said, since pods behind hop limit 1 cannot ask the metadata service."""
    return {"clusterName": cluster_name, "vpcId": vpc_id}


def efa_needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether a pool on AWS has EFA."""
    return any(pool.efa and pool.kind != "existing" for pool in pools)


def efa_values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Values of the EFA device plugin: it must tolerate the taints of the nodes it serves, and has no toleration of its own."""
    found = [pool for pool in pools if pool.efa and pool.kind != "existing"]
    gpu = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    return {"tolerations": [gpu, *tolerations(found)]}
