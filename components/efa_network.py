"""What EFA nodes share: a security group that lets them talk to each other, and placement groups, one for each pool.

Not for: the interfaces, which are part of the launch template or EC2NodeClass.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws


class EfaNetwork(pulumi.ComponentResource):
    """Outputs: `security_group_id`; `placement_groups` by pool name. `ready`: the rules, without which NCCL hangs."""

    security_group_id: pulumi.Output[str]
    placement_groups: dict[str, pulumi.Output[str]]
    ready: tuple[pulumi.Resource, ...]

    def __init__(
        self,
        name: str,
        *,
        vpc_id: pulumi.Input[str],
        placement_groups: Sequence[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("llm-serving:aws:EfaNetwork", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        group = aws.ec2.SecurityGroup(
            name,
            vpc_id=vpc_id,
            description="EFA: all traffic between the nodes that have this group",
            tags={"Name": name},
            opts=child,
        )
        # SRD is no IP protocol that a CIDR rule covers: both directions must name the group itself (EC2 user guide,
        # "Get started with EFA and MPI", step 1).
        both = (
            aws.vpc.SecurityGroupIngressRule(
                name,
                security_group_id=group.id,
                referenced_security_group_id=group.id,
                ip_protocol="-1",
                opts=child,
            ),
            aws.vpc.SecurityGroupEgressRule(
                name,
                security_group_id=group.id,
                referenced_security_group_id=group.id,
                ip_protocol="-1",
                opts=child,
            ),
        )
        self.security_group_id, self.ready = group.id, both
        self.placement_groups = {
            pool: aws.ec2.PlacementGroup(f"{name}-{pool}", strategy="cluster", opts=child).name
            for pool in placement_groups
        }
        self.register_outputs({"security_group_id": group.id})
