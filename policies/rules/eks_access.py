"""Who may do what on an EKS cluster: access entries, roles for Pod Identity, endpoints of the API server, names of add-ons.

What is wrong here is refused when it is created, or found when a pod asks AWS for something. Not for: what is open to the internet
(aws_exposure.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error

from ._values import listed

_RESERVED = ("system:", "eks:", "aws:", "amazon:", "iam:")
_SESSION = re.compile(r"arn:[^:]+:sts::(\d+):assumed-role/([^/]+)/")
_POD_IDENTITY = "pods.eks.amazonaws.com"
_NEEDED = ("sts:AssumeRole", "sts:TagSession")
# Add-ons of AWS and of the community (https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html). Vendors have
# others, so only a name that is nearly one of these is a mistake.
ADDONS = (
    "adot",
    "amazon-cloudwatch-observability",
    "aws-ebs-csi-driver",
    "aws-efs-csi-driver",
    "aws-fsx-csi-driver",
    "aws-guardduty-agent",
    "aws-mountpoint-s3-csi-driver",
    "aws-network-flow-monitoring-agent",
    "aws-privateca-connector-for-kubernetes",
    "aws-secrets-store-csi-driver-provider",
    "cert-manager",
    "coredns",
    "eks-node-monitoring-agent",
    "eks-pod-identity-agent",
    "external-dns",
    "fluent-bit",
    "kube-proxy",
    "kube-state-metrics",
    "metrics-server",
    "prometheus-node-exporter",
    "snapshot-controller",
    "vpc-cni",
)


def entries(stack: Stack) -> Iterator[Problem]:
    modes = [
        mapping(mapping(each.props).get("accessConfig")).get("authenticationMode")
        for each in stack.aws
        if each.type == "aws:eks/cluster:Cluster"
    ]
    for each in stack.aws:
        if each.type != "aws:eks/accessEntry:AccessEntry":
            continue
        props = mapping(each.props)
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


def pod_identity(stack: Stack) -> Iterator[Problem]:
    for each in stack.aws:
        if each.type != "aws:iam/role:Role":
            continue
        for statement in _statements(mapping(each.props).get("assumeRolePolicy")):
            if statement.get("Effect") != "Allow" or _POD_IDENTITY not in _texts(
                mapping(statement.get("Principal")).get("Service")
            ):
                continue
            actions = _texts(statement.get("Action"))
            lacks = [action for action in _NEEDED if not {action, "sts:*", "*"} & set(actions)]
            if lacks:
                yield error(
                    each.where,
                    f"it is for Pod Identity and its trust lacks {' and '.join(lacks)}: pods get no credentials (AccessDenied)",
                    f"allow {' and '.join(_NEEDED)} to {_POD_IDENTITY}",
                )


def _statements(policy: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(policy, str):
        try:
            policy = json.loads(policy)
        except json.JSONDecodeError:
            return
    given = mapping(policy).get("Statement")
    yield from (mapping(each) for each in (given if isinstance(given, list) else [given]))


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [] if value is None else [str(value)]


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


def addons(stack: Stack) -> Iterator[Problem]:
    for each in stack.aws:
        if each.type != "aws:eks/addon:Addon":
            continue
        name = str(mapping(each.props).get("addonName") or "")
        near = [] if name in ADDONS or "_" in name else [n for n in closest_names(name, ADDONS, 1) if _alike(name, n)]
        if near:
            yield error(each.where, f"EKS has no add-on '{name}'", f"did you mean '{near[0]}'?")


def _alike(given: str, name: str) -> bool:
    """Whether one is the other with a letter or two wrong: longer differences are another vendor's add-on."""
    import difflib

    return difflib.SequenceMatcher(None, given, name).ratio() > 0.88


RULES: tuple[Rule, ...] = (
    Rule(
        id="eks-access-entry",
        title="Access entries are ones that EKS takes",
        why=(
            "Groups that begin with system: or eks: cannot be given by an access entry, which is where people come from who wrote them into aws-auth; a role's session "
            "is not the role; and a cluster that only reads aws-auth has no entries."
        ),
        check=entries,
        sources=(
            "terraform-aws-modules/terraform-aws-eks#2915",
            "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html",
            "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html",
        ),
    ),
    Rule(
        id="eks-pod-identity",
        title="A role for Pod Identity lets itself be tagged",
        why=(
            "The agent assumes a role with session tags (cluster, namespace, service account). A trust policy without sts:TagSession refuses that, and pods find no "
            "credentials, after their node was paid for."
        ),
        check=pod_identity,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html",),
    ),
    Rule(
        id="eks-endpoint",
        title="The API server has an endpoint",
        why="With both endpoints off nobody, nodes included, would reach the API server; EKS refuses it when the cluster is created.",
        check=endpoints,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html",),
    ),
    Rule(
        id="eks-addon-name",
        title="Add-ons are ones that EKS has",
        why="A mistyped add-on is found after the cluster was made, which takes a quarter of an hour.",
        check=addons,
        sources=("https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html",),
    ),
)
