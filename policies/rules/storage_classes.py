"""StorageClasses of AWS' drivers, and claims on them: parameters that the driver takes, and access that its volumes give.

A volume that cannot be made leaves its claim Pending and every pod that mounts it with it. Not for: claims that pods share, or their size
(volume_claims.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import listed

BLOCKS = ("ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com", "kubernetes.io/aws-ebs")
EBS_NAMES = (
    "gp2",
    "gp3",
    "io1",
    "io2",
    "st1",
    "sc1",
    "ebs-sc",
    "auto-ebs-sc",
)  # what EKS and AWS' guides call such classes
_EFS, _LUSTRE = "efs.csi.aws.com", "fsx.csi.aws.com"
_MANY = ("ReadWriteMany", "ReadOnlyMany")
# Throughput (MB/s/TiB) by deployment type; none for scratch file systems.
# https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html
_THROUGHPUT: Mapping[str, tuple[str, ...]] = {
    "SCRATCH_1": (),
    "SCRATCH_2": (),
    "PERSISTENT_1": ("12", "40", "50", "100", "200"),  # 12 and 40 with HDD
    "PERSISTENT_2": ("125", "250", "500", "1000"),
}


def classes(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("StorageClass"):
        given = {str(k): v for k, v in mapping(item.manifest.get("parameters")).items()}
        provisioner = item.manifest.get("provisioner")
        if provisioner == _LUSTRE:
            yield from _lustre(item.where, given)
        elif provisioner == _EFS:
            lacks = [key for key in ("provisioningMode", "fileSystemId") if not given.get(key)]
            if lacks:
                yield error(
                    item.where,
                    f"the EFS driver makes no volumes without {listed(lacks)}: claims stay Pending",
                    "set provisioningMode: efs-ap and fileSystemId: fs-...",
                )


def _lustre(where: str, given: Mapping[str, Any]) -> Iterator[Problem]:
    if not given.get("subnetId"):
        yield error(where, "the FSx driver makes no file system without subnetId: claims stay Pending", "set subnetId")
    kind, speed = str(given.get("deploymentType") or "SCRATCH_1"), given.get("perUnitStorageThroughput")
    if kind not in _THROUGHPUT:
        near = closest_names(kind, _THROUGHPUT, 1)
        yield error(
            where,
            f"deploymentType is '{kind}'; allowed: {', '.join(_THROUGHPUT)}",
            f"did you mean {near[0]}?" if near else "use one of these",
        )
    elif _THROUGHPUT[kind] and str(speed) not in _THROUGHPUT[kind]:
        yield error(
            where,
            f"perUnitStorageThroughput of {kind} is {speed or 'not given'}; allowed: {', '.join(_THROUGHPUT[kind])} (InvalidPerUnitStorageThroughput)",
            f'set it to one of these, e.g. "{_THROUGHPUT[kind][-1]}"',
        )
    elif not _THROUGHPUT[kind] and speed:
        yield warning(
            where,
            f"perUnitStorageThroughput is for persistent file systems, and deploymentType is {kind}: FSx does not take it there",
            "leave it out, or use PERSISTENT_2",
        )


def claims(stack: Stack) -> Iterator[Problem]:
    seen = {item.name: str(item.manifest.get("provisioner") or "") for item in stack.of_kind("StorageClass")}
    for item in stack.of_kind("PersistentVolumeClaim"):
        many = [mode for mode in map(str, items(item.spec.get("accessModes"))) if mode in _MANY]
        name = str(item.spec.get("storageClassName") or "")
        if not many or item.spec.get("volumeMode") == "Block" or item.spec.get("volumeName"):
            continue
        if seen.get(name) in BLOCKS or (name not in seen and name in EBS_NAMES):
            yield error(
                item.where,
                f"it asks for {many[0]} of class '{name}', and an EBS volume is attached to one node: the driver refuses it, and the claim stays Pending",
                "use a class of EFS or FSx for Lustre, a bucket, or ReadWriteOnce with one pod",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="volume-class",
        title="A storage class has parameters that its driver takes",
        why=(
            "Drivers check a class when the first claim asks for a volume: FSx for Lustre wants a subnet, and a throughput for persistent file systems alone, out of a short list; "
            "EFS wants the file system in which it makes access points."
        ),
        check=classes,
        sources=(
            "aws-fsx-csi-driver PR#232",
            "aws-fsx-csi-driver#287",
            "https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html",
            "https://github.com/kubernetes-sigs/aws-efs-csi-driver: docs/README.md",
        ),
    ),
    Rule(
        id="volume-access",
        title="Volumes for many nodes are of a kind that many nodes can mount",
        why="EBS volumes are attached to one node. A claim for ReadWriteMany on such a class is never bound (only AccessModes [ReadWriteOnce] are supported).",
        check=claims,
        sources=("wso2/kubernetes-apim#81", "https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html"),
    ),
)
