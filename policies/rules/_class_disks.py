"""Disks of an EC2NodeClass: the one that images and weights go to, and none smaller than what it is made from.

Not for: room for images and weights (pool_image.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.facts import Stack
from policies.facts.quantities import items, mapping, quantity, whole
from policies.finding import Problem, error, warning

from ._values import listed

# Sizes of the images' own snapshots in GB; Bottlerocket's with NVIDIA's driver have 4 (karpenter-provider-aws#5283, #7928).
_SNAPSHOTS = {("al2023", "/dev/xvda"): 20, ("al2", "/dev/xvda"): 20, ("bottlerocket", "/dev/xvda"): 2}


def for_gpus(stack: Stack, name: str) -> bool:
    """Whether a pool of the class says by requirements or taints that it has GPUs."""
    templates = [
        mapping(mapping(pool.spec.get("template")).get("spec"))
        for pool in stack.of_kind("NodePool", group="karpenter.sh/")
    ]
    named = [each for each in templates if mapping(each.get("nodeClassRef")).get("name") == name]
    keys = [
        mapping(word).get("key")
        for each in named
        for key in ("requirements", "taints")
        for word in items(each.get(key))
    ]
    return any("gpu" in str(key) for key in keys)


def disks(where: str, spec: Mapping[str, Any], aliases: Sequence[str], for_gpus: bool) -> Iterator[Problem]:
    """The disk that is made large must be the one that images and weights go to."""
    family = (aliases[0].partition("@")[0] if aliases else str(spec.get("amiFamily") or "")).lower()
    wanted = {"al2023": "/dev/xvda", "al2": "/dev/xvda", "bottlerocket": "/dev/xvdb"}.get(family)
    given = [mapping(each) for each in items(spec.get("blockDeviceMappings"))]
    names = [str(disk.get("deviceName")) for disk in given]
    if wanted and given and "None" not in names and wanted not in names:
        what = "the second volume, which holds images," if family == "bottlerocket" else "the root volume"
        # An image chosen by id or tags may have another root: Karpenter's own guide runs Ubuntu as AL2 with /dev/sda1.
        yield (error if aliases else warning)(
            where,
            f"its blockDeviceMappings are {listed(names)} and {what} of {family} is {wanted}: that one keeps its default size, and the other is never mounted",
            f"name {wanted}",
        )
    for disk in given:
        ebs = mapping(disk.get("ebs"))
        size = ebs.get("volumeSize")
        least = _SNAPSHOTS.get((family, str(disk.get("deviceName"))), 0)
        least = 4 if least == 2 and for_gpus else least
        if size is not None and (whole(size) is not None or (quantity(size) or 0) < 2**30):
            yield error(
                where,
                f"volumeSize of {disk.get('deviceName')} is '{size}': the API server takes a number of Gi, G, Ti or T",
                f"write {whole(size) or 100}Gi",
            )
        elif size is not None and not ebs.get("snapshotID") and (quantity(size) or 0) < least * 10**9:
            yield error(
                where,
                f"volumeSize of {disk.get('deviceName')} is {size} and the snapshot of {family}'s image has {least} GB: EC2 starts no instance (InvalidBlockDeviceMapping)",
                f"write {least}Gi or more" + (", or leave that device out" if least < 20 else ""),
            )
