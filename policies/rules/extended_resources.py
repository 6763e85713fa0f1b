"""What pods ask of a node besides CPU, memory and GPUs: EFA devices, disk, huge pages, MIG instances, others' devices.

Not for: GPUs (placement_gpu.py, sharing.py), or how quantities are written (pod_resources.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.facts import NodePool, PodGroup, Stack
from policies.facts.quantities import items, mapping, quantity
from policies.finding import Problem, Rule, error, warning

from ._places import EFA, physical_gpus, places, pods_at_most
from ._values import amount
from .placement import pods
from .pool_types import rows

_JUDGED_ELSEWHERE = ("cpu", "memory")
_MIG = "nvidia.com/mig-"
_GPUS = ("nvidia.com/gpu", "nvidia.com/gpu.shared")
_GIB = 2**30
# Devices of other makers: no instance type with NVIDIA GPUs has them.
_OTHER_CHIPS = ("amd.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "gpu.intel.com/", "google.com/tpu")


def offered(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload, group in pods(stack):
        asked = _asked(group.pod)
        if not asked:
            continue
        pools = index.open(group) if group.node_selector else ()
        if EFA in asked and not group.head and pods_at_most(workload, group) > 1:
            yield from _alone(asked[EFA], group, pools)
        for resource, number in asked.items():
            said = [_missing(resource, number, group, pool) for pool in pools]
            if said and all(said) and said[0] is not None:
                message, mend, certain = said[0]
                yield (error if certain else warning)(group.where, message, mend)


def _asked(pod: Mapping[str, Any]) -> dict[str, float]:
    """Sums over containers of what is not CPU, memory or a GPU."""
    found: dict[str, float] = {}
    for container in map(mapping, items(pod.get("containers"))):
        given = mapping(container.get("resources"))
        for resource, value in {**mapping(given.get("limits")), **mapping(given.get("requests"))}.items():
            if resource in _JUDGED_ELSEWHERE or resource in _GPUS:
                continue
            if number := quantity(value):
                found[str(resource)] = found.get(str(resource), 0.0) + number
    return found


def _missing(resource: str, number: float, group: PodGroup, pool: NodePool) -> tuple[str, str, bool] | None:
    """(message, mend, whether it is certain) of a resource that nodes of the pool do not have, or not as much of."""
    pending = "so its pods stay pending"
    if resource == EFA:
        return _efa(number, pool, pending)
    if resource.startswith(_MIG):
        profiles = (resource.removeprefix(_MIG), f"all-{resource.removeprefix(_MIG)}")
        if resource == group.gpu_resource or pool.sharing.mig_profile in profiles or pool.kind == "existing":
            return None
        if pool.sharing.strategy == "mig":
            return None  # of sharing-mig-profile
        return (
            f"it asks for {resource} and GPUs of {pool.where} are not cut, {pending}",
            "set sharing.mig on the pool",
            True,
        )
    if pool.kind in ("existing", "self_managed"):
        return None
    if resource == "ephemeral-storage":
        disk = max(pool.root_disk_gib or 0, (pool.nvme_gb or 0) * 1e9 / _GIB)
        if not disk or number / _GIB <= disk:
            return None
        return (
            f"it asks for {number / _GIB:.0f} GiB of ephemeral-storage and the disk of nodes of {pool.where} has {disk:.0f} GiB, {pending}",
            "ask for less, or set root_disk_gib on the pool",
            True,
        )
    if resource.startswith("hugepages-"):
        if pool.efa or pool.ami_id:
            return None  # EKS' accelerated images set pages of 2 MiB aside where there is EFA
        return (
            f"it asks for {resource} and nothing sets huge pages aside on nodes of {pool.where}, {pending}",
            f"leave {resource} out, or set them aside (vm.nr_hugepages, before the kubelet starts)",
            False,
        )
    return _device(resource, group, pool, pending)


def _efa(number: float, pool: NodePool, pending: str) -> tuple[str, str, bool] | None:
    if not pool.efa:
        certain = pool.kind in ("managed", "karpenter")
        told = "has no EFA" if certain else "says of no EFA"
        return (
            f"it asks for {amount(number)} {EFA} and {pool.where} {told}, {pending}",
            "set efa: true on the pool",
            certain,
        )
    most = _interfaces(pool)
    if not most or number <= most:
        return None
    return (
        f"it asks for {amount(number)} {EFA} and a node of {pool.where} has {most}, {pending}",
        f"ask for at most {most}",
        True,
    )


def _alone(number: float, group: PodGroup, pools: Sequence[NodePool]) -> Iterator[Problem]:
    """Pods that take more of a node's interfaces than of its GPUs, so that some of its GPUs are never used."""
    for pool in pools:
        most, gpus = _interfaces(pool), physical_gpus(group, pool)
        if not pool.efa or not most or not gpus or not pool.gpus_per_node or number > most:
            continue
        by_gpus, by_interfaces = int(pool.gpus_per_node // gpus), int(most // number)
        if by_interfaces < by_gpus:
            share = int(most * gpus // pool.gpus_per_node)
            yield warning(
                group.where,
                f"each of its pods takes {amount(number)} of the {most} {EFA} and {amount(gpus)} of the {pool.gpus_per_node} GPUs of a node of {pool.where}: "
                f"{by_interfaces} on a node where {by_gpus} would fit, and the other GPUs stay idle",
                f"ask for {share}, or for all GPUs of a node" if share else "ask for all GPUs of a node",
            )
            return


def _interfaces(pool: NodePool) -> int:
    """EFA interfaces of one node; 0 where it is not known."""
    return pool.efa_declared_interfaces or max((row.efa_interfaces or 0 for row in rows(pool)), default=0)


def _device(resource: str, group: PodGroup, pool: NodePool, pending: str) -> tuple[str, str, bool] | None:
    if resource == group.gpu_resource or resource in pool.announced:
        return None
    if resource.startswith(("nvidia.com/", "volcano.sh/")):
        return None  # of the rules on GPUs
    certain = resource.startswith(_OTHER_CHIPS) and bool(pool.instance_types)
    message = (
        f"it asks for {resource}, which nothing of this stack puts on nodes of {pool.where}: without its device plugin"
    )
    if certain:
        message = f"it asks for {resource}, a chip that instances of {pool.where} do not have:"
    return f"{message} its pods stay pending", f"leave {resource} out", certain


RULES: tuple[Rule, ...] = (
    Rule(
        id="placement-resources",
        title="Nodes have the devices, disk and huge pages that pods ask for",
        why=(
            "The scheduler places a pod only on a node that advertises each resource it asks for, as much as it asks for. EFA devices are as many as the instance has "
            "interfaces, MIG instances are there when GPUs are cut into them, and other devices need their plugin; a pod that asks in vain waits and is not told why."
        ),
        check=offered,
        sources=(
            "aws/karpenter-provider-aws#8064",
            "awslabs/awsome-distributed-ai PR#1230",
            "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html",
            "https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/",
        ),
    ),
)
