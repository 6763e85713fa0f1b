"""Roles that EKS gives to pods, by Pod Identity or by service accounts (IRSA): the agent is there, and each role is for its way.

Not for: the form of a trust policy (role_trust.py), or what a role allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from policies.facts import AwsResource, Stack
from policies.facts.aws import ADDON, CLUSTER
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import chart_name, dig
from .auto_mode import auto_clusters
from .role_trust import trusted

AGENT = "eks-pod-identity-agent"
_ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
_PODS = "pods.eks.amazonaws.com"
_ANNOTATION = "eks.amazonaws.com/role-arn"


class _Given(NamedTuple):
    """A role given to pods."""

    where: str
    said_in: str  # the field that names the role
    role: str  # ARN
    pod_identity: bool


def _given(stack: Stack) -> Iterator[_Given]:
    for each in stack.aws:
        props = mapping(each.props)
        if each.type == _ASSOCIATION:
            yield _Given(each.where, "roleArn", str(props.get("roleArn") or ""), True)
        elif each.type == ADDON:
            for one in map(mapping, items(props.get("podIdentityAssociations"))):
                yield _Given(each.where, "podIdentityAssociations", str(one.get("roleArn") or ""), True)
            if props.get("serviceAccountRoleArn"):
                yield _Given(each.where, "serviceAccountRoleArn", str(props["serviceAccountRoleArn"]), False)
    for item in stack.of_kind("ServiceAccount", group="v1"):
        if item.annotations.get(_ANNOTATION):
            yield _Given(item.where, f"annotation {_ANNOTATION}", str(item.annotations[_ANNOTATION]), False)


def agent(stack: Stack) -> Iterator[Problem]:
    associated = [each for each in _given(stack) if each.pod_identity]
    clusters = stack.of_type(CLUSTER)
    there = any(mapping(each.props).get("addonName") == AGENT for each in stack.of_type(ADDON))
    there = there or any(chart_name(release) == AGENT for release in stack.releases)
    if associated and clusters and not there and not auto_clusters(stack):
        yield (error if stack.complete else warning)(
            associated[0].where,
            f"its role is given by Pod Identity, and nothing of this stack puts {AGENT} on {clusters[0].where}: pods find no credentials, or take the node's",
            f"add the add-on {AGENT}",
        )


def ways(stack: Stack) -> Iterator[Problem]:
    given = [each for each in _given(stack) if each.role]
    roles = _roles(stack) if given else {}
    for each in given:
        role = roles.get(each.role) or roles.get(each.role.rpartition("/")[2])
        services, providers = trusted(role) if role is not None else ((), ())
        if role is None or not (services or providers):
            continue
        if each.pod_identity and _PODS not in services:
            yield error(
                each.where,
                f"{role.where} is given by Pod Identity ({each.said_in}), and its trust does not name {_PODS}: EKS refuses the association",
                f"let {_PODS} do sts:AssumeRole and sts:TagSession",
            )
        elif not each.pod_identity and not any(":oidc-provider/" in text for text in providers):
            yield error(
                each.where,
                f"{role.where} is given by {each.said_in}, and its trust names no OIDC provider of a cluster: tokens of service accounts do not get it",
                "associate it by Pod Identity (podIdentityAssociations), or trust the cluster's OIDC provider",
            )


def _roles(stack: Stack) -> dict[str, AwsResource]:
    """Roles that are seen, by ARN and by name."""
    found: dict[str, AwsResource] = {}
    for each in stack.aws:
        if each.type == "aws:iam/role:Role":
            for key in ("arn", "name"):
                if text := dig(each.props, key):
                    found[str(text)] = each
    return found


RULES: tuple[Rule, ...] = (
    Rule(
        id="eks-pod-identity-agent",
        title="Pod Identity has its agent",
        why=(
            "An association is a row in EKS' table. Credentials are handed out by the agent, a DaemonSet that the add-on installs (EKS Auto Mode has it built in); without it "
            "pods wait for an address that nobody answers, or take the node's role."
        ),
        check=agent,
        sources=(
            "karpenter-provider-aws#5784",
            "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html",
        ),
    ),
    Rule(
        id="eks-role-way",
        title="A role is given to pods in the way that its trust allows",
        why=(
            "Pod Identity assumes a role as pods.eks.amazonaws.com, a service account's token comes through the cluster's OIDC provider. A role that trusts the one and is given by the "
            "other is refused when it is created, or by STS in the pod."
        ),
        check=ways,
        sources=(
            "aws-cdk#31522",
            "https://docs.aws.amazon.com/eks/latest/userguide/add-ons-iam.html",
            "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html",
        ),
    ),
)
