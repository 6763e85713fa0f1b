"""What a node autoscaler needs of the account: a role, and for Karpenter a node role and a queue of interruption notices.

Not for: the autoscalers themselves, which come by Helm and must use the service accounts of manifests/iam_controllers.py.
"""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

from components.eks_cluster import EksOutputs
from components.manifests import iam, iam_controllers
from components.naming import RULE_PREFIX, prefix
from components.node_role import NodeRole
from components.pod_identity import PodIdentityRole

INTERRUPTIONS = {
    "health": ("aws.health", "AWS Health Event"),
    "interruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "reservation": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
    "state": ("aws.ec2", "EC2 Instance State-change Notification"),
}
"""Events that tell Karpenter to drain a node before it is taken: name to (source, detail type)."""


def cluster_autoscaler_role(cluster: EksOutputs, opts: pulumi.ResourceOptions) -> PodIdentityRole:
    """The role of cluster-autoscaler's pods."""
    return PodIdentityRole(
        f"{cluster.name}-cluster-autoscaler",
        cluster_name=cluster.cluster_name,
        namespace=iam_controllers.NAMESPACE,
        service_account=iam_controllers.CLUSTER_AUTOSCALER,
        region=cluster.region,
        policy=iam_controllers.cluster_autoscaler(cluster.name),
        opts=opts,
    )


def load_balancer_controller_role(cluster: EksOutputs, opts: pulumi.ResourceOptions) -> PodIdentityRole:
    """The role of the AWS Load Balancer Controller's pods."""
    return PodIdentityRole(
        f"{cluster.name}-load-balancer-controller",
        cluster_name=cluster.cluster_name,
        namespace=iam_controllers.NAMESPACE,
        service_account=iam_controllers.LOAD_BALANCER_CONTROLLER,
        region=cluster.region,
        policy=iam_controllers.load_balancer_controller(cluster.region),
        opts=opts,
    )


class KarpenterAccount(pulumi.ComponentResource):
    """Karpenter's side of the account. Outputs: `queue_name` (its interruptionQueue setting), `node_role_name`."""

    queue_name: pulumi.Output[str]
    node_role_name: pulumi.Output[str]

    def __init__(
        self, name: str, *, cluster: EksOutputs, cni: bool, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("llm-serving:aws:KarpenterAccount", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = NodeRole(f"{name}-node", region=cluster.region, cni=cni, access_entry=cluster.cluster_name, opts=child)
        queue = aws.sqs.Queue(
            name,
            name=cluster.name,
            # A notice is worth two minutes; older ones are about nodes that are gone.
            message_retention_seconds=300,
            sqs_managed_sse_enabled=True,
            opts=child,
        )
        aws.sqs.QueuePolicy(name, queue_url=queue.url, policy=queue.arn.apply(iam.queue_takes_events), opts=child)
        for key, (source, detail) in INTERRUPTIONS.items():
            rule = aws.cloudwatch.EventRule(
                f"{name}-{key}",
                name_prefix=prefix(f"{name}-{key}", RULE_PREFIX),
                description=f"{detail} to Karpenter of {cluster.name}",
                event_pattern=json.dumps({"source": [source], "detail-type": [detail]}),
                opts=child,
            )
            aws.cloudwatch.EventTarget(
                f"{name}-{key}", rule=rule.name, arn=queue.arn, target_id="karpenter", opts=child
            )
        policy = pulumi.Output.all(cluster.arn, role.arn, queue.arn).apply(
            lambda arns: iam_controllers.karpenter(
                cluster_name=cluster.name,
                cluster_arn=str(arns[0]),
                region=cluster.region,
                node_role_arn=str(arns[1]),
                queue_arn=str(arns[2]),
            )
        )
        PodIdentityRole(
            f"{name}-controller",
            cluster_name=cluster.cluster_name,
            namespace=iam_controllers.NAMESPACE,
            service_account=iam_controllers.KARPENTER,
            region=cluster.region,
            policy=policy,
            opts=child,
        )
        self.queue_name, self.node_role_name = queue.name, role.name
        self.register_outputs({"queue_name": queue.name, "node_role_name": role.name})
