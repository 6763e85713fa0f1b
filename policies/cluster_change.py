"""Which edits of a RayService start a new Ray cluster, and so hold twice the GPUs for a while.

For: the difference between a plan and what is deployed. Not for: rules over one state (policies/rules/upgrade.py).
KubeRay compares a hash of rayClusterConfig without some fields; everything outside rayClusterConfig is in place.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from policies.facts.quantities import items, mapping


def new_cluster_reasons(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Paths under `spec.rayClusterConfig` whose change makes KubeRay prepare a new cluster; () when the edit is in place.

    `before` and `after` are RayService manifests. Source: GenerateHashWithoutReplicasAndWorkersToDelete (util.go) and
    isClusterSpecHashEqual (rayservice_controller.go), v1.7.0: replicas, minReplicas, maxReplicas, workersToDelete, tolerations,
    schedulingGates and upgradeStrategy are left out of the hash, and worker groups appended at the end are added in place.
    """
    old, new = _hashed(before), _hashed(after)
    groups = items(old.get("workerGroupSpecs"))
    if len(items(new.get("workerGroupSpecs"))) > len(groups):
        new["workerGroupSpecs"] = items(new["workerGroupSpecs"])[: len(groups)]
    return tuple(sorted(differences(old, new, "")))


def _hashed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    cluster = copy.deepcopy(mapping(mapping(manifest.get("spec")).get("rayClusterConfig")))
    cluster.pop("upgradeStrategy", None)
    head = mapping(cluster.get("headGroupSpec"))
    for group in (head, *map(mapping, items(cluster.get("workerGroupSpecs")))):
        pod = mapping(mapping(group.get("template")).get("spec"))
        pod.pop("tolerations", None)
        pod.pop("schedulingGates", None)
        if group is not head:
            for key in ("replicas", "minReplicas", "maxReplicas"):
                group.pop(key, None)
            scale = mapping(group.get("scaleStrategy"))
            scale.pop("workersToDelete", None)
            if not scale:
                group.pop("scaleStrategy", None)
    return cluster


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Paths at which two values differ, such as `spec.containers[0].image`; a list of another length as a whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        found: list[str] = []
        for key in {*old, *new}:
            found.extend(differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key)))
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [d for i, (a, b) in enumerate(zip(old, new, strict=True)) for d in differences(a, b, f"{path}[{i}]")]
    return [] if old == new else [path or "rayClusterConfig"]
