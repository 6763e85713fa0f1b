"""Instance types of a pool: they exist, belong together, and run the pool's image.

Not for: how many nodes (pool_shape.py), or Karpenter's own limits (karpenter.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.catalog import amis, gpus, instances
from policies.catalog.instances import Instance
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._values import before, listed, unknown, version

_WELL_FORMED = re.compile(r"[a-z][a-z0-9-]*\.(nano|micro|small|medium|large|metal|metal-\d+xl|\d*xlarge)$")
# Families with accelerators: for these the catalog is meant to be complete, and a miss is a mistake.
_ACCELERATED = re.compile(r"(g\d|gr\d|p\d|inf\d|trn\d|dl\d|vt\d)")


def rows(pool: NodePool) -> list[Instance]:
    """Catalog rows of the pool's types; unknown ones are left out."""
    found = []
    for name in pool.instance_types:
        try:
            found.append(instances.get(name))
        except UnknownRow:
            continue
    return found


def known(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.kind == "existing":
            if pool.gpu is not None:
                try:
                    gpus.get(pool.gpu)
                except UnknownRow as miss:
                    yield error(pool.where, *unknown(miss, f"use one of {', '.join(gpus.NAMES)}"))
            if pool.gpus_per_node and pool.gpu is None:
                yield error(
                    pool.where,
                    f"its nodes have {pool.gpus_per_node} GPUs and the kind is not stated, so nothing can be planned on them",
                    "set gpu, e.g. L4 or H100",
                )
            if pool.gpu is not None and not pool.gpus_per_node:
                yield error(pool.where, f"it states GPU {pool.gpu} and 0 GPUs a node", "set gpus_per_node")
            continue
        for name in pool.instance_types:
            try:
                instances.get(name)
            except UnknownRow as miss:
                plain = _WELL_FORMED.fullmatch(name) and not _ACCELERATED.match(name)
                if plain:
                    yield warning(
                        pool.where,
                        f"instance type '{name}' is not in the catalog, so room and price of its nodes cannot be judged",
                        "use a type of the catalog, or add a row for it",
                    )
                else:
                    yield error(pool.where, *unknown(miss, "use a type of the catalog"))


def together(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        found = rows(pool)
        if len(found) < 2:
            continue
        kinds = {row.gpu for row in found}
        counts = {row.gpus for row in found}
        if None in kinds and len(kinds) > 1:
            plain = [row.name for row in found if row.gpu is None]
            yield error(
                pool.where,
                f"it mixes types with and without GPUs ({listed(plain)} have none), and a node without one is tainted and labelled as a GPU node",
                "make two pools",
            )
        elif len(kinds) > 1:
            yield warning(
                pool.where,
                f"its types have different GPUs ({', '.join(sorted(map(str, kinds)))}): an engine fits one and not the other, and an engine over "
                "several nodes waits for equal ones",
                "make a pool for each GPU",
            )
        elif len(counts) > 1 and pool.kind == "managed":
            yield warning(
                pool.where,
                f"its types have {' and '.join(str(n) for n in sorted(counts))} GPUs a node: the node autoscaler plans with the first type's count",
                "use types with the same number of GPUs",
            )
        if len({row.architecture for row in found}) > 1:
            yield error(
                pool.where,
                f"it mixes architectures ({', '.join(sorted({row.architecture for row in found}))}), and one image boots on one of them",
                "make a pool for each architecture",
            )
        if pool.kind == "managed" and not pool.spot and pool.reservation_kind == "capacity_block":
            yield error(
                pool.where,
                f"a capacity block holds one instance type and {len(found)} are given",
                "give the reservation's type",
            )


def image(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.kind == "existing":
            continue
        yield from _ami_id(pool)
        if pool.ami_type is None:
            continue
        try:
            ami = amis.get(pool.ami_type)
        except UnknownRow as miss:
            yield error(pool.where, *unknown(miss, f"use one of {', '.join(amis.NAMES)}"))
            continue
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


def _ami_id(pool: NodePool) -> Iterator[Problem]:
    custom = (pool.ami_type or "").upper() == "CUSTOM"
    if pool.ami_id and pool.ami_type and not custom:
        yield error(
            pool.where, f"an AMI id is given and ami is {pool.ami_type}", "set ami: CUSTOM, or leave ami_id out"
        )
    if custom and not pool.ami_id and pool.kind == "managed":
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
        id="pool-type",
        title="Instance types and GPUs are in the catalog",
        why=(
            "Everything about a pool (GPUs, memory, network, price) is read from its instance type. A mistyped name fails in EC2 minutes later, as a node "
            "group that never becomes active."
        ),
        check=known,
    ),
    Rule(
        id="pool-types-together",
        title="The types of a pool are alike",
        why=(
            "One pool has one image, one taint, one set of labels and one GPU count for the node autoscaler. Engines are planned for the pool, not for the "
            "type that happens to be available."
        ),
        check=together,
        sources=(
            "kuberay#3414",
            "https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/aws",
        ),
    ),
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
        id="pool-image-provider",
        title="The AWS provider knows the AMI type",
        why="Old provider versions check amiType against a list of their own and refuse newer values.",
        check=provider,
        sources=("pulumi-eks#1526", "pulumi-eks#1578"),
    ),
)
