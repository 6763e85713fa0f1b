"""Who gives GPUs to containers on a node: one device plugin, and a runtime class that is there.

Not for: what the AMI brings (gpu_operator.py), or how a plugin is configured (device_plugin.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error

from ._values import dig, releases, true
from .gpu_operator import GPU_TOLERATION, tolerates

_OFF = "nvidia.com/gpu.deploy.device-plugin"


def plugins(stack: Stack) -> Iterator[Problem]:
    operators = [r for r in releases(stack, "gpu-operator") if true(dig(r.values, "devicePlugin", "enabled"), True)]
    if not operators or any(_OFF in pool.labels for pool in stack.pools):
        return
    # A plugin with a selector of its own may be for other nodes than the operator's.
    others = [
        r.where for r in releases(stack, "nvidia-device-plugin") if not {"affinity", "nodeSelector"} & r.values.keys()
    ]
    for item in stack.of_kind("DaemonSet"):
        pod = mapping(dig(item.spec, "template", "spec"))
        images = [str(mapping(each).get("image")) for each in items(pod.get("containers"))]
        if (
            any("nvidia/k8s-device-plugin" in image for image in images)
            and not {"affinity", "nodeSelector"} & pod.keys()
        ):
            others.append(item.where)
    for where in others:
        yield error(
            where,
            f"it runs NVIDIA's device plugin, and so does {operators[0].where}: both register nvidia.com/gpu on the same nodes, and each gives the same GPUs away",
            "leave one out: this, or devicePlugin.enabled: false of the GPU Operator",
        )


def plugin_tolerations(stack: Stack) -> Iterator[Problem]:
    for release in releases(stack, "nvidia-device-plugin"):
        # The chart's own; its default priority class brings the other one, CriticalAddonsOnly.
        given = dig(release.values, "tolerations")
        for pool in stack.pools if not {"affinity", "nodeSelector"} & release.values.keys() else ():
            closed = [
                taint
                for taint in pool.taints
                if taint.effect in ("NoSchedule", "NoExecute") and not tolerates(given, [GPU_TOLERATION], taint)
            ]
            if closed and (pool.gpus_per_node or pool.gpu):
                yield error(
                    release.where,
                    f"NVIDIA's device plugin does not tolerate {closed[0].key} of {pool.where}: it does not run there, and the nodes advertise no GPU",
                    f"add {{key: {closed[0].key}, operator: Exists}} to tolerations, beside {{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}",
                )


def runtime_classes(stack: Stack) -> Iterator[Problem]:
    by_nri = [r for r in releases(stack, "gpu-operator") if dig(r.values, "cdi", "nriPluginEnabled") is True]
    made = {item.name for item in stack.of_kind("RuntimeClass")}
    for workload in stack.workloads if by_nri else ():
        for group in workload.pod_groups:
            name = str(mapping(group.pod).get("runtimeClassName") or "")
            if name.startswith("nvidia") and name not in made:
                yield error(
                    group.where,
                    f"runtimeClassName is {name}, and {by_nri[0].where} gives GPUs by the NRI plugin (cdi.nriPluginEnabled), with which it makes no such class: the API server refuses the pods",
                    "leave runtimeClassName out",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="gpu-plugin-twice",
        title="One device plugin gives a node's GPUs away",
        why=(
            "The GPU Operator brings NVIDIA's device plugin. A second one, from its own chart or manifest, registers the same resource with the kubelet: GPUs are counted by whichever came last "
            "and given to two pods, and schedulers that share GPUs see numbers that change."
        ),
        check=plugins,
        sources=("KAI-Scheduler#993", "k8s-device-plugin#647"),
    ),
    Rule(
        id="gpu-plugin-tolerations",
        title="The device plugin runs on every GPU pool",
        why="The chart tolerates nvidia.com/gpu alone. On nodes with a further taint of the pool's owner no plugin runs: they have no nvidia.com/gpu, and pods that tolerate everything stay pending.",
        check=plugin_tolerations,
        sources=("eksctl-io/eksctl#5277",),
    ),
    Rule(
        id="gpu-runtime-class",
        title="Pods name a runtime class that is there",
        why="With the NRI plugin the GPU Operator needs no runtime class and removes the one it made; a pod that names it is refused (RuntimeClass not found).",
        check=runtime_classes,
        sources=(
            "Project-HAMi/website PR#825",
            "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/cdi.html",
        ),
    ),
)
