"""Who may take an IAM role that is made for pods: trust policies of Pod Identity and of service accounts (IRSA).

A role that cannot be taken is found by a pod whose node was paid for. Not for: what the role then allows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from policies.facts import AwsResource, Stack
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, error

from ._values import listed

_ROLE = "aws:iam/role:Role"
_POD_IDENTITY = "pods.eks.amazonaws.com"
_NEEDED = ("sts:AssumeRole", "sts:TagSession")
_WEB_IDENTITY = "sts:AssumeRoleWithWebIdentity"
_EXACT = ("ForAllValues:StringEquals", "ForAnyValue:StringEquals", "StringEquals", "StringEqualsIgnoreCase")


def pod_identity(stack: Stack) -> Iterator[Problem]:
    for role, statement in _allowed(stack):
        if _POD_IDENTITY not in _texts(mapping(statement.get("Principal")).get("Service")):
            continue
        actions = _texts(statement.get("Action"))
        lacks = [action for action in _NEEDED if not {action, "sts:*", "*"} & set(actions)]
        if lacks:
            yield error(
                role.where,
                f"it is for Pod Identity and its trust lacks {' and '.join(lacks)}: pods get no credentials (AccessDenied)",
                f"allow {' and '.join(_NEEDED)} to {_POD_IDENTITY}",
            )


def service_accounts(stack: Stack) -> Iterator[Problem]:
    for role, statement in _allowed(stack):
        providers = [
            text for text in _texts(mapping(statement.get("Principal")).get("Federated")) if ":oidc-provider/" in text
        ]
        if not providers:
            continue
        actions = _texts(statement.get("Action"))
        if actions and not {_WEB_IDENTITY, "sts:*", "*"} & set(actions):
            yield error(
                role.where,
                f"its trust names an OIDC provider and allows {listed(actions)}: service accounts come by {_WEB_IDENTITY}",
                f"allow {_WEB_IDENTITY}",
            )
        for operator, compared in mapping(statement.get("Condition")).items():
            for key, value in mapping(compared).items() if operator in _EXACT else ():
                wild = [text for text in _texts(value) if "*" in text or "?" in text]
                if wild:
                    yield error(
                        role.where,
                        f"its trust compares {key.rpartition(':')[2]} with {listed(wild)} by {operator}, which takes * for a letter: no service account has that name",
                        "use StringLike for names with *, or write the name out",
                    )
        yield from _subjects(role, statement)


def _subjects(role: AwsResource, statement: Mapping[str, Any]) -> Iterator[Problem]:
    for compared in mapping(statement.get("Condition")).values():
        for key, value in mapping(compared).items():
            for text in _texts(value) if str(key).endswith(":sub") else ():
                parts = text.split(":")
                if "*" not in text and (len(parts) != 4 or parts[:2] != ["system", "serviceaccount"]):
                    yield error(
                        role.where,
                        f"its trust is for subject '{text}', and service accounts are system:serviceaccount:<namespace>:<name>: no pod gets the role",
                        "write system:serviceaccount:<namespace>:<name>",
                    )


def named(stack: Stack) -> Iterator[Problem]:
    """Service accounts that name a role, and the subjects that its trust lets in."""
    roles = {str(mapping(each.props).get("arn") or ""): each for each in stack.of_type(_ROLE)}
    for item in stack.of_kind("ServiceAccount"):
        role = roles.get(str(item.annotations.get("eks.amazonaws.com/role-arn") or "none"))
        subjects = _let_in(role) if role is not None else []
        mine = f"system:serviceaccount:{item.namespace}:{item.name}"
        if role is not None and subjects and not any(fnmatchcase(mine, pattern) for pattern in subjects):
            yield error(
                item.where,
                f"it names {role.where}, whose trust lets in {listed(subjects)}: its pods get AccessDenied (AssumeRoleWithWebIdentity)",
                f"let {mine} in, or name the role on the account that it is for",
            )


def _let_in(role: AwsResource) -> list[str]:
    """Subjects of all statements; none where one takes any."""
    found: list[str] = []
    for statement in statements(mapping(role.props).get("assumeRolePolicy")):
        if statement.get("Effect") != "Allow" or not mapping(statement.get("Principal")).get("Federated"):
            continue
        here = [
            text
            for compared in mapping(statement.get("Condition")).values()
            for key, value in mapping(compared).items()
            if str(key).endswith(":sub")
            for text in _texts(value)
        ]
        if not here:
            return []
        found += here
    return found


def trusted(role: AwsResource) -> tuple[list[str], list[str]]:
    """(services, identity providers) that a role's trust policy lets in; both empty where it is not known."""
    found = [
        mapping(statement.get("Principal"))
        for statement in statements(mapping(role.props).get("assumeRolePolicy"))
        if statement.get("Effect") == "Allow"
    ]
    return [t for each in found for t in _texts(each.get("Service"))], [
        t for each in found for t in _texts(each.get("Federated"))
    ]


def _allowed(stack: Stack) -> Iterator[tuple[AwsResource, Mapping[str, Any]]]:
    for each in stack.of_type(_ROLE):
        for statement in statements(mapping(each.props).get("assumeRolePolicy")):
            if statement.get("Effect") == "Allow":
                yield each, statement


def statements(policy: Any) -> Iterator[Mapping[str, Any]]:
    """Statements of an IAM policy, as text or as an object."""
    if isinstance(policy, str):
        try:
            policy = json.loads(policy)
        except json.JSONDecodeError:
            return
    given = mapping(policy).get("Statement")
    yield from (mapping(each) for each in (given if isinstance(given, list) else [given]))


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [] if value is None else [str(value)]


RULES: tuple[Rule, ...] = (
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
        id="eks-service-account-role",
        title="A role for service accounts can be taken by one",
        why=(
            "A pod's token names its service account as system:serviceaccount:<namespace>:<name>, and STS compares it with the trust policy. StringEquals knows no wildcard; "
            "a subject in another form, or another action, fits no token. The pod gets AccessDenied, or the node's role in its place."
        ),
        check=service_accounts,
        sources=(
            "mountpoint-s3-csi-driver#300",
            "https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html",
        ),
    ),
    Rule(
        id="eks-service-account-trust",
        title="A service account is one that its role lets in",
        why="The annotation only tells pods which role to ask for. STS compares namespace and name of the account with the role's trust, and one letter apart is another account.",
        check=named,
        sources=("awslabs/data-on-eks#338",),
    ),
)
