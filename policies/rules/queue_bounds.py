"""A queue's own numbers, and those of its children: what is sure within what it may have, parts within the whole.

Not for: what workloads need of them (queue_shares.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from policies.facts import Queue, Stack
from policies.facts.quantities import items, mapping, quantity
from policies.finding import Problem, Rule, error, warning

from ._values import amount, before, gib
from .pod_resources import no_resource

SHOWN = (("gpu", "GPUs", amount), ("cpu", "CPU cores", lambda m: amount(m / 1000)), ("memory", "of memory", gib))


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MOST_CHARACTERS = 63  # workloads name the queue in a label


def names(stack: Stack) -> Iterator[Problem]:
    for queue in stack.queues:
        if not _NAME.fullmatch(queue.name) or len(queue.name) > _MOST_CHARACTERS:
            better = re.sub(r"[^a-z0-9.]+", "-", queue.name.casefold()).strip("-.")[:_MOST_CHARACTERS]
            yield error(
                queue.where,
                f"'{queue.name}' is no name of a Kubernetes object of at most {_MOST_CHARACTERS} characters: lower-case letters, digits, '-' and '.'",
                f"call it '{better}'" if better else "use such a name",
            )


def resources(stack: Stack) -> Iterator[Problem]:
    """Quantities of Volcano's and Kueue's queues under names that no pod asks for."""
    for item in stack.of_kind("Queue", group="scheduling.volcano.sh/"):
        for field in ("capability", "deserved", "guarantee"):
            given = mapping(item.spec.get(field))
            yield from _odd(item.where, field, mapping(given.get("resource")) if field == "guarantee" else given)
    for item in stack.of_kind("ClusterQueue", group="kueue.x-k8s.io/"):
        for group in map(mapping, items(item.spec.get("resourceGroups"))):
            # Kueue's own configuration may give any name to what it counts (deviceClassMappings, transformations).
            names = [str(name) for name in items(group.get("coveredResources")) if "." not in str(name)]
            yield from (each for each in _odd(item.where, "coveredResources", names) if each.mend.startswith("use '"))


def _odd(where: str, field: str, names: Iterable[str]) -> Iterator[Problem]:
    for name in names:
        mend = no_resource(str(name)) if name != "pods" else None
        if mend is not None:
            yield warning(where, f"its {field} has '{name}', which no pod asks for: it bounds nothing", mend)


def own(stack: Stack) -> Iterator[Problem]:
    for queue in stack.queues:
        say = error if queue.scheduler == "volcano" else warning
        for resource, unit, show in SHOWN:
            sure, most = getattr(queue, f"{resource}_quota"), getattr(queue, f"{resource}_limit")
            if sure is None or most is None or most < 0 or sure <= most + 1e-6:
                continue
            effect = (
                "Volcano's webhook refuses the queue (deserved <= capability)"
                if queue.scheduler == "volcano"
                else "it never gets more than the limit, and the rest is kept from others"
            )
            yield say(
                queue.where,
                f"it is sure of {show(sure)} {unit} and may have {show(most)}: {effect}",
                f"raise the limit to {show(sure)}, or lower the quota",
            )
        yield from _guarantee(queue)


def _guarantee(queue: Queue) -> Iterator[Problem]:
    sure = {"nvidia.com/gpu": queue.gpu_quota, "cpu": queue.cpu_quota, "memory": queue.memory_quota}
    unit = {"cpu": 1000.0, "memory": 1 / 2**20}
    for name, given in queue.guarantee.items():
        kept = quantity(given)
        if kept is None or kept <= 0 or name not in sure:
            continue
        deserved = sure[name]
        if deserved is None or 0 <= deserved < kept * unit.get(name, 1.0) - 1:
            yield error(
                queue.where,
                f"it keeps {given} {name} for itself (guarantee) and deserves {'none' if not deserved else 'less'}: Volcano's webhook refuses the queue (guarantee <= deserved)",
                "raise the quota (deserved) to the guarantee",
            )


def parts(stack: Stack) -> Iterator[Problem]:
    """Volcano checks these when a scheduling cycle opens. Before 1.14 a tree that contradicts itself stopped every queue."""
    say, effect = effect_of(stack)
    queues = {queue.name: queue for queue in stack.queues if queue.scheduler == "volcano"}
    kept: dict[str, dict[str, float]] = {}
    for queue in queues.values():
        if queue.parent not in queues:
            continue
        parent = queues[queue.parent]
        for name, given in queue.guarantee.items():
            number = quantity(given)
            if number is not None:
                sums = kept.setdefault(parent.name, {})
                sums[name] = sums.get(name, 0.0) + number
    for parent_name, sums in kept.items():
        parent = queues[parent_name]
        for name, total in sums.items():
            has = quantity(parent.guarantee.get(name)) or 0.0
            if total > has + 1e-6:
                yield say(
                    parent.where,
                    f"its children keep {_plain(name, total)} for themselves (guarantee) and it keeps {_plain(name, has)}: {effect}",
                    f"raise its guarantee to {_plain(name, total)}, or lower the children's",
                )


def effect_of(stack: Stack) -> tuple[Callable[[str, str, str], Problem], str]:
    """What Volcano makes of parts that are more than the whole: (severity, its words)."""
    if before(stack.versions.volcano, "1.14"):
        return error, "Volcano before 1.14 gives every scheduling cycle up, for all queues"
    return warning, "not all of it can be had at once"


def _plain(name: str, number: float) -> str:
    return f"{gib(number / 2**20)} of memory" if name == "memory" else f"{amount(number)} {name}"


RULES: tuple[Rule, ...] = (
    Rule(
        id="queue-name",
        title="A queue's name is one that Kubernetes takes",
        why="Queues are objects of the cluster, and workloads name theirs in a label: both take lower-case names of at most 63 characters. Others are refused.",
        check=names,
        sources=("https://kubernetes.io/docs/concepts/overview/working-with-objects/names/",),
    ),
    Rule(
        id="queue-bounds",
        title="What a queue is sure of is within what it may have",
        why=(
            "Volcano wants guarantee <= deserved <= capability, and its webhook refuses anything else. In KAI the part of a quota beyond the limit is taken from "
            "everybody and used by nobody."
        ),
        check=own,
        sources=("volcano#4292", "volcano#2166", "volcano v1.15.1: pkg/webhooks/admission/queues/validate"),
    ),
    Rule(
        id="queue-guarantees",
        title="Guarantees of children are part of their parent's",
        why=(
            "Volcano accepts queues whose guarantees add up to more than their parent's, and checks it when a scheduling cycle opens. Before 1.14 the cycle is then given "
            "up and nothing in the cluster is placed; since then it is one line in a log, and some guarantee is not met."
        ),
        check=parts,
        sources=("volcano#4818", "volcano v1.13.1 and v1.15.1: pkg/scheduler/plugins/capacity"),
    ),
    Rule(
        id="queue-resources",
        title="Queues count resources that pods ask for",
        why="A queue's quantities are a map of any names. One that no pod can ask for, such as mem or gpu, bounds nothing in Volcano, and leaves what was meant uncovered in Kueue.",
        check=resources,
        sources=("volcano#4867",),
    ),
)
