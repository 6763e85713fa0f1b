"""AWS resources by Pulumi's properties: what they are, what refers to what, versions and zones.

Not for: pools of nodes (node_groups.py), Karpenter's objects (karpenter.py), or judging: rules read AwsResource as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .quantities import items, mapping
from .records.stack import AwsResource
from .records.values import Values
from .wire import Resource

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
AUTO_SCALING_GROUP = "aws:autoscaling/group:Group"
AUTO_SCALING_TAG = "aws:autoscaling/tag:Tag"
CLUSTER = "aws:eks/cluster:Cluster"
ADDON = "aws:eks/addon:Addon"
SUBNET = "aws:ec2/subnet:Subnet"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
_RULES = ("aws:ec2/securityGroupRule:SecurityGroupRule", "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
LUSTRE, EFS = "aws:fsx/lustreFileSystem:LustreFileSystem", "aws:efs/mountTarget:MountTarget"
FILE_SYSTEMS = {LUSTRE: "securityGroupIds", EFS: "securityGroups"}
"""What is mounted over the network, and the property that names its security groups."""
JUDGED: Mapping[str, tuple[str, ...]] = {
    NODE_GROUP: (
        "instanceTypes",
        "amiType",
        "capacityType",
        "scalingConfig",
        "diskSize",
        "labels",
        "remoteAccess",
        "taints",
        "version",
    ),
    LAUNCH_TEMPLATE: (
        "instanceType",
        "imageId",
        "blockDeviceMappings",
        "metadataOptions",
        "instanceMarketOptions",
        "capacityReservationSpecification",
    ),
    AUTO_SCALING_GROUP: ("minSize", "maxSize", "mixedInstancesPolicy"),
    CLUSTER: ("version", "vpcConfig.endpointPublicAccess", "vpcConfig.publicAccessCidrs"),
    GROUP: ("ingress", "egress"),
    _RULES[0]: ("type", "cidrBlocks", "protocol", "fromPort", "toPort"),
    _RULES[1]: (
        "cidrIpv4",
        "cidrIpv6",
        "ipProtocol",
        "fromPort",
        "toPort",
    ),
}
"""Properties that the rules read, by type; what is unknown among them is worth telling."""


class Found:
    """All resources of a stack, to find the one that another refers to: by dependency, or by id or name."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_urn: dict[str, Resource] = {}
        self._by_type: dict[str, list[Resource]] = {}
        for each in resources:
            if each.urn:
                self._by_urn[each.urn] = each
            self._by_type.setdefault(each.type, []).append(each)

    def of_type(self, type_: str) -> Sequence[Resource]:
        return self._by_type.get(type_, ())

    def sources(self, of: Resource, prop: str, type_: str) -> list[Resource]:
        """Resources of a type that the property's value comes from."""
        urns = of.sources.get(prop, ())
        return [each for urn in urns if (each := self._by_urn.get(urn)) is not None and each.type == type_]

    def launch_template(self, of: Resource, prop: str, reference: Values) -> Resource | None:
        """The template that a group refers to; None when it is not of this stack."""
        by_dependency = self.sources(of, prop, LAUNCH_TEMPLATE)
        if len(by_dependency) == 1:
            return by_dependency[0]
        for each in self.of_type(LAUNCH_TEMPLATE):
            for ours, theirs in (
                ("id", "id"),
                ("id", "launchTemplateId"),
                ("name", "name"),
                ("name", "launchTemplateName"),
            ):
                if each.props.get(ours) and each.props[ours] == reference.get(theirs):
                    return each
        return None


def _doors(of: Resource, prop: str, found: Found) -> tuple[Values, ...] | None:
    """Ingress rules of the security groups that a property names, their own and those that stand beside them."""
    names = items(of.props.get(prop))
    groups = [each for each in found.of_type(GROUP) if each.props.get("id") and each.props["id"] in names]
    groups = found.sources(of, prop, GROUP) or groups
    rules = [mapping(rule) for each in groups for rule in items(each.props.get("ingress"))]
    ids = [each.props["id"] for each in groups if each.props.get("id")]
    for kind in _RULES:
        for rule in found.of_type(kind):
            into = found.sources(rule, "securityGroupId", GROUP)
            if any(each in groups for each in into) or rule.props.get("securityGroupId") in ids:
                protocol = rule.props.get("protocol") or rule.props.get("ipProtocol")
                if rule.props.get("type") != "egress":
                    rules.append({**rule.props, "protocol": protocol})
    return tuple(rules) if rules and len(groups) >= len(names) else None


def anything(resource: Resource, found: Found) -> AwsResource:
    """Any resource, as declared; a node group with the launch template that it refers to."""
    template = None
    if resource.type == NODE_GROUP and resource.props.get("launchTemplate") is not None:
        template = found.launch_template(resource, "launchTemplate", mapping(resource.props["launchTemplate"]))
    kind = resource.type.rsplit(":", 1)[-1]
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", kind).lower()
    return AwsResource(
        type=resource.type,
        name=resource.name,
        where=f"{words} '{resource.name}'",
        props=resource.props,
        template=template.props if template else None,
        doors=_doors(resource, FILE_SYSTEMS[resource.type], found) if resource.type in FILE_SYSTEMS else None,
    )


def kubernetes_version(resources: Iterable[Resource]) -> str | None:
    """Version of the one EKS cluster of the stack, where stated."""
    given = {str(r.props["version"]) for r in resources if r.type == CLUSTER and r.props.get("version")}
    return given.pop() if len(given) == 1 else None


def private_zones(resources: Iterable[Resource]) -> tuple[str, ...]:
    """Zones of the stack's subnets that give no public addresses; () unless all their zones are known."""
    subnets = [r for r in resources if r.type == SUBNET and r.props.get("mapPublicIpOnLaunch") is not True]
    zones = [str(r.props.get("availabilityZone") or "") for r in subnets]
    return tuple(sorted(set(zones))) if zones and all(zones) else ()
