"""Volcano's scheduler configuration, where it is seen: plugins that pods of this stack need, switched on.

Not for: queues (queues.py), or how a virtual GPU is asked for (shared_pods.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error

from ._values import listed, true
from .device_plugin import parsed
from .pod_resources import containers

_KEY = "volcano-scheduler.conf"
_SWITCH = "deviceshare.VGPUEnable"
_OTHERS = ("deviceshare.GPUNumberEnable", "deviceshare.GPUSharingEnable")


def virtual_gpus(stack: Stack) -> Iterator[Problem]:
    asking = next((where for where in _asking(stack)), None)
    for item in stack.of_kind("ConfigMap"):
        text = mapping(item.manifest.get("data")).get(_KEY)
        given = mapping(parsed(text)) if isinstance(text, str) else {}
        if asking is None or not given:
            continue
        shares = [plugin for plugin in _plugins(given) if plugin.get("name") == "deviceshare"]
        arguments = mapping(shares[0].get("arguments")) if shares else {}
        if not true(arguments.get(_SWITCH), False):
            lacks = f"its plugin deviceshare has no {_SWITCH}" if shares else "it has no plugin deviceshare"
            yield error(
                item.where,
                f"{lacks}, and {asking} asks for virtual GPUs: Volcano gives no device to the pod, and the device plugin refuses it",
                f"add {{name: deviceshare, arguments: {{{_SWITCH}: true}}}}",
            )
        elif others := [name for name in _OTHERS if true(arguments.get(name), False)]:
            yield error(
                item.where,
                f"deviceshare has {_SWITCH} and {listed(others)}: the scheduler takes one way to share a GPU",
                f"keep {_SWITCH}",
            )


def _asking(stack: Stack) -> Iterator[str]:
    """Pods that ask for virtual GPUs."""
    for workload in stack.workloads:
        for group in workload.pod_groups:
            for _, container in containers(mapping(group.pod)):
                limits = mapping(mapping(container.get("resources")).get("limits"))
                if any(str(name).startswith("volcano.sh/vgpu-") for name in limits):
                    yield group.where


def _plugins(given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for tier in map(mapping, items(given.get("tiers"))):
        yield from map(mapping, items(tier.get("plugins")))


RULES: tuple[Rule, ...] = (
    Rule(
        id="volcano-scheduler",
        title="Volcano's scheduler shares GPUs in the way that pods ask",
        why=(
            "Virtual GPUs are given by the plugin deviceshare with VGPUEnable. Without it Volcano counts the resource like any other, writes no device into the pod, and the device plugin on "
            "the node cannot tell which GPU is meant."
        ),
        check=virtual_gpus,
        sources=(
            "Project-HAMi/volcano-vgpu-device-plugin#2",
            "volcano: docs/user-guide/how_to_use_vgpu.md",
        ),
    ),
)
