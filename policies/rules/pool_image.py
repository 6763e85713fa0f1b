"""The machine image of a pool: it boots on the pool's types, drives their GPUs, and its release exists.

Not for: the driver against the image of a service (drivers.py), or what the GPU Operator adds (gpu_operator.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.catalog import amis
from policies.catalog.instances import Instance
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._values import before, unknown, version
from .pool_types import rows


def image(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.kind == "existing":
            continue
        yield from _ami_id(stack, pool)
        if pool.ami_type is None:
            continue
        try:
            ami = amis.get(pool.ami_type)
        except UnknownRow as miss:
            yield error(pool.where, *unknown(miss, f"use one of {', '.join(amis.NAMES)}"))
            continue
        if ami.name != pool.ami_type:
            yield error(pool.where, f"AMI type '{pool.ami_type}' is none: EKS writes '{ami.name}'", "write it so")
        if ami.deprecated and not _at_least(stack.versions.kubernetes, 1, 33):
            yield warning(
                pool.where,
                f"no new {ami.name} images are released since 2025-11-26",
                "use an AL2023 or Bottlerocket AMI type",
            )
        elif ami.deprecated:
            yield error(
                pool.where,
                f"EKS has no {ami.name} image for Kubernetes {stack.versions.kubernetes}",
                "use an AL2023 or Bottlerocket AMI type",
            )
        for row in rows(pool):
            yield from _boots(pool, ami, row)


def _at_least(given: str | None, *bound: int) -> bool:
    numbers = version(given)
    return numbers is not None and numbers >= bound


def _ami_id(stack: Stack, pool: NodePool) -> Iterator[Problem]:
    custom = (pool.ami_type or "").upper() == "CUSTOM"
    if pool.ami_id and pool.ami_type and not custom:
        yield error(
            pool.where, f"an AMI id is given and ami is {pool.ami_type}", "set ami: CUSTOM, or leave ami_id out"
        )
    # A reader says CUSTOM of a class whose terms select by tags or names.
    if custom and not pool.ami_id and (pool.kind == "managed" or stack.complete):
        yield error(pool.where, "ami is CUSTOM and no AMI id is given", "set ami_id")
    if pool.ami_id and pool.driver_version is None and (pool.gpus_per_node or pool.gpu):
        yield warning(
            pool.where,
            "the driver of its own AMI is not stated, so the image's CUDA cannot be judged against it",
            "set driver_version",
        )


def _boots(pool: NodePool, ami: amis.AmiType, row: Instance) -> Iterator[Problem]:
    if ami.operating_system == "custom":
        return
    if ami.architecture != row.architecture:
        arm = row.architecture == "arm64"
        right = ami.name.replace("x86_64", "ARM_64") if arm else ami.name.replace("ARM_64", "x86_64")
        yield error(
            pool.where,
            f"{row.name} is {row.architecture} and AMI type {ami.name} is {ami.architecture}: the node never boots",
            f"use {right}" if right in amis.NAMES else "use an AMI type of that architecture",
        )
    elif row.gpu is not None and not ami.nvidia:
        architecture = "ARM_64" if row.architecture == "arm64" else "x86_64"
        yield error(
            pool.where,
            f"{row.name} has a GPU and AMI type {ami.name} no NVIDIA driver and runtime: the node's pods do not start, or see no GPU",
            f"use AL2023_{architecture}_NVIDIA",
        )
    elif row.gpu is not None and row.family not in ami.gpu_families:
        yield error(
            pool.where,
            f"the driver of {ami.name} ({ami.nvidia_driver}) does not drive {row.name}",
            "use an AMI of your own with a newer driver (ami: CUSTOM, ami_id, driver_version), or another family",
        )
    elif row.gpu is None and ami.nvidia:
        yield warning(
            pool.where,
            f"{row.name} has no GPU and AMI type {ami.name} carries the NVIDIA driver",
            f"use {ami.name.replace('_NVIDIA', '_STANDARD' if ami.operating_system == 'al2023' else '')}",
        )


_RELEASES = {
    ("managed", "al2023"): (re.compile(r"(\d+\.\d+)\.\d+-\d{8}$"), "1.35.2-20261101"),
    ("managed", "bottlerocket"): (re.compile(r"()\d+\.\d+\.\d+-(?!20\d{6}$)[0-9a-f]{8}$"), "1.54.0-5ed15786"),
    ("managed", "al2"): (re.compile(r"(\d+\.\d+)\.\d+-\d{8}$"), "1.32.9-20251112"),
    ("karpenter", "al2023"): (re.compile(r"()v\d{8}$"), "v20261101"),
    ("karpenter", "bottlerocket"): (re.compile(r"()v?\d+\.\d+\.\d+$"), "1.54.0"),
}
"""(kind of pool, operating system) to the form of a release, with the Kubernetes minor in it, and an example."""


def release(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.ami_release is None or pool.ami_type is None:
            continue
        try:
            system = amis.get(pool.ami_type).operating_system
        except UnknownRow:
            continue
        form = _RELEASES.get((pool.kind, system))
        if form is None:
            continue
        match = form[0].match(pool.ami_release)
        minor = ".".join(map(str, (version(stack.versions.kubernetes) or ())[:2]))
        if match is None:
            owner = "a managed node group" if pool.kind == "managed" else "Karpenter"
            yield error(
                pool.where,
                f"ami_release '{pool.ami_release}' is no release of {pool.ami_type} as {owner} names it",
                f"write it like {form[1]}, or leave it out",
            )
        elif match[1] and minor and match[1] != minor:
            yield error(
                pool.where,
                f"ami_release {pool.ami_release} is for Kubernetes {match[1]} and the cluster has {minor}: EKS refuses the node group",
                f"use a release of {minor}, or leave it out",
            )


def drift(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        custom = (pool.ami_type or "CUSTOM").upper() == "CUSTOM"
        if pool.kind == "karpenter" and pool.gpus_per_node and not custom and pool.ami_release is None:
            yield warning(
                pool.where,
                "its image is the latest: with each new release, about every week, its nodes drift, and Karpenter replaces them under running engines",
                "set ami_release (e.g. v20261101) and raise it when it suits",
            )


def provider(stack: Stack) -> Iterator[Problem]:
    given = stack.versions.pulumi_aws
    for pool in stack.pools:
        if (pool.ami_type or "").endswith("_NVIDIA") and "AL2023" in (pool.ami_type or "") and before(given, "6.60.0"):
            yield error(
                pool.where,
                f"pulumi-aws {given} validates amiType against a list without {pool.ami_type}",
                "use the provider version this project pins",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="pool-image",
        title="The AMI boots on the instance and drives its GPU",
        why=(
            "The standard AMI has neither driver nor runtime: containers that ask for a GPU fail, and on AL2023 even the CNI's pods. An image of the wrong "
            "architecture does not boot, and the accelerated AMI's driver does not know the newest GPUs."
        ),
        check=image,
        sources=("amazon-eks-ami#1817", "amazon-vpc-cni-k8s#3104", "pulumi-eks#738", "NVIDIA/aicr#2743"),
    ),
    Rule(
        id="pool-image-release",
        title="The image's release exists in that form, for that Kubernetes",
        why=(
            "Managed node groups and Karpenter name releases differently (1.35.2-20261101 and v20261101 are one), and a release of a managed group belongs "
            "to one Kubernetes minor. The wrong form is refused by the API, or selects no image, so that no node starts."
        ),
        check=release,
        sources=(
            "https://docs.aws.amazon.com/eks/latest/userguide/eks-linux-ami-versions.html",
            "https://karpenter.sh/docs/concepts/nodeclasses/#specamiselectorterms",
        ),
    ),
    Rule(
        id="pool-image-drift",
        title="Karpenter's image of GPU nodes is pinned",
        why=(
            "Karpenter looks up what `latest` means again and again; nodes of an older image are drifted and are drained one after the other. A node group "
            "stays on its release until it is updated. An engine that is drained downloads and loads its model again."
        ),
        check=drift,
        sources=("https://karpenter.sh/docs/tasks/managing-amis/",),
    ),
    Rule(
        id="pool-image-provider",
        title="The AWS provider knows the AMI type",
        why="Old provider versions check amiType against a list of their own and refuse newer values.",
        check=provider,
        sources=("pulumi-eks#1526", "pulumi-eks#1578"),
    ),
)
