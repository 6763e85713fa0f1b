"""Who may come to an EKS cluster: access entries of people and of nodes, and endpoints of the API server.

What is wrong here is refused when it is created, or leaves nodes outside. Not for: what is open to the internet (aws_exposure.py), or
roles that pods take (role_trust.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import listed

_RESERVED = ("system:", "eks:", "aws:", "amazon:", "iam:")
_SESSION = re.compile(r"arn:[^:]+:sts::(\d+):assumed-role/([^/]+)/")
# Entries for nodes: EKS gives them their user name and groups (https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html).
_OF_NODES = ("EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "HYBRID_LINUX", "HYPERPOD_LINUX")
_TYPES = (*_OF_NODES, "EC2", "STANDARD")
_GROUP = "aws:eks/nodeGroup:NodeGroup"
_ENTRY, _POLICY = "aws:eks/accessEntry:AccessEntry", "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"


def entries(stack: Stack) -> Iterator[Problem]:
    modes = _modes(stack)
    for each in stack.of_type(_ENTRY):
        props = mapping(each.props)
        yield from _kind(each.where, props)
        given = [str(group) for group in items(props.get("kubernetesGroups")) if str(group).startswith(_RESERVED)]
        if given:
            yield error(
                each.where,
                f"its groups {listed(given)} are Kubernetes' or EKS' own: EKS refuses the entry",
                "associate an access policy (AmazonEKSClusterAdminPolicy), or bind a group of your own",
            )
        session = _SESSION.match(str(props.get("principalArn") or ""))
        if session:
            yield error(
                each.where,
                f"its principal is a session of role {session[2]}: EKS takes roles and users",
                f"give arn:aws:iam::{session[1]}:role/{session[2]}",
            )
        if modes == ["CONFIG_MAP"]:
            yield error(
                each.where,
                "the cluster's authenticationMode is CONFIG_MAP, which knows no access entries",
                "set authenticationMode to API or API_AND_CONFIG_MAP",
            )


def _modes(stack: Stack) -> list[Any]:
    clusters = stack.of_type("aws:eks/cluster:Cluster")
    return [mapping(mapping(each.props).get("accessConfig")).get("authenticationMode") for each in clusters]


def _kind(where: str, props: Mapping[str, Any]) -> Iterator[Problem]:
    kind, user = str(props.get("type") or "STANDARD"), str(props.get("userName") or "")
    if kind not in _TYPES:
        near = closest_names(kind.upper(), _TYPES, 1)
        yield error(where, f"EKS has no entries of type {kind}", f"use {near[0] if near else listed(_TYPES)}")
    elif kind != "STANDARD" and (user or items(props.get("kubernetesGroups"))):
        yield error(
            where,
            f"it is of type {kind} and states a user name or groups: EKS gives those itself, and refuses the entry",
            "leave userName and kubernetesGroups out",
        )
    elif user.startswith(_RESERVED):
        yield error(where, f"its user name '{user}' is Kubernetes' or EKS' own: EKS refuses the entry", "give another")


def nodes(stack: Stack) -> Iterator[Problem]:
    """The entry of the nodes' role, where the role is seen."""
    kinds = {
        str(mapping(each.props).get("principalArn") or ""): (each, str(mapping(each.props).get("type") or "STANDARD"))
        for each in stack.of_type(_ENTRY)
    }
    modes = _modes(stack)
    # A managed node group brings the entry of its role.
    arns = [*kinds, *(str(mapping(each.props).get("nodeRoleArn") or "") for each in stack.of_type(_GROUP))]
    all_known = all(":role/" in arn for arn in arns)
    for item in stack.of_kind("EC2NodeClass", group="karpenter.k8s.aws/"):
        role = str(item.spec.get("role") or "")
        for arn, (entry, kind) in kinds.items() if role else ():
            if arn.rpartition("/")[2] == role and kind not in ("EC2_LINUX", "EC2_WINDOWS"):
                yield error(
                    entry.where,
                    f"it is of type {kind} and {item.where} starts nodes with this role: the API server does not let them in, and they stay outside",
                    "set type: EC2_LINUX, without groups",
                )
        absent = bool(role) and not any(arn.rpartition("/")[2] == role for arn in arns)
        if absent and all_known and modes == ["API"]:
            yield warning(
                item.where,
                f"it starts nodes with role {role}, for which no access entry is seen, and the cluster takes nobody without one (authenticationMode API): they do not join",
                "add an access entry of type EC2_LINUX for the role",
            )
    for each in stack.of_type(_POLICY):
        found = kinds.get(str(mapping(each.props).get("principalArn") or ""))
        if found and found[1] in _OF_NODES:
            yield error(
                each.where,
                f"the entry of its principal is of type {found[1]}, which takes no access policies",
                "associate policies with entries of type STANDARD (people) or EC2 (nodes of EKS Auto Mode)",
            )


def endpoints(stack: Stack) -> Iterator[Problem]:
    for each in stack.aws:
        vpc = mapping(mapping(each.props).get("vpcConfig"))
        closed = vpc.get("endpointPublicAccess") is False and vpc.get("endpointPrivateAccess") is False
        if each.type == "aws:eks/cluster:Cluster" and closed:
            yield error(
                each.where,
                "endpointPublicAccess and endpointPrivateAccess are false: EKS refuses a cluster that nobody reaches",
                "set endpointPrivateAccess: true",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="eks-access-entry",
        title="Access entries are ones that EKS takes",
        why=(
            "Groups that begin with system: or eks: cannot be given by an access entry, which is where people come from who wrote them into aws-auth; a role's session "
            "is not the role; and a cluster that only reads aws-auth has no entries. Entries for nodes have neither groups nor a user name."
        ),
        check=entries,
        sources=(
            "terraform-aws-modules/terraform-aws-eks#2915",
            "terraform-aws-modules/terraform-aws-eks#3413",
            "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html",
            "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html",
        ),
    ),
    Rule(
        id="eks-node-entry",
        title="Nodes have an entry for nodes",
        why=(
            "An entry of type EC2_LINUX gives a node's role the groups that kubelets need. With a STANDARD one the instances run and are paid for, and no node appears; access "
            "policies are for people and for EKS Auto Mode."
        ),
        check=nodes,
        sources=(
            "karpenter-provider-aws#7558",
            "awslabs/ai-on-eks#111",
            "terraform-aws-modules/terraform-aws-eks#3274",
            "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html",
        ),
    ),
    Rule(
        id="eks-endpoint",
        title="The API server has an endpoint",
        why="With both endpoints off nobody, nodes included, would reach the API server; EKS refuses it when the cluster is created.",
        check=endpoints,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html",),
    ),
)
