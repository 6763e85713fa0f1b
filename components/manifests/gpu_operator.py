"""Values of the NVIDIA GPU Operator: driver and toolkit by the nodes' image, and how each pool's GPUs are shared. Pure.

Sources: NVIDIA/gpu-operator v26.7.0 (controllers/object_controls.go, deployments/gpu-operator/templates); NVIDIA/k8s-device-plugin
v0.20.0 (api/config/v1); AWS' and NVIDIA's pages on the operator on EKS.
Not for: node labels (components/node_pools.py puts them on the pools we make), or Bottlerocket's own plugin (user_data.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from components.config import Environment
from components.manifests import monitoring
from policies.catalog import amis
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Sharing, Toleration

CONFIG_MAP = "device-plugin-configs"
DEFAULT_CONFIG = "default"
# Tolerations of the operator's own charts (values.yaml of v26.7.0): a list replaces the chart's, so they are said again.
_GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_CONTROL_PLANE_TOLERATION = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Exists",
    "effect": "NoSchedule",
}


def gpu_pools(pools: Sequence[NodePool]) -> tuple[NodePool, ...]:
    """Pools with GPUs."""
    return tuple(pool for pool in pools if pool.gpus_per_node or pool.gpu)


def needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether a pool has GPUs: without the device plugin no pod gets one, and Karpenter never counts a node as ready
    (karpenter-provider-aws#3862)."""
    return bool(gpu_pools(pools))


def values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Helm values. Driver, toolkit, plugin: what the nodes' image has, the operator must not bring again."""
    found = gpu_pools(pools)
    # Nodes that are there in a cluster on AWS run EKS' images as well: one operator cannot bring a driver to these alone.
    existing = [pool for pool in found if pool.kind == "existing"] if env.cluster.kind == "existing" else []
    plugin: dict[str, Any] = {"enabled": not found or any(not _plugin_in_image(pool) for pool in found)}
    configs = plugin_configs(found)
    if configs:
        plugin["config"] = {"name": CONFIG_MAP, "create": True, "default": _default(found), "data": configs}
    result: dict[str, Any] = {
        # There is no driver image for Amazon Linux or Bottlerocket (gpu-operator#686); EKS images carry driver and toolkit.
        "driver": {"enabled": any(pool.driver_version is None for pool in existing)},
        "toolkit": {"enabled": bool(existing)},
        "devicePlugin": plugin,
        "daemonsets": {"tolerations": [_GPU_TOLERATION, *tolerations(found)]},
        # A value of its own: without it, nodes with another taint get no NFD labels, and then nothing else (k8s-device-plugin#1934).
        "node-feature-discovery": {
            "worker": {"tolerations": [_CONTROL_PLANE_TOLERATION, _GPU_TOLERATION, *tolerations(found)]}
        },
        "dcgmExporter": {
            "enabled": env.software.gpu_operator.dcgm_exporter,
            "serviceMonitor": {"enabled": env.software.gpu_operator.dcgm_exporter and monitoring.installed(env)},
        },
        # The environment variable that this becomes beats a pool's own configuration: where pools differ, it stays unset.
        "mig": {"strategy": _mig_strategy(found)},
    }
    if any(pool.sharing.strategy == "mig" for pool in found):
        # In a cloud the GPU cannot be reset under a running driver; without the reboot the label stays "failed".
        result["migManager"] = {"enabled": True, "env": [{"name": "WITH_REBOOT", "value": "true"}]}
    return result


def tolerations(pools: Sequence[NodePool]) -> list[dict[str, str]]:
    """Tolerations for all taints of the pools but nvidia.com/gpu: by key, so that a value changed by hand is tolerated too."""
    wanted = {
        Toleration(key=taint.key, operator="Exists", effect=taint.effect)
        for pool in pools
        for taint in pool.taints
        if (taint.key, taint.effect) != ("nvidia.com/gpu", "NoSchedule") and taint.effect != "PreferNoSchedule"
    }
    entries = sorted(wanted, key=lambda toleration: (toleration.key, toleration.effect))
    return [{"key": each.key, "operator": "Exists", "effect": each.effect} for each in entries]


def plugin_configs(pools: Sequence[NodePool]) -> dict[str, str]:
    """Entries of the device plugin's ConfigMap: one for each pool that shares its GPUs by it, and `default` for the others.

    Nodes choose theirs by the label nvidia.com/device-plugin.config. Empty when no pool needs one.
    """
    shared = {pool.name: _plugin_config(pool.sharing) for pool in pools if _configured(pool)}
    if not shared:
        return {}
    entries = {DEFAULT_CONFIG: {"version": "v1", "flags": {"migStrategy": "none"}}} | shared
    return {name: yaml.safe_dump(entry, sort_keys=True) for name, entry in sorted(entries.items())}


def _configured(pool: NodePool) -> bool:
    return pool.sharing.strategy in ("time_slicing", "mps", "mig") and not _plugin_in_image(pool)


def _plugin_config(sharing: Sharing) -> dict[str, Any]:
    strategy = sharing.mig_strategy if sharing.strategy == "mig" else "none"
    config: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": strategy}}
    resources = [{"name": "nvidia.com/gpu", "replicas": sharing.replicas or 1}]
    # Both switches belong under sharing; under flags they are ignored (k8s-device-plugin#1433).
    if sharing.strategy == "time_slicing":
        config["sharing"] = {
            "timeSlicing": {
                "renameByDefault": sharing.rename_by_default,
                "failRequestsGreaterThanOne": sharing.fail_requests_greater_than_one,
                "resources": resources,
            }
        }
    elif sharing.strategy == "mps":
        config["sharing"] = {"mps": {"renameByDefault": sharing.rename_by_default, "resources": resources}}
    return config


def _default(pools: Sequence[NodePool]) -> str:
    """Entry of nodes without the label: the pools' own where all share alike (nodes that others made carry no label of ours)."""
    mine = [pool for pool in pools if not _plugin_in_image(pool)]
    alike = {pool.sharing for pool in mine}
    return mine[0].name if len(alike) == 1 and _configured(mine[0]) else DEFAULT_CONFIG


def _mig_strategy(pools: Sequence[NodePool]) -> str:
    strategies = {pool.sharing.mig_strategy for pool in pools if pool.sharing.strategy == "mig"}
    if len(strategies) > 1:
        return ""
    return strategies.pop() if strategies else "none"


def _plugin_in_image(pool: NodePool) -> bool:
    """Whether the node's operating system has the device plugin, or another one replaces NVIDIA's."""
    if pool.sharing.strategy == "volcano_vgpu":
        return True
    if pool.ami_type is None:
        return False
    try:
        return amis.get(pool.ami_type).device_plugin
    except UnknownRow:
        return False
