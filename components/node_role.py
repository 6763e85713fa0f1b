"""The IAM role of nodes: join the cluster, pull images, be reached by Session Manager. Nothing for pods.

Not for: what pods may do in the account (see pod_identity.py).
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from components.manifests.iam import CNI_POLICY, NODE_POLICIES, managed_policy_arn, trust_service
from components.naming import ROLE_PREFIX, prefix


class NodeRole(pulumi.ComponentResource):
    """A node role. Outputs: `arn`, `name`; `policies` must be attached before a node starts.

    cni: nodes of a cluster whose VPC CNI we did not set up may have to bring its permissions.
    access_entry: for nodes that EKS does not start itself (Karpenter's); for node groups EKS makes the entry.
    """

    arn: pulumi.Output[str]
    name: pulumi.Output[str]
    policies: tuple[pulumi.Resource, ...]

    def __init__(
        self,
        name: str,
        *,
        region: str,
        cni: bool = False,
        access_entry: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("llm-serving:aws:NodeRole", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(
            name,
            name_prefix=prefix(name, ROLE_PREFIX),
            description=f"EC2 nodes: {name}",
            assume_role_policy=trust_service("ec2.amazonaws.com"),
            opts=child,
        )
        policies: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy}", role=role.name, policy_arn=managed_policy_arn(policy, region), opts=child
            )
            for policy in (*NODE_POLICIES, *((CNI_POLICY,) if cni else ()))
        ]
        if access_entry is not None:
            policies.append(
                aws.eks.AccessEntry(
                    name, cluster_name=access_entry, principal_arn=role.arn, type="EC2_LINUX", opts=child
                )
            )
        self.arn, self.name, self.policies = role.arn, role.name, tuple(policies)
        self.register_outputs({"arn": role.arn, "name": role.name})
