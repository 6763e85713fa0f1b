"""What queues hold: gangs, fewest and most pods against limits and quotas, and what Volcano's capability must name.

Not for: names and hierarchy of queues (queues.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Queue, Stack
from policies.finding import Problem, Rule, error, warning

from ._accounts import accounts
from ._places import VGPU_MEMORY, VGPU_NUMBER
from ._values import amount, before, listed
from .queue_bounds import SHOWN, effect_of
from .queues import LABELS

VGPU_CORES = "volcano.sh/vgpu-cores"


def _ceiling(queue: Queue, resource: str) -> float | None:
    value = getattr(queue, f"{resource}_limit")
    return None if value is None or value < 0 else float(value)


def limit(stack: Stack) -> Iterator[Problem]:
    for account in accounts(stack):
        for resource, unit, show in SHOWN:
            most = _ceiling(account.queue, resource)
            if most is None:
                continue
            alone = False
            for member in account.members:
                where, name = member.workload.where, account.queue.name
                gang, high = getattr(member.gang, resource), getattr(member.most, resource)
                rest = max(gang, getattr(member.rest, resource))
                if rest > most + 1e-6:
                    alone = True
                    yield error(
                        where,
                        f"its fewest pods need {show(rest)} {unit} and queue '{name}' is limited to {show(most)}: the gang is never placed",
                        f"raise the limit to {show(rest)}, or lower the replicas",
                    )
                elif high > most + 1e-6:
                    yield warning(
                        where,
                        f"at full load its pods need {show(high)} {unit} and queue '{name}' is limited to {show(most)}: the last ones stay pending",
                        f"raise the limit to {show(high)}, or lower replicas.max",
                    )
            total = sum(max(getattr(m.gang, resource), getattr(m.rest, resource)) for m in account.members)
            if total > most + 1e-6 and not alone and len(account.members) > 1:
                yield error(
                    account.queue.where,
                    f"its {len(account.members)} services need {show(total)} {unit} at rest and it is limited to {show(most)}: the last one stays pending",
                    f"raise the limit to {show(total)}, or move a service to another queue",
                )


def quota(stack: Stack) -> Iterator[Problem]:
    """KAI: what is not preemptible lives inside the quota of its queue and of every ancestor."""
    for account in accounts(stack):
        if account.queue.scheduler != "kai":
            continue
        for resource, unit, show in SHOWN:
            sure = getattr(account.queue, f"{resource}_quota")
            if sure is None or sure < 0:
                continue
            bound = [member for member in account.members if member.bound]
            need = sum(max(getattr(m.gang, resource), getattr(m.rest, resource)) for m in bound)
            high = sum(getattr(m.most, resource) for m in bound)
            names = ", ".join(member.workload.where for member in bound[:3])
            if need > sure + 1e-6:
                yield error(
                    bound[0].workload.where if len(bound) == 1 else account.queue.where,
                    f"priority class of {names} is not preemptible, so KAI places it inside the quota of queue '{account.queue.name}' only: "
                    f"{show(need)} {unit} are needed at rest, the quota is {show(sure)}",
                    f"raise the quota to {show(need)}, or use priority class train (50, preemptible)",
                )
            elif high > sure + 1e-6:
                yield warning(
                    bound[0].workload.where if len(bound) == 1 else account.queue.where,
                    f"priority class of {names} is not preemptible, so its scale-up ends at the quota of queue '{account.queue.name}': "
                    f"{show(high)} {unit} at full load, the quota is {show(sure)}",
                    f"raise the quota to {show(high)}, or use priority class train (50, preemptible)",
                )


def upgrade(stack: Stack) -> Iterator[Problem]:
    for account in accounts(stack):
        most = _ceiling(account.queue, "gpu")
        if most is None:
            continue
        others = sum(member.rest.gpu for member in account.members)
        for member in account.members:
            peak = others - member.rest.gpu + member.upgrade.gpu
            if member.upgrade.gpu > member.rest.gpu and others <= most + 1e-6 and peak > most + 1e-6:
                yield warning(
                    member.workload.where,
                    f"an upgrade holds two clusters: {amount(peak)} GPUs in queue '{account.queue.name}', limited to {amount(most)}, "
                    "so the new cluster stays pending and the upgrade never ends",
                    f"raise the limit to {amount(peak)}, or use upgrade.strategy incremental or none",
                )


def children(stack: Stack) -> Iterator[Problem]:
    for scheduler in LABELS:
        queues = {queue.name: queue for queue in stack.queues if queue.scheduler == scheduler}
        say, effect = effect_of(stack) if scheduler == "volcano" else (warning, "")
        stops = f": {effect}" if say is error else ""
        promised: dict[str, dict[str, float]] = {}
        for queue in queues.values():
            if queue.parent not in queues:
                continue
            parent = queues[queue.parent]
            for resource, unit, show in SHOWN:
                sure = getattr(queue, f"{resource}_quota")
                if sure is not None and sure > 0:
                    sums = promised.setdefault(parent.name, {})
                    sums[resource] = sums.get(resource, 0.0) + sure
                own, above = _ceiling(queue, resource), _ceiling(parent, resource)
                if own is not None and above is not None and own > above:
                    yield say(
                        queue.where,
                        f"its limit of {show(own)} {unit} is more than the {show(above)} of its parent '{parent.name}'{stops}",
                        f"lower it to {show(above)}, or raise the parent's",
                    )
        for name, sums in promised.items():
            for resource, unit, show in SHOWN:
                sure = getattr(queues[name], f"{resource}_quota")
                if sure is not None and 0 <= sure < sums.get(resource, 0.0) - 1e-6:
                    yield say(
                        queues[name].where,
                        f"its children are promised {show(sums[resource])} {unit} and its own quota is {show(sure)}{stops}",
                        f"raise its quota to {show(sums[resource])}, or lower the children's",
                    )


def capability(stack: Stack) -> Iterator[Problem]:
    # helpers.Min took a resource that is not named for none; MinDimensionResource takes it for unlimited (proportion.go, v1.8.2).
    old = stack.versions.volcano is None or before(stack.versions.volcano, "1.8.2")
    for account in accounts(stack):
        stated = {str(key) for key in account.queue.capability}
        if account.queue.scheduler != "volcano" or not stated:
            continue
        asked: set[str] = set()
        for member in account.members:
            for group in member.workload.pod_groups:
                asked.update(map(str, (*group.limits, *group.requests)))
        missing = (
            asked - stated if old else ({"cpu", "memory"} & asked) - stated if {"cpu", "memory"} & stated else set()
        )
        if missing:
            yield warning(
                account.queue.where,
                f"its capability names {listed(stated)} and not {listed(missing)}, which its services ask for too: Volcano before 1.8.2 takes that for "
                "none and places nothing, later versions for unlimited",
                "state a limit for every resource that its services ask for",
            )
        if (
            VGPU_NUMBER in asked
        ):  # a vGPU without a stated memory is a whole GPU's, and Volcano counts what it allocates
            asked |= {VGPU_MEMORY, VGPU_CORES}
        unknown = [name for name in stated if "/" in name and name not in asked]
        if stack.complete and unknown and account.members:
            yield warning(
                account.queue.where,
                f"its capability names {listed(unknown)}, which none of its services asks for",
                "name resources as the nodes advertise them",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="queue-limit",
        title="A queue's limit holds the gangs in it",
        why=(
            "A gang is placed whole or not at all. When the fewest pods of a service, or of all services of a queue or of its ancestors, are over the "
            "limit, no amount of free nodes helps."
        ),
        check=limit,
        sources=("kuberay#4066", "kai#500"),
    ),
    Rule(
        id="queue-quota-preemptible",
        title="A non-preemptible service fits its queue's quota",
        why=(
            "KAI lets only preemptible pods (class under 100) borrow beyond their queue's quota. `inference` is 125, and the quota's default is 0: such a "
            "service is never placed, though GPUs are free."
        ),
        check=quota,
        sources=("https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0/docs/priority",),
    ),
    Rule(
        id="queue-upgrade-peak",
        title="A queue holds the second cluster of an upgrade",
        why="RayService's NewCluster upgrade runs old and new side by side, in the same queue.",
        check=upgrade,
        sources=("kuberay: rayservice_controller.go",),
    ),
    Rule(
        id="queue-children",
        title="Children do not promise more than their parent has",
        why=(
            "Shares are divided from the top: what the parent is not sure of, its children cannot be. Before 1.14 Volcano's capacity plugin gave every "
            "scheduling cycle up where parts were more than the whole."
        ),
        check=children,
        sources=("volcano#4363", "volcano#4819"),
    ),
    Rule(
        id="queue-capability",
        title="Volcano's capability names every resource asked for",
        why=(
            "A capability with GPUs and CPUs and no memory has blocked jobs that ask for memory; since 1.8.2 a missing resource is unlimited, which a half-stated limit hardly "
            "means. A resource the cluster does not have blocks the queue as well."
        ),
        check=capability,
        sources=("volcano#3426", "volcano#3220"),
    ),
)
