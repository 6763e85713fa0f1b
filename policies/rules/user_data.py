"""User data of EKS nodes: written for the system of the node's image, in fields that it has, and complete where EKS adds nothing to it.

A node that starts with the wrong one is paid for and never joins. For: launch templates of node groups, and Karpenter's EC2NodeClasses.
Not for: whether there is any (node_group.py), or disks (pool_disk.py).
"""

from __future__ import annotations

import base64
import binascii
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from policies.catalog.node_config import API_VERSION, SPEC
from policies.facts import AwsResource, Object, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._schema import inside
from ._values import listed
from .node_group import groups

_AL2_SCRIPT = "/etc/eks/bootstrap.sh"
_NODE_CONFIG = re.compile(r"^kind:\s*NodeConfig\s*$", re.MULTILINE)
_PARTS = re.compile(r"^--[^\n]*$", re.MULTILINE)  # boundaries of a multipart message
_NEEDED = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")
# What starts a kubelet by other means; an image may also do it by itself.
_OTHERS = ("nodeadm", "settings.kubernetes", "kubelet", "[settings")


# What the bootstrap script of Amazon Linux 2 read from its environment.
_AL2_VARIABLES = re.compile(
    r"^\s*(?:export\s+)?(BOOTSTRAP_EXTRA_ARGS|CONTAINER_RUNTIME|KUBELET_EXTRA_ARGS|USE_MAX_PODS)=", re.MULTILINE
)
_HEADERS = ("content-type:", "mime-version:")


def user_data(stack: Stack) -> Iterator[Problem]:
    for group in groups(stack):
        spec = mapping(group.template)
        text = _text(spec.get("userData"))
        if text is None:
            continue
        yield from _of_system(group.where, str(mapping(group.props).get("amiType") or "").upper(), text)
        if spec.get("imageId"):
            yield from _of_own_image(group, text)
    for item in stack.of_kind("EC2NodeClass", group="karpenter.k8s.aws/"):
        yield from _of_system(item.where, _family(item), str(item.spec.get("userData") or ""))


def _family(item: Object) -> str:
    """The system that Karpenter writes user data for, in capitals: as it is stated, or by alias. Custom stands for none."""
    aliases = [str(mapping(term).get("alias") or "") for term in items(item.spec.get("amiSelectorTerms"))]
    return (str(item.spec.get("amiFamily") or "") or next(filter(None, aliases), "")).upper()


def _of_system(where: str, system: str, text: str) -> Iterator[Problem]:
    if system.startswith("AL2023"):
        yield from _of_al2023(where, text)
    elif system.startswith("BOTTLEROCKET"):
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError as wrong:
            yield error(
                where,
                f"its user data is not TOML, which Bottlerocket reads and nothing else ({wrong}): the node never joins",
                'write settings, e.g. [settings.kubernetes.node-labels] and "key" = "value" below',
            )
    if _NODE_CONFIG.search(text):
        yield from _node_configs(where, text)


def _of_al2023(where: str, text: str) -> Iterator[Problem]:
    if _AL2_SCRIPT in text:
        yield error(
            where,
            f"its user data runs {_AL2_SCRIPT}, which Amazon Linux 2023 does not have: nodes start with nodeadm and none of these settings",
            "write them as a NodeConfig (node.eks.aws/v1alpha1), e.g. spec.kubelet.config.maxPods",
        )
        return
    set_there = sorted(set(_AL2_VARIABLES.findall(text)))
    if set_there:
        yield warning(
            where,
            f"its user data sets {listed(set_there)}, which the bootstrap script of Amazon Linux 2 read: Amazon Linux 2023 has nodeadm, and nothing reads them",
            "write them as a NodeConfig (node.eks.aws/v1alpha1), e.g. spec.kubelet.config.maxPods, or spec.kubelet.flags",
        )


def _node_configs(where: str, text: str) -> Iterator[Problem]:
    for config in _configs(text):
        if config.get("kind") != "NodeConfig":
            continue
        if config.get("apiVersion") != API_VERSION:
            yield error(
                where,
                f"the NodeConfig of its user data is of {config.get('apiVersion') or 'no apiVersion'}, which nodeadm does not know: it ends, and the node never joins",
                f"write apiVersion: {API_VERSION}",
            )
            continue
        for message, mend, certain in inside(mapping(config.get("spec")), SPEC, "spec"):
            yield (error if certain else warning)(where, f"in the NodeConfig of its user data {message}", mend)


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
    for part in _PARTS.split(text.replace("\r\n", "\n")):
        if not _NODE_CONFIG.search(part):
            continue
        # A part of a multipart message has headers, and an empty line before its text.
        headed = part.lstrip().lower().startswith(_HEADERS)
        body = part.lstrip().partition("\n\n")[2] if headed else part
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
            "of one's own the NodeConfig has to say name, endpoint, certificate and service range. A field that nodeadm or kubelet does not know is ignored; a version that it does not know, "
            "or a value of another type, ends it. Bottlerocket reads TOML."
        ),
        check=user_data,
        sources=(
            "pulumi/pulumi-eks#1515",
            "cloudposse/terraform-aws-eks-node-group#226",
            "terraform-aws-modules/terraform-aws-eks#2985",
            "terraform-aws-modules/terraform-aws-eks#3420",
            "awslabs/amazon-eks-ami: nodeadm/internal/api/types.go, nodeadm/internal/api/bridge/decode.go",
            "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/",
            "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#mng-specify-eks-ami",
        ),
    ),
)
