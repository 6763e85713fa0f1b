"""Karpenter pools: types it can see GPUs on, and limits that let it start what services need.

Not for: managed node groups, or what is shared on a GPU (sharing.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from policies.facts import Stack
from policies.facts.quantities import mapping, quantity
from policies.finding import Problem, Rule, error, warning

from ._places import places, pods_at_most, pods_at_rest
from ._values import amount, before, listed, version
from .pool_types import rows

# The EC2 API gave no GPUs for this type either in August 2025 (karpenter-provider-aws#8368, still open); tables of 2026-08 list one.
_GPUS = "nvidia.com/gpu"
_LATE_COUNT = ("p5.4xlarge",)
# Karpenter's compatibility matrix (website/content/en/docs/upgrading/compatibility.md).
KUBERNETES = (((1, 36), "1.13.0"), ((1, 35), "1.9.0"), ((1, 34), "1.6.0"))


def gpu_count(stack: Stack) -> Iterator[Problem]:
    stated = any(_GPUS in mapping(each.spec.get("capacity")) for each in stack.of_kind("NodeOverlay"))
    for pool in stack.pools if not stated else ():
        if pool.kind != "karpenter":
            continue
        found = [row for row in rows(pool) if row.gpu is not None]
        unseen = [row.name for row in found if not row.karpenter_sees_gpu]
        unsure = [row.name for row in found if row.name in _LATE_COUNT and row.name not in unseen]
        if unseen:
            everything = len(unseen) == len(found)
            yield (error if everything else warning)(
                pool.where,
                f"EC2 reports no GPU for {listed(unseen)}, so Karpenter never starts {'one' if len(unseen) == 1 else 'them'} for a pod that asks for nvidia.com/gpu",
                f"use another type or a managed node group, or a NodeOverlay whose capacity has {_GPUS}",
            )
        for name in unsure:
            # Beside types whose GPUs are counted, pods with GPUs go to those.
            yield (error if len(unseen) + len(unsure) == len(found) else warning)(
                pool.where,
                f"EC2 has reported no GPU for {name} (karpenter-provider-aws#8368, open), and where it does Karpenter never starts one for a pod that asks "
                "for nvidia.com/gpu",
                "use another type or a managed node group; or, where `aws ec2 describe-instance-types` shows its GPU, set policy karpenter-gpu-count: warning",
            )


def limits(stack: Stack) -> Iterator[Problem]:
    karpenter = {pool.name: pool for pool in stack.pools if pool.kind == "karpenter"}
    if not karpenter:
        return
    index = places(stack)
    rest: dict[str, float] = {}
    most: dict[str, float] = {}
    for workload in stack.workloads:
        for group in workload.groups:
            home = index.home(group)
            if home is not None and home.name in karpenter and group.gpu_resource == "nvidia.com/gpu":
                rest[home.name] = rest.get(home.name, 0.0) + pods_at_rest(workload, group) * group.gpus
                most[home.name] = most.get(home.name, 0.0) + pods_at_most(workload, group) * group.gpus
    for name, pool in karpenter.items():
        yield from _written(pool.where, pool.limits)
        ceiling = quantity(pool.limits.get("nvidia.com/gpu"))
        if not pool.limits:
            yield warning(
                pool.where,
                "it has no limits: a mistake in one service can start any number of nodes",
                "set max, or limits",
            )
            continue
        if ceiling is None:
            if pool.gpus_per_node and not {"cpu", "memory"} & set(map(str, pool.limits)):
                yield warning(pool.where, "its limits name no GPUs", "add nvidia.com/gpu to limits")
            yield from _by_cpu(pool.where, pool.limits, min((row.vcpu for row in rows(pool)), default=0))
            continue
        if ceiling < pool.gpus_per_node:
            yield error(
                pool.where,
                f"its limit of {amount(ceiling)} GPUs is less than the {pool.gpus_per_node} of one node, so no node is ever started",
                f"set limits nvidia.com/gpu to at least {pool.gpus_per_node}",
            )
        elif rest.get(name, 0.0) > ceiling:
            yield error(
                pool.where,
                f"services need {amount(rest[name])} GPUs at rest and its limits allow {amount(ceiling)}: the last pods stay pending",
                f"set limits nvidia.com/gpu to {amount(most[name])}",
            )
        elif most.get(name, 0.0) > ceiling:
            yield warning(
                pool.where,
                f"services need {amount(most[name])} GPUs at full load and its limits allow {amount(ceiling)}",
                f"set limits nvidia.com/gpu to {amount(most[name])}",
            )
        yield from _by_cpu(pool.where, pool.limits, min((row.vcpu for row in rows(pool)), default=0))


def _by_cpu(where: str, given: object, vcpu: int) -> Iterator[Problem]:
    cpu = quantity(given.get("cpu")) if isinstance(given, dict) else None
    if cpu is not None and vcpu and cpu < vcpu:
        yield error(
            where,
            f"its limit of {amount(cpu)} CPUs is less than the {vcpu} of its smallest type, so no node is ever started",
            f"set limits cpu to at least {vcpu}",
        )


def installed(stack: Stack) -> Iterator[Problem]:
    pools = [pool for pool in stack.pools if pool.kind == "karpenter"]
    if not pools:
        return
    if stack.autoscaler not in (None, "karpenter"):
        yield error(
            pools[0].where,
            f"it is a Karpenter pool and the node autoscaler is {stack.autoscaler}: nobody starts its nodes",
            "set software.autoscaler.kind: karpenter, or make it a managed node group",
        )
    given, kubernetes = stack.versions.karpenter, version(stack.versions.kubernetes)
    if kubernetes is not None:
        for minor, least in KUBERNETES:
            if kubernetes[:2] >= minor:
                if before(given, least):
                    yield error(
                        pools[0].where,
                        f"Karpenter {given} does not support Kubernetes {stack.versions.kubernetes}",
                        f"use Karpenter {least} or newer",
                    )
                break
    for pool in pools:
        outside = [row.name for row in rows(pool) if not row.karpenter]
        if outside:
            yield warning(
                pool.where,
                f"Karpenter's tables of types, made from EC2's answers, lack {listed(outside)}: where the region does not offer "
                f"{'it' if len(outside) == 1 else 'them'}, no node is started",
                "see `aws ec2 describe-instance-type-offerings`, or use another type",
            )


def minimum(stack: Stack) -> Iterator[Problem]:
    for pool in stack.pools:
        if pool.kind == "karpenter" and pool.min > 0 and not pool.fixed:
            yield error(
                pool.where,
                f"min is {pool.min} and Karpenter keeps no minimum: it starts nodes for pods that wait and removes empty ones",
                "leave min out and keep pods there (replicas.min), or make it a managed node group",
            )


# Resources that EC2 nodes have (karpenter-provider-aws pkg/providers/instancetype/types.go computeCapacity); others never count,
# so a limit on them is none.
_LIMITED = (
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "cpu",
    "ephemeral-storage",
    "habana.ai/gaudi",
    "memory",
    "nodes",
    "nvidia.com/gpu",
    "pods",
    "vpc.amazonaws.com/efa",
    "vpc.amazonaws.com/pod-eni",
)


def _written(where: str, given: Mapping[str, object]) -> Iterator[Problem]:
    """Limits that Karpenter's CRD refuses, or reads and never meets."""
    for key, value in given.items():
        if quantity(value) is None or (quantity(value) or 0) < 0:
            yield error(
                where,
                f"its limit {key}: {value!r} is no quantity, and the API server refuses the NodePool",
                "write a number, e.g. 8 or 512Gi",
            )
        close = difflib.get_close_matches(str(key), _LIMITED, n=1, cutoff=0.6)
        if key not in _LIMITED and close:
            yield error(
                where,
                f"its limit on '{key}' limits nothing: nodes have no such resource",
                f"did you mean '{close[0]}'?",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="karpenter-gpu-count",
        title="Karpenter sees a GPU on the type",
        why=(
            "Karpenter counts GPUs by ec2:DescribeInstanceTypes. For g6f and gr6f, parts of an L4, the API says 0: Karpenter never picks them for GPU pods and "
            "may pick them for others."
        ),
        check=gpu_count,
        sources=("karpenter-provider-aws#8368",),
    ),
    Rule(
        id="karpenter-limits",
        title="Karpenter's limits allow what services need",
        why="A NodePool stops at its limits. Pods beyond them stay pending with a message in Karpenter's log only.",
        check=limits,
        sources=("karpenter-provider-aws#8068",),
    ),
    Rule(
        id="karpenter-minimum",
        title="A Karpenter pool has no minimum",
        why=(
            "A NodePool has limits and no lower end: nodes come for pending pods and go when they are empty. A minimum that is only written down keeps no node "
            "warm. Static capacity (spec.replicas) is an alpha feature behind a gate."
        ),
        check=minimum,
        sources=("https://karpenter.sh/docs/concepts/nodepools/",),
    ),
    Rule(
        id="karpenter-installed",
        title="A Karpenter pool has a Karpenter that fits the cluster",
        why=(
            "NodePools are objects that only Karpenter reads. Each Kubernetes minor needs a minimal Karpenter, and UltraServer types are not in its tables."
        ),
        check=installed,
        sources=("https://karpenter.sh/docs/upgrading/compatibility/",),
    ),
)
