"""EKS Auto Mode: what its cluster must say to be made, and the NodeClass and labels that its own Karpenter reads.

Auto Mode brings a Karpenter with a class and with labels of group eks.amazonaws.com; an EC2NodeClass is nobody's there. Not for: a
Karpenter that one installs oneself (karpenter*.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import AwsResource, Object, Stack
from policies.facts.aws import CLUSTER
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error

from ._values import chart_name, dig, listed

_OWN, _AUTO = "karpenter.k8s.aws", "eks.amazonaws.com"
_CLASSES = {_OWN: "EC2NodeClass", _AUTO: "NodeClass"}
_BUILT_IN = ("general-purpose", "system")
_SWITCHES = (
    ("computeConfig", "enabled"),
    ("kubernetesNetworkConfig", "elasticLoadBalancing", "enabled"),
    ("storageConfig", "blockStorage", "enabled"),
)


def auto_clusters(stack: Stack) -> list[AwsResource]:
    """EKS clusters of the stack that are in Auto Mode."""
    return [each for each in stack.of_type(CLUSTER) if dig(each.props, *_SWITCHES[0]) is True]


def clusters(stack: Stack) -> Iterator[Problem]:
    for each in auto_clusters(stack):
        off = [".".join(path) for path in _SWITCHES if dig(each.props, *path) is not True]
        if off:
            yield error(
                each.where,
                f"computeConfig.enabled is true and {listed(off)} {'is' if len(off) == 1 else 'are'} not: EKS takes all three switches of Auto Mode, or none",
                f"set {', '.join(off)} to true",
            )
        pools = [str(name) for name in items(dig(each.props, "computeConfig", "nodePools"))]
        for name in pools:
            if name not in _BUILT_IN:
                near = closest_names(name, _BUILT_IN, 1)
                yield error(
                    each.where,
                    f"Auto Mode has no node pool '{name}' of its own, only {' and '.join(_BUILT_IN)}: EKS refuses the cluster",
                    f"did you mean '{near[0]}'?" if near else "declare it as a NodePool in the cluster",
                )
        role = bool(dig(each.props, "computeConfig", "nodeRoleArn"))
        if role != bool(pools):
            has, lacks = ("nodeRoleArn", "nodePools") if role else ("nodePools", "nodeRoleArn")
            yield error(
                each.where,
                f"its computeConfig has {has} and no {lacks}: EKS takes both or neither",
                f"give {lacks}, or leave {has} out and name the role in NodeClasses",
            )
        if mapping(each.props).get("bootstrapSelfManagedAddons") is not False:
            yield error(
                each.where,
                "it is in Auto Mode and bootstrapSelfManagedAddons is not false: EKS refuses to make the cluster, since Auto Mode brings network, proxy and DNS itself",
                "set bootstrapSelfManagedAddons: false",
            )
        if dig(each.props, "accessConfig", "authenticationMode") == "CONFIG_MAP":
            yield error(
                each.where,
                "it is in Auto Mode and its authenticationMode is CONFIG_MAP: nodes of Auto Mode come in by access entries",
                "set authenticationMode to API or API_AND_CONFIG_MAP",
            )


def objects(stack: Stack) -> Iterator[Problem]:
    pools = stack.of_kind("NodePool", group="karpenter.sh/")
    for pool in pools:
        yield from _class_of(pool)
    # A Karpenter of one's own may run beside Auto Mode, and then reads its classes.
    own = any(chart_name(release) == "karpenter" for release in stack.releases)
    if own or not auto_clusters(stack):
        return
    for item in (*stack.of_kind("EC2NodeClass", group=f"{_OWN}/"), *pools):
        if item.kind == "EC2NodeClass" or _group(item) == _OWN:
            what = "it is an EC2NodeClass" if item.kind == "EC2NodeClass" else "its nodeClassRef names an EC2NodeClass"
            yield error(
                item.where,
                f"{what} and the cluster is in EKS Auto Mode, whose Karpenter reads NodeClasses of {_AUTO}/v1 alone: no node is started",
                f"use a NodeClass of {_AUTO} (nodeClassRef: {{group: {_AUTO}, kind: NodeClass, name: default}})",
            )
    for workload in stack.workloads:
        for group in workload.pod_groups:
            strange = sorted(key for key in group.node_selector if key.startswith(f"{_OWN}/instance-"))
            if strange:
                yield error(
                    group.where,
                    f"it selects nodes by {listed(strange)}, and nodes of Auto Mode have {_AUTO}/instance-*: it stays pending",
                    f"write {strange[0].replace(_OWN, _AUTO)}",
                )


def _template(pool: Object) -> Mapping[str, Any]:
    return mapping(dig(pool.spec, "template", "spec"))


def _group(pool: Object) -> str:
    return str(mapping(_template(pool).get("nodeClassRef")).get("group") or "")


def _class_of(pool: Object) -> Iterator[Problem]:
    """A pool's class is of its group's kind, and its requirements are in the words of the Karpenter that reads it."""
    given = mapping(_template(pool).get("nodeClassRef"))
    group, kind = _group(pool), given.get("kind")
    if group not in _CLASSES:
        return
    if kind and kind != _CLASSES[group]:
        yield error(
            pool.where,
            f"its nodeClassRef has group {group} and kind {kind}: the pool is never ready",
            f"{group} has {_CLASSES[group]}" + (f", EKS Auto Mode's is {_AUTO} NodeClass" if group == _OWN else ""),
        )
    other = _AUTO if group == _OWN else _OWN
    for each in map(mapping, items(_template(pool).get("requirements"))):
        key = str(each.get("key") or "")
        if key.startswith(f"{other}/instance-"):
            reader = "EKS Auto Mode" if group == _AUTO else "a Karpenter of one's own"
            yield error(
                pool.where,
                f"its requirement {key} is no label of {reader}, which knows {group}/instance-*: no instance is chosen by it",
                f"write {key.replace(other, group)}",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="eks-auto-mode",
        title="A cluster in Auto Mode says all that Auto Mode needs",
        why=(
            "Compute, load balancing and block storage are switched on together, the built-in pools and their role are given together, and EKS must not install the add-ons that Auto "
            "Mode brings. Each is refused when the cluster is created."
        ),
        check=clusters,
        sources=(
            "terraform-aws-modules/terraform-aws-eks#3496",
            "https://docs.aws.amazon.com/eks/latest/APIReference/API_ComputeConfigRequest.html",
            "https://docs.aws.amazon.com/eks/latest/userguide/automode-get-started-cli.html",
        ),
    ),
    Rule(
        id="eks-auto-mode-objects",
        title="Pools are written for the Karpenter that reads them",
        why=(
            "EKS Auto Mode reads NodeClass and labels of group eks.amazonaws.com, a Karpenter of one's own EC2NodeClass and labels of karpenter.k8s.aws. The API server takes either, where "
            "its CRD is there, and nothing starts."
        ),
        check=objects,
        sources=(
            "awsdocs/amazon-eks-user-guide PR#1250",
            "awslabs/startups PR#247",
            "https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html",
            "https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html",
        ),
    ),
)
