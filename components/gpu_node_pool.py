"""A node pool as an EKS managed node group with its launch template, of any kind: on demand, spot, reserved, EFA, CPU only.

Not for: deciding anything (manifests/launch_template.py, user_data.py and autoscaler_tags.py do), or Karpenter's pools.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.config import AwsPool
from components.eks_cluster import EksOutputs
from components.manifests import launch_template as lt
from components.manifests.autoscaler_tags import scale_from_zero_tags
from components.manifests.user_data import ClusterAccess, user_data
from components.naming import TEMPLATE_PREFIX, prefix
from policies.facts import NodePool

TAINT_EFFECTS = {
    "NoExecute": "NO_EXECUTE",
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
}
"""Kubernetes' taint effects as the EKS API spells them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where nodes of the pool start: subnets in its zones, and for EFA the extra security group and placement group."""

    subnet_ids: Sequence[pulumi.Input[str]]
    efa_security_group_id: pulumi.Input[str] | None = None
    placement_group: pulumi.Input[str] | None = None


class GpuNodePool(pulumi.ComponentResource):
    """A managed node group. Outputs: `node_group`."""

    node_group: aws.eks.NodeGroup

    def __init__(
        self,
        name: str,
        *,
        pool: NodePool,
        config: AwsPool,
        cluster: EksOutputs,
        node_role_arn: pulumi.Input[str],
        placement: Placement,
        tags: Mapping[str, str],
        autoscaler_tags: bool,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("llm-serving:aws:GpuNodePool", name, {}, opts)
        self._name, self._child = name, pulumi.ResourceOptions(parent=self)
        template = self._launch_template(pool, cluster, placement, tags)
        block = pool.reservation_kind == "capacity_block"
        custom = pool.ami_id is not None
        self.node_group = aws.eks.NodeGroup(
            name,
            cluster_name=cluster.cluster_name,
            # A prefix: a change that needs a new group makes it before the old one goes.
            node_group_name_prefix=f"{pool.name}-",
            node_role_arn=node_role_arn,
            subnet_ids=list(placement.subnet_ids),
            capacity_type=lt.capacity_type(pool),
            # EKS takes the type of a capacity block, and the image of a custom AMI, from the launch template.
            instance_types=None if block else list(pool.instance_types),
            ami_type=None if custom else pool.ami_type,
            version=None if custom else cluster.version,
            release_version=None if custom else config.ami_release,
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(lambda version: str(int(version)))
            ),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                min_size=pool.min, max_size=max(pool.max or 0, 1), desired_size=pool.desired or 0
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=config.max_unavailable),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=config.node_repair),
            labels={key: str(value) for key, value in sorted(pool.labels.items())},
            taints=[
                aws.eks.NodeGroupTaintArgs(key=taint.key, value=taint.value or None, effect=TAINT_EFFECTS[taint.effect])
                for taint in pool.taints
            ],
            tags={"llm-serving/pool": pool.name},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*after, *cluster.before_nodes],
                # The autoscaler's from the first minute on: an update would throw its nodes away.
                ignore_changes=["scalingConfig.desiredSize"],
            ),
        )
        if autoscaler_tags:
            self._tags(scale_from_zero_tags(pool))
        self.register_outputs({"node_group_name": self.node_group.node_group_name})

    def _launch_template(
        self, pool: NodePool, cluster: EksOutputs, placement: Placement, tags: Mapping[str, str]
    ) -> aws.ec2.LaunchTemplate:
        spec = lt.launch_template(pool)
        target = aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs
        groups = [cluster.security_group_id]
        if placement.efa_security_group_id is not None:
            groups.append(pulumi.Output.from_input(placement.efa_security_group_id))
        labels = {**tags, "Name": f"{cluster.name}-{pool.name}", "llm-serving/pool": pool.name}
        return aws.ec2.LaunchTemplate(
            self._name,
            name_prefix=prefix(f"{cluster.name}-{pool.name}", TEMPLATE_PREFIX),
            description=f"Nodes of pool {pool.name}",
            update_default_version=True,
            instance_type=spec.instance_type,
            image_id=spec.image_id,
            user_data=_user_data(pool, cluster),
            block_device_mappings=[
                aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                    device_name=spec.disk.device,
                    ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                        volume_size=spec.disk.size_gib,
                        volume_type="gp3",
                        throughput=spec.disk.throughput,
                        encrypted="true",
                        delete_on_termination="true",
                    ),
                )
            ],
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=spec.hop_limit
            ),
            network_interfaces=[
                aws.ec2.LaunchTemplateNetworkInterfaceArgs(
                    network_card_index=each.card,
                    device_index=each.device,
                    interface_type=each.type,
                    security_groups=groups,
                    delete_on_termination="true",
                )
                for each in spec.interfaces
            ]
            or None,
            placement=aws.ec2.LaunchTemplatePlacementArgs(group_name=placement.placement_group)
            if placement.placement_group is not None
            else None,
            instance_market_options=aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type=spec.market)
            if spec.market
            else None,
            capacity_reservation_specification=aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
                capacity_reservation_target=target(capacity_reservation_id=spec.reservation)
            )
            if spec.reservation
            else None,
            # The provider's default tags stop at the template; what it starts is tagged here.
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=labels)
                for kind in ("instance", "volume", "network-interface")
            ],
            opts=self._child,
        )

    def _tags(self, tags: Mapping[str, str]) -> None:
        """Tags on the Auto Scaling group that EKS made, which does not hand the node group's own tags down."""
        group = self.node_group.resources.apply(lambda found: found[0].autoscaling_groups[0].name)
        for key, value in tags.items():
            aws.autoscaling.Tag(
                f"{self._name}-{key.removeprefix('k8s.io/cluster-autoscaler/')}",
                autoscaling_group_name=group,
                tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
                opts=self._child,
            )


def _user_data(pool: NodePool, cluster: EksOutputs) -> pulumi.Input[str] | None:
    if pool.ami_id is None:
        plain = user_data(pool)
        return None if plain is None else _base64(plain)

    def render(found: Sequence[str]) -> str:
        endpoint, authority, cidr = found
        access = ClusterAccess(name=cluster.name, endpoint=endpoint, certificate_authority=authority, service_cidr=cidr)
        return _base64(user_data(pool, access) or "")

    return pulumi.Output.all(cluster.endpoint, cluster.certificate_authority, cluster.service_cidr).apply(render)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
