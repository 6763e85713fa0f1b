"""KAI Scheduler: Helm values and queues (scheduling.run.ai/v2). Pure.

Sources: kai-scheduler/KAI-Scheduler v0.17.0 (deployments/kai-scheduler, pkg/apis/scheduling/v2, docs/queues).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.config import Environment, Queue, QueueShare
from components.node_pools import node_autoscaler
from policies.facts import NodePool
from policies.facts import Queue as QueueFact

MEGABYTE = 1_000_000  # KAI counts memory in units of 10^6 bytes
GIBIBYTE = 1024**3


def needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether KAI is the batch scheduler."""
    return env.software.batch_scheduler == "kai"


def values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Helm values. Fractions are refused by KAI's webhook unless gpuSharing is on (its default is off)."""
    config = env.software.kai
    sharing = config.gpu_sharing
    if sharing is None:
        sharing = any(pool.sharing.strategy == "kai" for pool in pools)
    return {
        "global": {
            "gpuSharing": sharing,
            # A node autoscaler does not understand a pod that waits for a fraction; KAI then makes pods that it does.
            "clusterAutoscaling": node_autoscaler(env) != "none",
        },
        "defaultQueue": {"createDefaultQueue": config.default_queue},
    }


def queues(env: Environment) -> list[dict[str, Any]]:
    """Queue objects, parents before children."""
    return [_queue(name, env.queues[name]) for name in parents_first(env.queues)]


def facts(env: Environment) -> tuple[QueueFact, ...]:
    """The same queues as the rules see them."""
    return tuple(
        QueueFact(
            name=name,
            where=f"queue '{name}'",
            scheduler="kai",
            parent=queue.parent,
            gpu_quota=queue.gpu.quota,
            gpu_limit=queue.gpu.limit,
            cpu_quota=scaled(queue.cpu.quota, 1000),
            cpu_limit=scaled(queue.cpu.limit, 1000),
            memory_quota=scaled(queue.memory_gib.quota, 1024),
            memory_limit=scaled(queue.memory_gib.limit, 1024),
            priority=queue.priority,
        )
        for name, queue in sorted(env.queues.items())
    )


def _queue(name: str, queue: Queue) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "priority": queue.priority,
        "resources": {
            "gpu": _share(queue.gpu, 1),
            "cpu": _share(queue.cpu, 1000),
            "memory": _share(queue.memory_gib, GIBIBYTE / MEGABYTE),
        },
    }
    if queue.parent is not None:
        spec["parentQueue"] = queue.parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _share(share: QueueShare, unit: float) -> dict[str, float]:
    return {
        "quota": _number(scaled(share.quota, unit)),
        "limit": _number(scaled(share.limit, unit)),
        "overQuotaWeight": _number(share.weight),
    }


def scaled(value: float, unit: float) -> float:
    """In `unit`s; -1 (unlimited) stays."""
    return -1 if value == -1 else value * unit


def _number(value: float) -> float:
    rounded = round(value, 3)
    return int(rounded) if rounded == int(rounded) else rounded


def parents_first(queues: dict[str, Queue]) -> list[str]:
    """Names so that a parent comes before its children; names sorted within. A circle (a rule refuses it) comes last."""
    done: list[str] = []
    left = dict(sorted(queues.items()))
    while left:
        ready = [name for name, queue in left.items() if queue.parent not in left]
        if not ready:
            return [*done, *left]
        done.extend(ready)
        left = {name: queue for name, queue in left.items() if name not in ready}
    return done
