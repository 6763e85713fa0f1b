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
from components.node_resources import GPU_RESOURCE, VGPU_MEMORY, VGPU_PER_GPU, VGPU_RESOURCE
from components.versions import VOLCANO
from policies.facts import NodePool
from policies.facts import Queue as QueueFact

PACK_GPUS = {"binpack.weight": 10, "binpack.resources": GPU_RESOURCE, f"binpack.resources.{GPU_RESOURCE}": 10}
"""Arguments of the binpack plugin, which looks at CPU and memory alone unless told (pkg/scheduler/plugins/binpack/binpack.go)."""


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
    parent (proportion knows weights only, and the two cannot be used together); `deviceshare` for vGPUs; on nodes of several GPUs
    `binpack` counts these, and weighs more than `nodeorder`, whose preference for empty nodes cancels its default.
    """
    vgpu = any(pool.sharing.strategy == "volcano_vgpu" for pool in pools)
    nested = any(queue.parent is not None for queue in env.queues.values())
    shares = [share for queue in env.queues.values() for share in (queue.gpu, queue.cpu, queue.memory_gib)]
    capacity = nested or any(share.quota > 0 or share.guarantee > 0 for share in shares)
    several = any(pool.gpus_per_node > 1 for pool in pools)
    if not vgpu and not capacity and not several:
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
        {"name": "binpack", **({"arguments": PACK_GPUS} if several else {})},
    ]
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]
    actions = "enqueue, allocate, backfill" + (", reclaim" if capacity else "")
    return yaml.safe_dump({"actions": actions, "tiers": [{"plugins": first}, {"plugins": plugins}]}, sort_keys=False)


def queues(env: Environment, pools: Sequence[NodePool]) -> list[dict[str, Any]]:
    """Queue objects, parents before children."""
    return [_queue(name, env.queues[name], gpu_units(name, env, pools)) for name in parents_first(env.queues)]


def facts(env: Environment, pools: Sequence[NodePool]) -> tuple[QueueFact, ...]:
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
            capability=_resources(queue, "limit", gpu_units(name, env, pools), least=0),
            guarantee=_resources(queue, "guarantee", gpu_units(name, env, pools)),
            priority=queue.priority,
        )
        for name, queue in sorted(env.queues.items())
    )


def gpu_units(name: str, env: Environment, pools: Sequence[NodePool]) -> dict[str, int]:
    """What one GPU of a queue is in the resources that its pods ask for: {"nvidia.com/gpu": 1}, or of a vGPU pool its slots and MiB.

    The pools are those that services of the queue's subtree name, else all. Volcano counts vgpu-number from requests and
    vgpu-memory from what was allocated (pkg/scheduler/api/devices/nvidia/vgpu AddQueueResource, v1.15.1); where GPUs of two sizes
    are shared, the larger one counts.
    """
    below = {name}
    for child in parents_first(env.queues):  # parents come first, so one pass finds the subtree
        if env.queues[child].parent in below:
            below.add(child)
    members = [service for service in env.services.values() if service.queue in below]
    named = {each for service in members for each in (service.pool, *(model.pool for model in service.models.values()))}
    used = [pool for pool in pools if pool.gpus_per_node and (pool.name in named or not named - {None})]
    shared = vgpu_pools(used)
    units = {} if shared and len(shared) == len(used) else {GPU_RESOURCE: 1}
    if shared:
        units[VGPU_RESOURCE] = _split(vgpu_pools(pools))
        memory = [pool.gpu_mib for pool in shared if pool.gpu_mib]
        if memory:
            units[VGPU_MEMORY] = max(memory)
    return units


def _queue(name: str, queue: Queue, units: dict[str, int]) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "weight": min(65535, max(1, round(queue.gpu.weight))),
        "priority": queue.priority,
        "reclaimable": queue.reclaimable,
    }
    if queue.parent is not None:
        spec["parent"] = queue.parent
    for key, resources in (
        ("capability", _resources(queue, "limit", units, least=0)),
        ("deserved", _resources(queue, "quota", units)),
    ):
        if resources:
            spec[key] = resources
    guarantee = _resources(queue, "guarantee", units)
    if guarantee:
        spec["guarantee"] = {"resource": guarantee}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _resources(queue: Queue, part: str, units: dict[str, int], least: float = 1e-9) -> dict[str, str]:
    """A Kubernetes resource list of what is stated: -1 is unlimited and left out, and so is less than `least`."""
    cpu, memory, gpu = (getattr(share, part) for share in (queue.cpu, queue.memory_gib, queue.gpu))
    stated = {"cpu": (cpu, f"{round(cpu * 1000)}m"), "memory": (memory, f"{round(memory * 1024)}Mi")}
    stated |= {name: (gpu, f"{math.floor(gpu * unit + 1e-6)}") for name, unit in units.items()}
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
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]} for key, value in node_selector(pool).items()
            ]
        }
        for pool in found
    ]
    return {
        "deviceConfig": {"nvidia": {"deviceSplitCount": _split(found)}},
        # The chart's own entry is an example for one node of somebody's cluster.
        "nodeConfig": {"enabled": False},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, *tolerations(found)],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
    }


def _split(pools: Sequence[NodePool]) -> int:
    return max((pool.sharing.replicas or VGPU_PER_GPU for pool in pools), default=VGPU_PER_GPU)
