"""NVIDIA GPU Operator against the nodes: what the AMI brings itself, whether anything advertises the GPUs, and tolerations.

Not for: sharing configuration (device_plugin.py), or which AMI runs on which instance (pool_images.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.catalog import amis
from policies.catalog.lookup import UnknownRow
from policies.facts import NodePool, Stack, Taint, Toleration
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._values import chart_name, dig, releases, true

PLUGINS = ("gpu-operator", "nvidia-device-plugin")
# The chart's own defaults (v26.7.0 values.yaml: daemonsets.tolerations, node-feature-discovery.worker.tolerations).
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_CONTROL_PLANE = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Equal",
    "value": "",
    "effect": "NoSchedule",
}


def gpu_pools(stack: Stack) -> list[tuple[NodePool, amis.AmiType]]:
    """Pools with GPUs whose AMI type is in the catalog."""
    found = []
    for pool in stack.pools:
        if (pool.gpus_per_node or pool.gpu) and pool.ami_type:
            try:
                found.append((pool, amis.get(pool.ami_type)))
            except UnknownRow:
                continue
    return found


def _off(pool: NodePool, piece: str) -> bool:
    """Whether a node label keeps one piece of the operator off the pool."""
    return str(pool.labels.get(f"nvidia.com/gpu.deploy.{piece}", "")).lower() == "false"


def host_software(stack: Stack) -> Iterator[Problem]:
    pools = gpu_pools(stack)
    for release in releases(stack, "gpu-operator"):
        driver = true(dig(release.values, "driver", "enabled"), True)
        toolkit = true(dig(release.values, "toolkit", "enabled"), True)
        plugin = true(dig(release.values, "devicePlugin", "enabled"), True)
        for pool, ami in pools:
            if ami.operating_system == "custom":
                continue
            if driver and not _off(pool, "driver"):
                reason = "brings the driver itself" if ami.nvidia else "is no system NVIDIA publishes driver images for"
                yield error(
                    release.where,
                    f"driver.enabled is true and {pool.where} runs {ami.name}, which {reason}: the driver pods fail and no GPU is advertised",
                    "set driver.enabled: false" + ("" if ami.nvidia else " and use an NVIDIA AMI type"),
                )
            if toolkit and ami.toolkit and not _off(pool, "container-toolkit"):
                yield (error if ami.operating_system == "bottlerocket" else warning)(
                    release.where,
                    f"toolkit.enabled is true and {pool.where} runs {ami.name}, which has the container toolkit: the operator rewrites containerd's "
                    "configuration under the node",
                    "set toolkit.enabled: false",
                )
            if plugin and ami.device_plugin and not _off(pool, "device-plugin"):
                yield error(
                    release.where,
                    f"devicePlugin.enabled is true and {pool.where} runs {ami.name}, whose system has the device plugin: two plugins register the same GPUs",
                    'set devicePlugin.enabled: false, or label the pool nvidia.com/gpu.deploy.device-plugin: "false"',
                )
            if not plugin and not ami.device_plugin and not _other_plugin(stack):
                yield error(
                    release.where,
                    f"devicePlugin.enabled is false and nothing else advertises the GPUs of {pool.where} ({ami.name})",
                    "set devicePlugin.enabled: true",
                )


def _other_plugin(stack: Stack) -> bool:
    return any("device-plugin" in chart_name(r) and "efa" not in chart_name(r) for r in stack.releases)


def installed(stack: Stack) -> Iterator[Problem]:
    if not stack.complete or stack.cluster != "aws" or not stack.releases:
        return
    plain = [pool for pool, ami in gpu_pools(stack) if not ami.device_plugin]
    if plain and not releases(stack, *PLUGINS) and not _other_plugin(stack):
        yield error(
            plain[0].where,
            "no device plugin is installed: its nodes advertise no GPU, pods stay pending, and Karpenter waits for the node to be initialised",
            "set software.gpu_operator.install: true",
        )
    if any(pool.efa for pool in stack.pools) and not any("efa" in chart_name(r) for r in stack.releases):
        pool = next(pool for pool in stack.pools if pool.efa)
        yield warning(
            pool.where,
            "no EFA device plugin is installed: its nodes do not advertise vpc.amazonaws.com/efa, and NCCL falls back to TCP",
            "install the chart aws-efa-k8s-device-plugin",
        )


def tolerates(raw: Any, default: list[dict[str, str]], taint: Taint) -> bool:
    """Whether a chart's daemon set, with these tolerations in its values or else the chart's own, runs on nodes with a taint."""
    given = items(raw) if raw is not None else default
    return any(
        Toleration(
            key=str(t.get("key") or ""),
            operator=str(t.get("operator") or "Equal"),
            value=str(t.get("value") or ""),
            effect=str(t.get("effect") or ""),
        ).matches(taint)
        for t in map(mapping, given)
    )


def tolerations(stack: Stack) -> Iterator[Problem]:
    for release in releases(stack, "gpu-operator"):
        nfd = true(dig(release.values, "nfd", "enabled"), True)
        daemons = dig(release.values, "daemonsets", "tolerations")
        worker = dig(release.values, "node-feature-discovery", "worker", "tolerations")
        for pool in stack.pools:
            if not (pool.gpus_per_node or pool.gpu):
                continue
            for taint in pool.taints:
                if taint.effect == "PreferNoSchedule":
                    continue
                named = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
                if not tolerates(daemons, [GPU_TOLERATION], taint):
                    yield error(
                        release.where,
                        f"the device plugin and the other daemon sets do not tolerate {named} of {pool.where}: they run nowhere and no GPU is advertised",
                        f"add {{key: {taint.key}, operator: Exists}} to daemonsets.tolerations",
                    )
                if nfd and not tolerates(worker, [_CONTROL_PLANE, GPU_TOLERATION], taint):
                    yield error(
                        release.where,
                        f"Node Feature Discovery's worker does not tolerate {named} of {pool.where}: the node is never labelled as a GPU node, and the "
                        "operator's daemon sets want 0 pods, without an event",
                        f"add {{key: {taint.key}, operator: Exists}} to node-feature-discovery.worker.tolerations",
                    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="operator-host-software",
        title="The GPU Operator leaves to the AMI what the AMI has",
        why=(
            "EKS accelerated AMIs carry driver and container toolkit, Bottlerocket's the device plugin too. NVIDIA publishes no driver images for Amazon "
            "Linux, so the operator's driver pods fail there; a second toolkit or plugin works against the first."
        ),
        check=host_software,
        sources=("gpu-operator#686", "aws-samples/comfyui-on-eks#26", "NVIDIA/aicr#2743"),
    ),
    Rule(
        id="operator-installed",
        title="Something advertises the GPUs",
        why=(
            "Without a device plugin a GPU node has no nvidia.com/gpu: pods stay pending, and Karpenter never counts the node as initialised. EFA interfaces "
            "need a plugin of their own."
        ),
        check=installed,
        sources=("karpenter-provider-aws#3862",),
    ),
    Rule(
        id="operator-tolerations",
        title="The operator's daemon sets tolerate every GPU pool's taints",
        why=(
            "NFD's worker labels a node as a GPU node; only then do the operator's daemon sets want a pod there. A taint that the worker does not tolerate "
            "leaves desired at 0 and no event."
        ),
        check=tolerations,
        sources=("k8s-device-plugin#1934", "NVIDIA/gpu-feature-discovery#70", "nebari#3074"),
    ),
)
