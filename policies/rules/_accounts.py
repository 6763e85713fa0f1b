"""Queues with the workloads of their whole subtree, and what those ask for. Not for: judging (queue_shares.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from policies.facts import PodGroup, Queue, Stack, Workload

from ._places import VGPU_NUMBER, desired, physical_gpus, places, pods_at_most, pods_at_rest, requested_gpus
from .queues import LABELS, queue_label

# KAI's classes of 100 and more are not preemptible, and what is not preemptible may use quota only
# (templates/priorityclass; proportion plugin). `train` and `build-preemptible` may borrow.
NON_PREEMPTIBLE = ("inference", "build")


@dataclass(slots=True)
class Load:
    """GPUs, CPU (milli-cores) and memory (MiB) of one workload, or of all workloads of a queue."""

    gpu: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0

    def add(self, other: Load) -> None:
        self.gpu += other.gpu
        self.cpu += other.cpu
        self.memory += other.memory


@dataclass(slots=True)
class Member:
    """A workload in a queue: what its gang, its fewest and its most pods ask for, and its upgrade."""

    workload: Workload
    gang: Load
    rest: Load
    most: Load
    upgrade: Load
    bound: bool = False  # not preemptible


@dataclass(slots=True)
class Account:
    """A queue with the members of its whole subtree."""

    queue: Queue
    members: list[Member] = field(default_factory=list)


def _load(stack: Stack, pods: list[tuple[PodGroup, int]]) -> Load:
    total = Load()
    for group, count in pods:
        total.gpu += _gpus(stack, group) * count
        total.cpu += (group.cpu_milli or 0) * count
        total.memory += (group.memory_mib or 0) * count
    return total


def _gpus(stack: Stack, group: PodGroup) -> float:
    """GPUs of one pod; a vGPU is the part of a GPU whose memory it asks for."""
    pool = places(stack).home(group) if group.gpu_resource == VGPU_NUMBER else None
    return physical_gpus(group, pool) if pool is not None else requested_gpus(group)


def _gang_pods(stack: Stack, workload: Workload, group: PodGroup) -> int:
    low = group.min or 0
    if stack.batch_scheduler == "kai":
        return (low if low > 0 else group.replicas or 0) * group.hosts
    return (low if workload.autoscaling else desired(group)) * group.hosts


def _member(stack: Stack, workload: Workload) -> Member:
    head = [(workload.head, 1)] if workload.head is not None else []
    rest = _load(stack, head + [(g, pods_at_rest(workload, g)) for g in workload.groups])
    twice = workload.kind == "RayService" and workload.upgrade_type in (None, "NewCluster")
    upgrade = Load()
    upgrade.add(rest)
    if twice:
        upgrade.add(_load(stack, head + [(g, max(pods_at_rest(workload, g), _one(g))) for g in workload.groups]))
    return Member(
        workload=workload,
        gang=_load(stack, head + [(g, _gang_pods(stack, workload, g)) for g in workload.groups]),
        rest=rest,
        most=_load(stack, head + [(g, pods_at_most(workload, g)) for g in workload.groups]),
        upgrade=upgrade,
        bound=_bound(stack, workload),
    )


def _one(group: PodGroup) -> int:
    return group.hosts if group.max else 0


def _bound(stack: Stack, workload: Workload) -> bool:
    if stack.batch_scheduler != "kai":
        return False
    stated = str(workload.labels.get("kai.scheduler/preemptibility", "")).lower()
    if stated:
        return stated == "non-preemptible"
    label = workload.labels.get("ray.io/priority-class-name") or workload.labels.get("priorityClassName")
    pods = next((g.labels["priorityClassName"] for g in workload.groups if g.labels.get("priorityClassName")), None)
    spec = next((g.priority_class for g in workload.groups if g.priority_class), None)
    return str(label or pods or spec or "") in NON_PREEMPTIBLE


def accounts(stack: Stack) -> list[Account]:
    """Every queue with the workloads of its subtree; linear in workloads times the depth of the tree."""
    scheduler = stack.batch_scheduler or ""
    if scheduler not in LABELS:
        return []
    found = {queue.name: Account(queue) for queue in stack.queues if queue.scheduler == scheduler}
    for workload in stack.workloads:
        name = queue_label(stack, workload)
        if name is None or name not in found:
            continue
        member = _member(stack, workload)
        seen: set[str] = set()
        while name is not None and name in found and name not in seen:
            seen.add(name)
            found[name].members.append(member)
            name = found[name].queue.parent
    return list(found.values())
