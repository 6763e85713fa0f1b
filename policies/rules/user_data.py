"""User data of EKS nodes: written for the system of the node's image, and complete where EKS adds nothing to it.

A node that starts with the wrong one is paid for and never joins. Not for: whether there is any (node_group.py), or disks (pool_disk.py).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from policies.facts import AwsResource, Stack
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, error, warning

from ._values import listed
from .node_group import groups

_AL2_SCRIPT = "/etc/eks/bootstrap.sh"
_NODE_CONFIG = re.compile(r"^kind:\s*NodeConfig\s*$", re.MULTILINE)
_PARTS = re.compile(r"^--[^\n]*$", re.MULTILINE)  # boundaries of a multipart message
_NEEDED = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")
# What starts a kubelet by other means; an image may also do it by itself.
_OTHERS = ("nodeadm", "settings.kubernetes", "kubelet", "[settings")


def user_data(stack: Stack) -> Iterator[Problem]:
    for group in groups(stack):
        spec = mapping(group.template)
        text = _text(spec.get("userData"))
        if text is None:
            continue
        ami = str(mapping(group.props).get("amiType") or "")
        if ami.startswith("AL2023") and _AL2_SCRIPT in text:
            yield error(
                group.where,
                f"its user data runs {_AL2_SCRIPT}, which Amazon Linux 2023 does not have: nodes start with nodeadm and none of these settings",
                "write them as a NodeConfig (node.eks.aws/v1alpha1), e.g. spec.kubelet.config.maxPods",
            )
        if spec.get("imageId"):
            yield from _of_own_image(group, text)


def _text(given: Any) -> str | None:
    """Decoded user data; None where it is not known, or not text."""
    try:
        return base64.b64decode(str(given or ""), validate=True).decode("utf-8") or None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _of_own_image(group: AwsResource, text: str) -> Iterator[Problem]:
    """EKS merges nothing into the user data of an image that it does not know."""
    if _NODE_CONFIG.search(text):
        lacks = [key for key in _NEEDED if not any(_cluster(part).get(key) for part in _configs(text))]
        if lacks:
            yield error(
                group.where,
                f"its launch template names an image of its own, and the NodeConfig of its user data lacks {listed(f'cluster.{key}' for key in lacks)}: "
                "nodeadm ends, and the node never joins",
                "give the cluster's name, apiServerEndpoint, certificateAuthority and cidr",
            )
    elif _AL2_SCRIPT not in text and not any(word in text for word in _OTHERS):
        yield warning(
            group.where,
            "its launch template names an image of its own, and its user data has neither a NodeConfig nor a bootstrap script: the node joins only if the image starts by itself",
            "add a NodeConfig with the cluster's name, apiServerEndpoint, certificateAuthority and cidr",
        )


def _configs(text: str) -> Iterator[Mapping[str, Any]]:
    for part in _PARTS.split(text):
        if not _NODE_CONFIG.search(part):
            continue
        # A part of a multipart message has headers, and an empty line before its text.
        body = part[part.index("apiVersion:") :] if "apiVersion:" in part else part
        try:
            for document in yaml.safe_load_all(body):
                yield mapping(document)
        except yaml.YAMLError:
            continue


def _cluster(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(config.get("spec")).get("cluster"))


RULES: tuple[Rule, ...] = (
    Rule(
        id="node-user-data",
        title="User data is for the image that reads it",
        why=(
            "Amazon Linux 2023 has nodeadm in place of bootstrap.sh, and reads a NodeConfig. EKS adds the cluster's address to the user data of its own images alone: with an image "
            "of one's own the NodeConfig has to say name, endpoint, certificate and service range."
        ),
        check=user_data,
        sources=(
            "pulumi/pulumi-eks#1515",
            "cloudposse/terraform-aws-eks-node-group#226",
            "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/",
            "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#mng-specify-eks-ami",
        ),
    ),
)
