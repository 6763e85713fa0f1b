"""Who makes the volumes that claims ask for: drivers of EBS in a cluster that this stack makes, a default class, and handles of ready volumes.

Not for: parameters of classes (storage_classes.py), or pods that share a claim (volume_claims.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from policies.facts import AwsResource, Stack
from policies.facts.aws import ADDON, CLUSTER
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, warning

from ._values import chart_name, dig, true
from .auto_mode import auto_clusters

_DRIVER, _OF_AUTO, _IN_TREE = "ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com", "kubernetes.io/aws-ebs"
_ADDON = "aws-ebs-csi-driver"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def _addons(stack: Stack) -> list[AwsResource]:
    return [each for each in stack.of_type(ADDON) if mapping(each.props).get("addonName") == _ADDON]


def drivers(stack: Stack) -> Iterator[Problem]:
    """Classes of EBS beside the one cluster of the stack, where it has nobody who makes their volumes."""
    if len(stack.of_type(CLUSTER)) != 1 or _addons(stack) or any(_ADDON in chart_name(each) for each in stack.releases):
        return
    auto = bool(auto_clusters(stack))
    for item in stack.of_kind("StorageClass"):
        provisioner = item.manifest.get("provisioner")
        if auto and provisioner in (_DRIVER, _IN_TREE):
            yield warning(
                item.where,
                f"its provisioner is {provisioner}, and EKS Auto Mode makes volumes of {_OF_AUTO} alone: claims stay Pending, unless a driver of one's own runs beside",
                f"write provisioner: {_OF_AUTO}",
            )
        elif not auto and provisioner in (_DRIVER, _IN_TREE, _OF_AUTO):
            has = f"{_OF_AUTO} is EKS Auto Mode's" if provisioner == _OF_AUTO else "no EBS driver is seen"
            yield warning(
                item.where,
                f"its provisioner is {provisioner}, and {has}: a cluster has none by itself, and claims stay Pending",
                f"add the add-on {_ADDON} with a role for it, and write provisioner: {_DRIVER}",
            )


def default(stack: Stack) -> Iterator[Problem]:
    """Claims that leave the class to the cluster, beside the one cluster of the stack."""
    if len(stack.of_type(CLUSTER)) != 1 or any(map(_is_default, _addons(stack))):
        return
    classes = stack.of_kind("StorageClass")
    if any(true(each.annotations.get(_DEFAULT), False) for each in classes):
        return
    for item in stack.of_kind("PersistentVolumeClaim"):
        if item.spec.get("storageClassName") is None and not item.spec.get("volumeName"):
            yield warning(
                item.where,
                "it names no class, and no default one is seen: since Kubernetes 1.30 EKS makes none, and the claim stays Pending (no storage class is set)",
                f"name a class, or give one the annotation {_DEFAULT}: 'true'",
            )


def _is_default(addon: AwsResource) -> bool:
    """Whether the driver makes a default class; what cannot be read may."""
    given = mapping(addon.props).get("configurationValues")
    if not isinstance(given, str):
        return given is not None
    try:
        return dig(json.loads(given), "defaultStorageClass", "enabled") is True
    except json.JSONDecodeError:
        return True


def handles(stack: Stack) -> Iterator[Problem]:
    seen: dict[tuple[str, str], str] = {}
    for item in stack.of_kind("PersistentVolume"):
        csi = mapping(item.spec.get("csi"))
        handle = str(csi.get("volumeHandle") or "")
        if not handle:
            continue
        other = seen.setdefault((str(csi.get("driver")), handle), item.where)
        if other != item.where:
            yield warning(
                item.where,
                f"its volumeHandle '{handle}' is that of {other} too, and kubelet takes both for one volume: a pod with both stays in ContainerCreating",
                "give each PersistentVolume a handle of its own (for S3 any name; for EFS fs-...::fsap-..., or fs-...:/path)",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="volume-driver",
        title="Volumes of a class have a driver that makes them",
        why=(
            "Kubernetes hands claims of EBS to a driver, and EKS has none until the add-on is there. Auto Mode has its own, under another name, whose volumes alone its nodes can attach. A "
            "claim that nobody serves waits without an error, and its pods with it."
        ),
        check=drivers,
        sources=(
            "SigNoz/charts#621",
            "n8n-io/terraform-aws-n8n#22",
            "awsdocs/amazon-eks-user-guide PR#879",
            "https://docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html",
        ),
    ),
    Rule(
        id="volume-default-class",
        title="Claims that name no class find a default one",
        why="EKS made gp2 the default class until Kubernetes 1.29. Newer clusters have no default: a claim without a class is bound to nothing.",
        check=default,
        sources=(
            "n8n-io/terraform-aws-n8n PR#45",
            "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html",
        ),
    ),
    Rule(
        id="volume-handle",
        title="Ready volumes have handles of their own",
        why="kubelet and the attach controller know a volume of CSI by driver and handle. Two PersistentVolumes with one handle are one volume to them, whatever bucket or path each names.",
        check=handles,
        sources=(
            "awslabs/mountpoint-s3-csi-driver#625",
            "https://github.com/awslabs/mountpoint-s3-csi-driver: docs/CONFIGURATION.md",
        ),
    ),
)
