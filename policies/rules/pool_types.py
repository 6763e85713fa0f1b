"""Instance types of a pool: they exist, and belong together.

Not for: the image they boot (pool_image.py), how many nodes (pool_shape.py), or Karpenter's own limits (karpenter.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.catalog import gpus, instances
from policies.catalog.instances import Instance
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._values import listed, unknown

_WELL_FORMED = re.compile(r"[a-z][a-z0-9-]*\.(nano|micro|small|medium|large|metal|metal-\d+xl|\d*xlarge)$")
# Families with accelerators: for these the catalog is meant to be complete, and a miss is a mistake.
_ACCELERATED = re.compile(r"(g\d|gr\d|p\d|inf\d|trn\d|dl\d|vt\d)")
# Neuron, Gaudi, Qualcomm, Xilinx and AMD.
_OTHER_ACCELERATOR = re.compile(r"(inf\d|trn\d|dl\d|vt\d|g4ad|f\d)[a-z0-9-]*(\.|$)", re.IGNORECASE)


def other_accelerator(name: str) -> str | None:
    """The beginning of an instance type, or of a family, whose accelerators are no NVIDIA GPUs; None for others."""
    found = _OTHER_ACCELERATOR.match(name)
    return found[1] if found is not None else None


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
                row = instances.get(name)
                if row.name != name:
                    yield error(pool.where, f"instance type '{name}' is none: EC2 writes '{row.name}'", "write it so")
            except UnknownRow as miss:
                other = other_accelerator(name)
                if other is not None:
                    yield _of_others(stack, pool, name, other)
                    continue
                plain = _WELL_FORMED.fullmatch(name) and not _ACCELERATED.match(name)
                if plain:
                    yield warning(
                        pool.where,
                        f"instance type '{name}' is not in the catalog, so room and price of its nodes cannot be judged",
                        "use a type of the catalog, or add a row for it",
                    )
                else:
                    yield error(pool.where, *unknown(miss, "use a type of the catalog"))


def _of_others(stack: Stack, pool: NodePool, name: str, family: str) -> Problem:
    """Beside engines of this stack such a type is a mistake; in a cluster that others share it may be meant, with an image that drives it."""
    image, neuron = pool.ami_type or "CUSTOM", family.lower().startswith(("inf", "trn"))
    if image != "CUSTOM" and ("NVIDIA" in image or (neuron and "NEURON" not in image)):
        fitting = "an AMI type with NEURON (AL2023_x86_64_NEURON)" if neuron else "an image with that maker's driver"
        return error(
            pool.where,
            f"instance type '{name}' has no NVIDIA GPU, and AMI type {image} no driver for what it has",
            f"use {fitting}",
        )
    return (error if stack.complete else warning)(
        pool.where,
        f"instance type '{name}' has no NVIDIA GPU: {family} are accelerators of other makers, which neither GPU Operator nor the images here drive",
        "use a type with NVIDIA GPUs, of g4dn, g5, g6, g6e, g7e, p4d, p5 or p6",
    )


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
)
