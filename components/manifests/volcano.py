"""Volcano: Helm values, scheduler configuration, queues (scheduling.volcano.sh/v1beta1), and HAMi's vGPU device plugin. Pure.

Sources: volcano-sh/volcano v1.15.1 (installer/helm/chart/volcano, docs/user-guide, pkg/webhooks/admission/queues);
Project-HAMi/volcano-vgpu-device-plugin v1.12.0 (deployments/helm).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import yaml

from components.config import Environment, Queue
from components.manifests.gpu_operator import tolerations
from components.manifests.kai import parents_first, scaled
from components.node_pools import node_selector
from components.node_resources import GPU_RESOURCE, VGPU_PER_GPU
from components.versions import VOLCANO
from policies.facts import NodePool
from policies.facts import Queue as QueueFact


def needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether Volcano is the batch scheduler."""
    return env.software.batch_scheduler == "volcano"


def values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Helm values. The image tag is said, so that an overridden chart version and its images stay in step."""
    version = (env.software.volcano.version or VOLCANO.version).removeprefix("v")
    result: dict[str, Any] = {"basic": {"image_tag_version": f"v{version}", "image_pull_policy": "IfNotPresent"}}
    config = scheduler_config(env, pools)
    if config is not None:
        result["custom"] = {"scheduler_config_override": config}
    return result


def scheduler_config(env: Environment, pools: Sequence[NodePool]) -> str | None:
    """The scheduler's configuration as YAML; None while the chart's own will do.

    Differences: `capacity` in place of `proportion`, with the reclaim action, when a queue states what it is sure of or has a
    parent (proportion knows weights only, and the two cannot be used together); `deviceshare` for vGPUs.
    """
    vgpu = any(pool.sharing.strategy == "volcano_vgpu" for pool in pools)
    nested = any(queue.parent is not None for queue in env.queues.values())
    capacity = nested or any(_deserved(queue) or _guarantee(queue) for queue in env.queues.values())
    if not vgpu and not capacity:
        return None
    sharing: list[dict[str, Any]] = []
    if vgpu:
        arguments = {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack"}
        sharing = [{"name": "deviceshare", "arguments": arguments}]
    quota: dict[str, Any] = {"name": "capacity"} if capacity else {"name": "proportion"}
    if nested:
        quota["enableHierarchy"] = True
    plugins = [
        {"name": "overcommit"},
        {"name": "drf", "enablePreemptable": False},
        *sharing,
        {"name": "predicates"},
        quota,
        {"name": "nodeorder"},
        {"name": "binpack"},
    ]
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]
    actions = "enqueue, allocate, backfill" + (", reclaim" if capacity else "")
    return yaml.safe_dump({"actions": actions, "tiers": [{"plugins": first}, {"plugins": plugins}]}, sort_keys=False)


def queues(env: Environment) -> list[dict[str, Any]]:
    """Queue objects, parents before children."""
    return [_queue(name, env.queues[name]) for name in parents_first(env.queues)]


def facts(env: Environment) -> tuple[QueueFact, ...]:
    """The same queues as the rules see them."""
    return tuple(
        QueueFact(
            name=name,
            where=f"queue '{name}'",
            scheduler="volcano",
            parent=queue.parent,
            gpu_quota=queue.gpu.quota,
            gpu_limit=queue.gpu.limit,
            cpu_quota=scaled(queue.cpu.quota, 1000),
            cpu_limit=scaled(queue.cpu.limit, 1000),
            memory_quota=scaled(queue.memory_gib.quota, 1024),
            memory_limit=scaled(queue.memory_gib.limit, 1024),
            capability=_capability(queue),
            priority=queue.priority,
        )
        for name, queue in sorted(env.queues.items())
    )


def _queue(name: str, queue: Queue) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "weight": min(65535, max(1, round(queue.gpu.weight))),
        "priority": queue.priority,
        "reclaimable": queue.reclaimable,
    }
    if queue.parent is not None:
        spec["parent"] = queue.parent
    for key, resources in (("capability", _capability(queue)), ("deserved", _deserved(queue))):
        if resources:
            spec[key] = resources
    guarantee = _guarantee(queue)
    if guarantee:
        spec["guarantee"] = {"resource": guarantee}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _capability(queue: Queue) -> dict[str, str]:
    return _resources(queue.cpu.limit, queue.memory_gib.limit, queue.gpu.limit, least=0)


def _deserved(queue: Queue) -> dict[str, str]:
    return _resources(queue.cpu.quota, queue.memory_gib.quota, queue.gpu.quota)


def _guarantee(queue: Queue) -> dict[str, str]:
    return _resources(queue.cpu.guarantee, queue.memory_gib.guarantee, queue.gpu.guarantee)


def _resources(cpu: float, memory_gib: float, gpu: float, least: float = 1e-9) -> dict[str, str]:
    """A Kubernetes resource list of what is stated: -1 is unlimited and left out, and so is less than `least`."""
    stated = {
        "cpu": (cpu, f"{round(cpu * 1000)}m"),
        "memory": (memory_gib, f"{round(memory_gib * 1024)}Mi"),
        GPU_RESOURCE: (gpu, f"{math.floor(gpu)}"),
    }
    return {name: text for name, (value, text) in stated.items() if value >= least}


def vgpu_pools(pools: Sequence[NodePool]) -> tuple[NodePool, ...]:
    """Pools whose GPUs are shared by Volcano vGPU."""
    return tuple(pool for pool in pools if pool.sharing.strategy == "volcano_vgpu")


def vgpu_needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether a pool's sharing is volcano_vgpu."""
    return bool(vgpu_pools(pools))


def vgpu_values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Values of the device plugin that takes NVIDIA's place on those pools' nodes, and on no others.

    deviceSplitCount is one figure for all nodes; the pool that splits most sets it.
    """
    found = vgpu_pools(pools)
    split = max((pool.sharing.replicas or VGPU_PER_GPU for pool in found), default=VGPU_PER_GPU)
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]} for key, value in node_selector(pool).items()
            ]
        }
        for pool in found
    ]
    return {
        "deviceConfig": {"nvidia": {"deviceSplitCount": split}},
        # The chart's own entry is an example for one node of somebody's cluster.
        "nodeConfig": {"enabled": False},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, *tolerations(found)],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
    }
