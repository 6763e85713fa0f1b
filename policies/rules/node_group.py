"""EKS node groups as the API takes them: with a launch template some settings belong there, others must not be in it.

The API answers InvalidParameterException when the group is created, after the cluster was made. Judged where node groups are seen as
resources. Not for: sizes, images and types of a pool, whoever declared it (pool_*.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import AwsResource, Stack
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, error

from ._values import listed, version

_GROUP, _CLUSTER = "aws:eks/nodeGroup:NodeGroup", "aws:eks/cluster:Cluster"
_TEMPLATES = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
_CHOICES = {"capacityType": ("CAPACITY_BLOCK", "ON_DEMAND", "SPOT")}
_EFFECTS = ("NO_EXECUTE", "NO_SCHEDULE", "PREFER_NO_SCHEDULE")
# Kubernetes takes kubelets of up to three minors less than the API server's (version skew policy, 1.28 and newer).
_SKEW = 3


def groups(stack: Stack) -> Iterator[AwsResource]:
    yield from (each for each in stack.aws if each.type == _GROUP)


def template(stack: Stack) -> Iterator[Problem]:
    for group in groups(stack):
        props = mapping(group.props)
        yield from _block(group, props)
        if props.get("launchTemplate") is None:
            continue
        for key, there in (("diskSize", "blockDeviceMappings"), ("remoteAccess", "keyName and security groups")):
            if props.get(key):
                yield error(
                    group.where,
                    f"it has a launch template and {key}: EKS takes that from the template alone and refuses the group",
                    f"leave {key} out, and set {there} in the template",
                )
        if group.template is not None:
            yield from _both(group.where, props, group.template)
            yield from _not_there(group.where, group.template)
            yield from _interfaces(group.where, group.template)


def _block(group: AwsResource, props: Mapping[str, Any]) -> Iterator[Problem]:
    """A capacity block is named in the template: market, reservation and type."""
    if props.get("capacityType") != "CAPACITY_BLOCK":
        return
    spec = group.template
    if props.get("launchTemplate") is not None and spec is None:
        return
    given = mapping(spec)
    target = mapping(mapping(given.get("capacityReservationSpecification")).get("capacityReservationTarget"))
    missing = [
        name
        for name, there in (
            (
                "instanceMarketOptions.marketType capacity-block",
                # Without a market type it is not known yet; without options there is none.
                mapping(given.get("instanceMarketOptions")).get("marketType", "capacity-block") == "capacity-block"
                and "instanceMarketOptions" in given,
            ),
            ("capacityReservationTarget", bool(target)),
            ("instanceType", bool(given.get("instanceType"))),
        )
        if not there
    ]
    if missing:
        yield error(
            group.where,
            f"capacityType is CAPACITY_BLOCK and {'its launch template' if spec is not None else 'it has no launch template that'} "
            f"{'lacks' if spec is not None else 'says'} {', '.join(missing)}",
            "name the block in a launch template: its market, its reservation and its instance type",
        )


def _both(where: str, props: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Problem]:
    if spec.get("instanceType") and props.get("instanceTypes"):
        yield error(
            where,
            f"instance types are in the group ({listed(items(props['instanceTypes']))}) and in its launch template ({spec['instanceType']}): EKS refuses both",
            "keep them in the group, or one in the template",
        )
    if spec.get("imageId"):
        given = [key for key in ("version", "releaseVersion") if props.get(key)]
        if given:
            yield error(
                where,
                f"its launch template names an image of its own and the group has {' and '.join(given)}: EKS refuses both",
                f"leave {' and '.join(given)} out",
            )
        if not spec.get("userData"):
            yield error(
                where,
                "its launch template names an image of its own and has no user data: nothing tells the node of its cluster, and it never joins",
                "add user data that starts nodeadm or the bootstrap script with the cluster's name, endpoint and certificate",
            )


def _not_there(where: str, spec: Mapping[str, Any]) -> Iterator[Problem]:
    """What EKS sets by itself."""
    market = str(mapping(spec.get("instanceMarketOptions")).get("marketType") or "")
    subnets = [each for each in map(mapping, items(spec.get("networkInterfaces"))) if each.get("subnetId")]
    for found, name, mend in (
        (bool(spec.get("iamInstanceProfile")), "an instance profile", "give the group a nodeRoleArn"),
        (market == "spot", "a spot request", "set the group's capacityType to SPOT"),
        (bool(subnets), "subnets of network interfaces", "give the group subnetIds"),
        (
            mapping(spec.get("hibernationOptions")).get("configured") is True,
            "hibernation",
            "leave hibernationOptions out",
        ),
        (
            spec.get("instanceInitiatedShutdownBehavior") == "stop",
            "a shutdown behaviour",
            "leave instanceInitiatedShutdownBehavior out",
        ),
    ):
        if found:
            yield error(where, f"its launch template has {name}, which EKS sets itself: it refuses the group", mend)


def _interfaces(where: str, spec: Mapping[str, Any]) -> Iterator[Problem]:
    cards = [mapping(each) for each in items(spec.get("networkInterfaces"))]
    if cards and (spec.get("vpcSecurityGroupIds") or spec.get("securityGroupNames")):
        yield error(
            where,
            "its launch template has network interfaces and security groups beside them: EC2 takes them in one place",
            "put the security groups into each network interface",
        )
    if len(cards) > 1 and any(str(card.get("associatePublicIpAddress")).lower() == "true" for card in cards):
        yield error(
            where,
            f"its launch template has {len(cards)} network interfaces and asks for a public address: EC2 gives one to instances with a single interface only",
            "leave associatePublicIpAddress out, and use private subnets",
        )
    places = Counter((whole(c.get("networkCardIndex")) or 0, whole(c.get("deviceIndex")) or 0) for c in cards)
    for (card, device), count in places.items():
        if count > 1:
            yield error(
                where,
                f"{count} network interfaces of its launch template are device {device} of network card {card}",
                "number them: device 0 on card 0, device 1 on every other card",
            )


def values(stack: Stack) -> Iterator[Problem]:
    for group in groups(stack):
        props = mapping(group.props)
        for key, allowed in _CHOICES.items():
            given = props.get(key)
            if given is not None and given not in allowed:
                yield error(group.where, f"{key} is '{given}'; allowed: {', '.join(allowed)}", _near(given, allowed))
        for taint in map(mapping, items(props.get("taints"))):
            effect = taint.get("effect")
            if effect is not None and effect not in _EFFECTS:
                yield error(
                    group.where,
                    f"effect of taint '{taint.get('key')}' is '{effect}', and EKS writes {', '.join(_EFFECTS)}",
                    _near(effect, _EFFECTS),
                )
        update = mapping(props.get("updateConfig"))
        if update.get("maxUnavailable") and update.get("maxUnavailablePercentage"):
            yield error(
                group.where, "updateConfig has maxUnavailable and maxUnavailablePercentage: EKS takes one", "keep one"
            )


def _near(given: object, allowed: tuple[str, ...]) -> str:
    plain = {each.replace("_", "").casefold(): each for each in allowed}
    near = plain.get(str(given).replace("_", "").replace("-", "").casefold())
    found = near or next(iter(closest_names(str(given), allowed, 1)), None)
    return f"write {found}" if found else f"use one of {', '.join(allowed)}"


def versions(stack: Stack) -> Iterator[Problem]:
    stated = {str(each.props["version"]) for each in stack.aws if each.type == _CLUSTER and each.props.get("version")}
    cluster = version(stated.pop()) if len(stated) == 1 else None
    if cluster is None or len(cluster) < 2:
        return
    for group in groups(stack):
        given = version(mapping(group.props).get("version"))
        if given is None or len(given) < 2 or given[0] != cluster[0]:
            continue
        shown = f"{cluster[0]}.{cluster[1]}"
        if given[1] > cluster[1]:
            yield error(
                group.where,
                f"its nodes are of Kubernetes {given[0]}.{given[1]} and the cluster of {shown}: nodes are never newer than their cluster",
                "upgrade the cluster first, or leave version out",
            )
        elif cluster[1] - given[1] > _SKEW:
            yield error(
                group.where,
                f"its nodes are of Kubernetes {given[0]}.{given[1]} and the cluster of {shown}: a kubelet may be {_SKEW} minors older",
                f"set version to {cluster[0]}.{cluster[1] - _SKEW} or newer, or leave it out",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="node-group-template",
        title="A node group and its launch template do not say the same twice",
        why=(
            "With a launch template disk, keys and one instance type belong there, and role, subnets, market and shutdown belong to the group. EKS refuses the "
            "group that mixes them, when it is created."
        ),
        check=template,
        sources=(
            _TEMPLATES,
            "https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html",
            "pulumi-eks#1228",
            "terraform-aws-modules/terraform-aws-eks#2219",
            "crossplane-contrib/provider-upjet-aws#866",
        ),
    ),
    Rule(
        id="node-group-values",
        title="A node group's settings have values that EKS takes",
        why="EKS writes the effects of taints in its own way (NO_SCHEDULE) and knows three capacity types; others are refused when the group is created.",
        check=values,
        sources=("https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html",),
    ),
    Rule(
        id="node-group-version",
        title="Nodes are of the cluster's Kubernetes, or up to three minors older",
        why="A kubelet that is newer than the API server, or too old for it, is not supported; EKS refuses the group or the upgrade of the cluster.",
        check=versions,
        sources=("https://kubernetes.io/releases/version-skew-policy/",),
    ),
)
