"""How GPUs of a pool are shared, read off the device plugin's configuration: GPU Operator, its own chart, Bottlerocket.

For pools that others declared: there sharing is not said of the pool but of the plugin, and a node label picks the entry.
Not for: judging a configuration (policies/rules/device_plugin.py).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from .quantities import items, mapping, whole
from .records.nodes import NodePool, Sharing
from .records.stack import Object, Release
from .records.values import Values

CONFIG_LABEL, MIG_LABEL = "nvidia.com/device-plugin.config", "nvidia.com/mig.config"
_PLUGINS = ("gpu-operator", "nvidia-device-plugin")


def apply(pools: Iterable[NodePool], releases: Sequence[Release], objects: Iterable[Object]) -> tuple[NodePool, ...]:
    """The pools with the sharing that the stack's device plugins give their nodes; a pool that states its own keeps it."""
    plugin = _plugin(releases)
    if plugin is None:
        return tuple(pools)
    entries, default = _entries(plugin, objects)
    strategy = mapping(plugin.values.get("mig")).get("strategy") or plugin.values.get("migStrategy")
    return tuple(_shared(pool, entries, default, str(strategy or "single")) for pool in pools)


def by_default(releases: Sequence[Release], objects: Iterable[Object]) -> Sharing:
    """Sharing of any node, where the device plugin's configuration has no other entry that its labels could choose."""
    plugin = _plugin(releases)
    if plugin is None:
        return Sharing()
    entries, default = _entries(plugin, objects)
    only = entries.get(default or "") if len(entries) == 1 else None
    return (_slices(only) if only else None) or Sharing()


def _plugin(releases: Sequence[Release]) -> Release | None:
    return next((r for r in releases if r.values_known and _chart(r) in _PLUGINS), None)


def of_bottlerocket(user_data: str) -> Sharing:
    """What Bottlerocket's settings make of its GPUs: its device plugin is part of the system and is set by user data."""
    try:
        settings = mapping(tomllib.loads(user_data).get("settings"))
    except tomllib.TOMLDecodeError:
        return Sharing()
    nvidia = mapping(mapping(settings.get("kubelet-device-plugins")).get("nvidia"))
    if nvidia.get("device-partitioning-strategy") == "mig":
        profiles = mapping(mapping(nvidia.get("mig")).get("profile"))
        profile = next(iter(profiles.values()), None)
        return Sharing(strategy="mig", mig_profile=str(profile) if profile else None)
    strategy = str(nvidia.get("device-sharing-strategy") or "none")
    if strategy not in ("time-slicing", "mps"):
        return Sharing()
    chosen = mapping(nvidia.get(strategy))
    return Sharing(
        strategy=strategy.replace("-", "_"),
        replicas=whole(chosen.get("replicas")),
        rename_by_default=chosen.get("rename-by-default") is True,
        fail_requests_greater_than_one=chosen.get("fail-requests-greater-than-one") is not False,
    )


def _chart(release: Release) -> str:
    return release.chart.rstrip("/").rsplit("/", 1)[-1]


def _shared(pool: NodePool, entries: Mapping[str, Values], default: str | None, strategy: str) -> NodePool:
    if pool.sharing.strategy != "none" or not pool.gpus_per_node:
        return pool
    entry = entries.get(str(pool.labels.get(CONFIG_LABEL) or default or ""), {})
    profile = str(pool.labels.get(MIG_LABEL) or "")
    if profile and profile != "all-disabled":
        kind = str(mapping(entry.get("flags")).get("migStrategy") or strategy)
        found = Sharing(strategy="mig", mig_strategy=kind, mig_profile=profile.removeprefix("all-"))
        return replace(pool, sharing=found)
    slices = _slices(entry)
    return replace(pool, sharing=slices) if slices else pool


def _slices(entry: Values) -> Sharing | None:
    """What an entry of the plugin's configuration makes of whole GPUs, where it shares them."""
    sharing = mapping(entry.get("sharing"))
    for key, name in (("mps", "mps"), ("timeSlicing", "time_slicing")):  # with both, mps wins
        chosen = mapping(sharing.get(key))
        for resource in map(mapping, items(chosen.get("resources"))):
            if resource.get("name") == "nvidia.com/gpu":
                return Sharing(
                    strategy=name,
                    replicas=whole(resource.get("replicas")),
                    rename_by_default=chosen.get("renameByDefault") is True,
                    fail_requests_greater_than_one=name == "mps" or chosen.get("failRequestsGreaterThanOne") is True,
                )
    return None


def _entries(plugin: Release, objects: Iterable[Object]) -> tuple[dict[str, Values], str | None]:
    """(entries by name, the default's name) of GPU Operator's devicePlugin.config or the plugin chart's own config."""
    operator = _chart(plugin) == "gpu-operator"
    config = mapping(
        mapping(plugin.values.get("devicePlugin")).get("config") if operator else plugin.values.get("config")
    )
    data = mapping(config.get("data") if operator else config.get("map"))
    if not data and config.get("name"):
        data = next(
            (
                mapping(each.manifest.get("data"))
                for each in objects
                if each.kind == "ConfigMap" and each.name == config["name"]
            ),
            {},
        )
    entries = {str(name): _parsed(text) for name, text in data.items()}
    default = config.get("default")
    if default is None and not operator:
        # The chart's configManager falls back on the entry called default, then on the only one; the operator's does not.
        default = "default" if "default" in entries else next(iter(entries), None) if len(entries) == 1 else None
    return entries, str(default) if default else None


def _parsed(text: Any) -> Values:
    if not isinstance(text, str):
        return mapping(text)
    try:
        return mapping(yaml.safe_load(text))
    except yaml.YAMLError:
        return {}
