"""Names and labels of pools as EKS, the kubelet and Karpenter take them.

Not for: their syntax (config refuses what is no label), or whether pods select them (placement.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.catalog.karpenter import LABELS, own_tag
from policies.facts import NodePool, Stack
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, error

from ._values import listed
from .placement import POOL_LABEL

# EKS takes 63 characters; the provider's own suffix, which lets a new group come before the old one goes, has 26, the dash one.
MANAGED_LENGTH = 36
EKS_KEY = 63
_MANAGED = re.compile(r"[0-9A-Za-z]([-_0-9A-Za-z]*[0-9A-Za-z])?")
_KARPENTER = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# What a kubelet may say of itself (k8s.io/kubelet/pkg/apis/well_known_labels.go).
_KUBELET = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_SET_BY_EKS = ("eks.amazonaws.com/nodegroup",)  # a reader adds it to what it reads of a node group


def names(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.labels.get(POOL_LABEL) != pool.name:
            continue  # not ours: named by somebody else's rules
        if pool.kind == "managed":
            if len(pool.name) > MANAGED_LENGTH:
                yield error(
                    pool.where,
                    f"its name has {len(pool.name)} characters and may have {MANAGED_LENGTH}: the name of its node group adds 27, and EKS takes 63",
                    f"shorten it by {len(pool.name) - MANAGED_LENGTH}",
                )
            if not _MANAGED.fullmatch(pool.name):
                yield error(pool.where, "its name is none that EKS takes: letters, digits, '-' and '_'", _call(pool))
        elif pool.kind == "karpenter":
            if len(pool.name) > 63:
                yield error(
                    pool.where,
                    f"its name has {len(pool.name)} characters and may have 63: its nodes carry it in the label karpenter.sh/nodepool",
                    f"shorten it by {len(pool.name) - 63}",
                )
            if not _KARPENTER.fullmatch(pool.name):
                yield error(
                    pool.where,
                    "its name is none that a NodePool can have: lower-case letters, digits and '-'",
                    _call(pool),
                )


def _call(pool: NodePool) -> str:
    return f"call it '{re.sub(r'[^a-z0-9-]+', '-', pool.name.lower()).strip('-')[:MANAGED_LENGTH]}'"


def labels(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.kind in ("managed", "self_managed"):
            reserved = [
                key for key in pool.labels if _reserved(str(key), by_eks=pool.kind == "managed", written=stack.complete)
            ]
            if reserved:
                yield error(
                    pool.where,
                    f"nodes may not give themselves {listed(reserved)}: EKS refuses the node group, or the kubelet ends at its start and no node joins",
                    "use a key of your own domain, e.g. example.com/role",
                )
            if pool.kind == "managed":
                yield from _eks_lengths(pool)
        elif pool.kind == "karpenter":
            # A reader adds labels that requirements fix; a plan's labels are those that were written.
            own = [key for key, value in pool.labels.items() if _karpenters(str(key), value, pool, stack.complete)]
            if own:
                yield error(
                    pool.where,
                    f"{listed(own)} {'are' if len(own) > 1 else 'is'} set on each node by Karpenter or the kubelet, and the API server refuses the NodePool",
                    "leave it out, or use a key of your own domain",
                )


def _karpenters(key: str, value: object, pool: NodePool, written: bool) -> bool:
    """Labels that the CRD of NodePool refuses in a template (karpenter-provider-aws v1.14.1: karpenter.sh_nodepools.yaml)."""
    if key == "karpenter.sh/nodepool" and not written:
        return value != pool.name
    domain = key.split("/")[0]
    return key == "kubernetes.io/hostname" or (
        written and domain.endswith(("karpenter.k8s.aws", "karpenter.sh")) and key not in LABELS
    )


def tags(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("EC2NodeClass"):
        own = [str(key) for key in mapping(item.spec.get("tags")) if own_tag(str(key))]
        if own:
            yield error(
                item.where,
                f"Karpenter itself sets {'tags' if len(own) > 1 else 'tag'} {listed(own)} on what it starts, and the API server refuses the EC2NodeClass",
                f"leave {'them' if len(own) > 1 else 'it'} out of spec.tags",
            )


def _eks_lengths(pool: NodePool) -> Iterator[Problem]:
    """EKS takes less than Kubernetes: keys of 63 characters with their prefix, and no label without a value (API: labelKey, labelValue)."""
    empty = [key for key, value in pool.labels.items() if value == ""]
    if empty:
        yield error(
            pool.where,
            f"{listed(empty)} {'have' if len(empty) > 1 else 'has'} no value, and EKS takes labels with a value only",
            'give it one, e.g. "true"',
        )
    long = [key for key in (*pool.labels, *(taint.key for taint in pool.taints)) if len(str(key)) > EKS_KEY]
    if long:
        yield error(
            pool.where,
            f"{listed(long)} {'have' if len(long) > 1 else 'has'} more than {EKS_KEY} characters, which is what EKS takes of a label or taint key, prefix included",
            "use a shorter key",
        )


def _reserved(key: str, *, by_eks: bool, written: bool) -> bool:
    if key in _KUBELET or (key in _SET_BY_EKS and not written) or "/" not in key:
        return False
    domain = key.split("/")[0]
    if domain == "eks.amazonaws.com":
        return by_eks
    if not (domain in ("kubernetes.io", "k8s.io") or domain.endswith((".kubernetes.io", ".k8s.io"))):
        return False
    return not any(domain == each or domain.endswith("." + each) for each in _KUBELET_DOMAINS)


RULES: tuple[Rule, ...] = (
    Rule(
        id="pool-name",
        title="A pool's name leaves room for what is added to it",
        why=(
            "Names of node groups get a suffix, so that a change that needs a new group makes it before the old one goes; names of NodePools become label "
            "values. The provider refuses a longer one in the middle of an update, Kubernetes one with capitals."
        ),
        check=names,
        sources=("terraform-provider-aws: internal/service/eks/node_group.go, node_group_name_prefix",),
    ),
    Rule(
        id="pool-labels",
        title="Nodes carry labels that they may give themselves",
        why=(
            "Labels of a node group become the kubelet's --node-labels. The kubelet refuses keys of kubernetes.io and k8s.io beyond a short list, such as "
            "node-role.kubernetes.io/gpu, and exits: instances run and are paid for, and the node group fails with NodeCreationFailure half an hour later."
        ),
        check=labels,
        sources=("terraform-aws-eks#3346", "eksctl#4007", "containers-roadmap#1451"),
    ),
    Rule(
        id="karpenter-tags",
        title="An EC2NodeClass leaves Karpenter's own tags to Karpenter",
        why=(
            "Karpenter finds what it has started by tags that it sets itself; a class that sets one of them is refused by a rule of its CRD. A tag of the cluster's "
            "name, kubernetes.io/cluster/<name>, that others put on everything is one of them."
        ),
        check=tags,
        sources=("karpenter-provider-aws v1.14.1: pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml",),
    ),
)
