"""Policy documents of IAM: what the API refuses, and permissions for S3 that allow nothing.

For: policies of roles, and trust policies. Not for: who may take a role (role_trust.py), doors that are too wide (aws_exposure.py), or
whether pods have a role at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import AwsResource, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import listed

_VERSIONS = ("2012-10-17", "2008-10-17")
_TOP = ("Id", "Statement", "Version")
_FIELDS = (
    "Action", "Condition", "Effect", "NotAction", "NotPrincipal", "NotResource", "Principal", "Resource", "Sid",
)  # fmt: skip
_ACTION = re.compile(r"\*|[A-Za-z0-9.-]+:[A-Za-z0-9*?]+")
_ARN = re.compile(r"\*|arn:.+")
_OPEN = ("${", "{{", "<")  # what other programs complete
_OF_BUCKETS = ("GetBucketLocation", "ListBucket", "ListBucketMultipartUploads", "ListBucketVersions")
_OF_OBJECTS = (
    "AbortMultipartUpload", "DeleteObject", "GetObject", "GetObjectAttributes", "GetObjectTagging", "GetObjectVersion",
    "ListMultipartUploadParts", "PutObject", "PutObjectTagging",
)  # fmt: skip
# Calls of S3 that are no actions of IAM, and what allows them.
_CALLS: Mapping[str, str] = {
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "GetObject and s3:PutObject",
    "CreateMultipartUpload": "PutObject",
    "DeleteObjects": "DeleteObject",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListParts": "ListMultipartUploadParts",
    "UploadPart": "PutObject",
}


def documents(stack: Stack) -> Iterator[Problem]:
    for resource in stack.aws:
        for what, given, trust in _given(resource):
            for message, mend in _document(given, trust):
                yield error(resource.where, f"its {what} {message}: IAM refuses it (MalformedPolicyDocument)", mend)


def permissions(stack: Stack) -> Iterator[Problem]:
    for resource in stack.aws:
        for what, given, trust in _given(resource):
            for statement in () if trust else _statements(_read(given)):
                if statement.get("Effect") == "Allow":
                    for message, mend in _idle(statement):
                        yield warning(resource.where, f"its {what} {message}", mend)


def _given(resource: AwsResource) -> Iterator[tuple[str, Any, bool]]:
    """(name, document, whether it is a trust policy) of a resource of IAM, as far as they are known."""
    props = mapping(resource.props)
    if resource.type == "aws:iam/role:Role":
        yield "trust policy", props.get("assumeRolePolicy"), True
        for each in map(mapping, items(props.get("inlinePolicies"))):
            yield f"policy '{each.get('name')}'", each.get("policy"), False
    elif resource.type in ("aws:iam/policy:Policy", "aws:iam/rolePolicy:RolePolicy"):
        yield "policy", props.get("policy"), False


def _read(given: Any) -> Any:
    """The document, given as text or as an object; None where it is not known or no JSON. IAM reads its names in any case."""
    try:
        document = json.loads(given) if isinstance(given, str) and given.strip() else given or None
    except json.JSONDecodeError:
        return None
    return _cased(document, _TOP) if document is not None else None


def _cased(given: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
    by = {name.lower(): name for name in known}
    return {by.get(str(name).lower(), str(name)): value for name, value in mapping(given).items()}


def _statements(document: Any) -> list[Mapping[str, Any]]:
    given = mapping(document).get("Statement")
    return [_cased(each, _FIELDS) for each in (given if isinstance(given, list) else [given])]


def _document(given: Any, trust: bool) -> Iterator[tuple[str, str]]:
    document = _read(given)
    if document is None:
        if isinstance(given, str) and given.strip():
            yield "is not JSON", "write it as an object and let it be serialised"
        return
    version = mapping(document).get("Version")
    if version is not None and version not in _VERSIONS:
        yield (
            f"has Version '{version}', which is not a day of one's own",
            f"write {_VERSIONS[0]}, the newest version of the language",
        )
    yield from _names("", mapping(document), _TOP)
    if not mapping(document).get("Statement"):
        yield "has no Statement", "give it one, with Effect, Action and Resource"
        return
    for statement in _statements(document):
        yield from _statement(statement, trust)


def _names(place: str, given: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in given:
        if name not in known:
            near = closest_names(str(name), known, 1)
            yield f"has {place}'{name}', which is no element", f"did you mean '{near[0]}'?" if near else listed(known)


def _statement(statement: Mapping[str, Any], trust: bool) -> Iterator[tuple[str, str]]:
    yield from _names("a statement with ", statement, _FIELDS)
    if str(statement.get("Effect")).capitalize() not in ("Allow", "Deny"):
        yield f"has a statement with Effect {statement.get('Effect')!r}", "write Allow or Deny"
    for key in ("Action", "Resource"):
        if key == "Resource" and trust:
            continue
        if (statement.get(key) is None) == (statement.get(f"Not{key}") is None):
            yield (
                f"has a statement with {'both' if statement.get(key) is not None else 'neither'} {key} and Not{key}",
                f"give one of them, e.g. {key}",
            )
    if trust and (found := [key for key in ("Resource", "NotResource") if key in statement]):
        yield f"has a statement with {listed(found)}", "leave it out: a trust policy is for the role itself"
    principal = statement.get("Principal") is not None or statement.get("NotPrincipal") is not None
    if trust != principal:
        yield (
            ("has a statement without Principal", "say who may take the role")
            if trust
            else ("has a statement with a Principal", "leave it out: the role that has the policy is meant")
        )
    for text in _texts(statement, "Action"):
        if not _ACTION.fullmatch(text) and not text.startswith(_OPEN):
            yield f"names action '{text}'", "write it as service:Action, e.g. s3:GetObject"
    for text in () if trust else _texts(statement, "Resource"):
        if not _ARN.fullmatch(text) and not text.startswith(_OPEN):
            yield (
                f"names resource '{text}', which is no ARN",
                f"write arn:aws:s3:::{text} for a bucket or its objects" if re.fullmatch(r"[a-z0-9.-]+(/.*)?", text) else "write its ARN, or *",
            )  # fmt: skip


def _texts(statement: Mapping[str, Any], key: str) -> list[str]:
    return [
        str(each)
        for name in (key, f"Not{key}")
        for given in [statement.get(name)]
        for each in (given if isinstance(given, list) else [given])
        if each is not None
    ]


def _idle(statement: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Actions of S3 that none of the statement's resources can have."""
    names = [text[3:] for text in _texts(statement, "Action") if text.startswith("s3:")]
    calls = sorted({name for name in names if name in _CALLS})
    if calls:
        yield (
            f"allows {listed(f's3:{name}' for name in calls)}, which {'is a call' if len(calls) == 1 else 'are calls'} of S3 and no action of IAM: it allows nothing",
            f"allow s3:{_CALLS[calls[0]]}",
        )
    resources = [text.split(":", 5)[-1] for text in _texts(statement, "Resource") if text.startswith("arn:")]
    if not resources or len(resources) != len(_texts(statement, "Resource")) or statement.get("NotResource"):
        return
    lost = sorted({name for name in names if name in _OF_OBJECTS})
    if lost and not any("/" in text or text.endswith("*") for text in resources):
        yield (
            f"allows {listed(f's3:{name}' for name in lost)} on {listed(resources)}, a bucket and none of its objects: nothing can be read or written",
            f"add arn:aws:s3:::{resources[0]}/*",
        )
    lost = sorted({name for name in names if name in _OF_BUCKETS})
    if lost and all("/" in text for text in resources):
        bucket = resources[0].partition("/")[0]
        yield (
            f"allows {listed(f's3:{name}' for name in lost)} on {listed(resources)}, objects and no bucket: what lists files before it reads them gets AccessDenied",
            f"add arn:aws:s3:::{bucket}",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="iam-document",
        title="Policy documents are ones that IAM takes",
        why="A document that IAM refuses stops the deployment half way, after the cluster was made. The day in Version is a version of the language, resources are ARNs, and who a policy is for stands in trust policies alone.",
        check=documents,
        sources=(
            "awslabs/mountpoint-s3-csi-driver#172",
            "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html",
        ),
    ),
    Rule(
        id="iam-permissions",
        title="Permissions for S3 are for what they name",
        why="IAM takes s3:ListBucket on objects and s3:GetObject on a bucket, and neither ever applies. Loaders of weights list a folder first: AccessDenied comes when the node is up and the pod starts.",
        check=permissions,
        sources=(
            "meadowdata/meadowrun#121",
            "aws-ia/terraform-aws-bedrock#41",
            "remotely-save/remotely-save#564",
            "https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_policies.html#mismatch_action-no-resource",
        ),
    ),
)
