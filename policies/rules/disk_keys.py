"""Keys of KMS that encrypt the disks of nodes: Auto Scaling starts the nodes of a group and needs the key itself.

Not for: how large disks are (pool_disk.py), or keys of secrets in the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import AwsResource, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error

from .node_group import groups
from .role_trust import statements

_KEY, _GRANT = "aws:kms/key:Key", "aws:kms/grant:Grant"
_SCALING = "AWSServiceRoleForAutoScaling"


def keys(stack: Stack) -> Iterator[Problem]:
    seen = {name: each for each in stack.aws if each.type == _KEY for name in _names(each)}
    granted = {
        str(mapping(each.props).get("keyId"))
        for each in stack.aws
        if each.type == _GRANT and _SCALING in str(mapping(each.props).get("granteePrincipal"))
    }
    for group in groups(stack) if seen else ():
        for disk in map(mapping, items(mapping(group.template).get("blockDeviceMappings"))):
            name = str(mapping(disk.get("ebs")).get("kmsKeyId") or "")
            key = seen.get(name) or seen.get(name.rpartition("/")[2])
            if key is None or granted & set(_names(key)) or not _known(key) or _lets(key):
                continue
            yield error(
                group.where,
                f"its disks are encrypted by {key.where}, whose policy does not let {_SCALING} use it: instances end as they start (Client.InvalidKMSKey.InvalidState)",
                f"let {_SCALING} encrypt, decrypt, generate data keys and create grants in the key's policy",
            )


def _names(key: AwsResource) -> list[str]:
    props = mapping(key.props)
    arn = str(props.get("arn") or "")
    return [text for text in (arn, arn.rpartition("/")[2], str(props.get("keyId") or "")) if text]


def _known(key: AwsResource) -> bool:
    """Whether the policy can be read; a key without one has the account's, which leaves roles of services to themselves."""
    policy = mapping(key.props).get("policy")
    if not isinstance(policy, str):
        return policy is None or isinstance(policy, Mapping)
    try:
        return isinstance(json.loads(policy), dict)
    except json.JSONDecodeError:
        return False


def _lets(key: AwsResource) -> bool:
    for each in statements(mapping(key.props).get("policy")):
        who: Any = each.get("Principal")
        named = json.dumps(who)
        # A statement for everybody is narrowed by kms:ViaService, and Auto Scaling comes through EC2.
        if each.get("Effect") == "Allow" and (_SCALING in named or who == "*" or mapping(who).get("AWS") == "*"):
            return True
    return False


RULES: tuple[Rule, ...] = (
    Rule(
        id="pool-disk-key",
        title="Auto Scaling may use the key of the nodes' disks",
        why=(
            "Instances of a node group are started by Auto Scaling's service-linked role, whose own policy cannot be changed. A key of one's own has to name that role; the account's root in "
            "the key's policy does not stand for it. The instances end while they start, and the group fails after half an hour."
        ),
        check=keys,
        sources=(
            "aws-cdk#34491",
            "eksctl-io/eksctl#952",
            "https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html",
        ),
    ),
)
