"""EFA from inside a pod: interfaces that are asked for where libfabric is told to use them, and no devices of the node beside them.

Not for: what nodes have and how many (network.py, extended_resources.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import PodGroup, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, warning

from ._places import EFA
from ._values import dig, literal

_DEVICES = "/dev/infiniband"
_SAYING = ("FI_EFA_USE_DEVICE_RDMA", "FI_EFA_FORK_SAFE", "FI_EFA_ENABLE_SHM_TRANSFER")


def pods(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups if workload.engines else ():
            asked, mounted = bool(group.limits.get(EFA)), _mounts(group)
            said = _said(group)
            if said and not asked and not mounted and not _privileged(group):
                yield warning(
                    group.where,
                    f"{said} tells libfabric to use EFA, and the pod asks for no {EFA}: it has no such device, and NCCL falls back to TCP",
                    f"add {EFA} to the limits, as many as the GPUs' share of the node's interfaces",
                )
            if asked and mounted:
                yield warning(
                    group.where,
                    f"it asks for {EFA} and mounts {_DEVICES} of the node: the device plugin brings the pod's own interfaces, and the mount adds everybody else's",
                    "leave the hostPath volume out",
                )


def _said(group: PodGroup) -> str:
    if (literal(group.env, "FI_PROVIDER") or "").lower().startswith("efa"):
        return "FI_PROVIDER"
    return next((name for name in _SAYING if literal(group.env, name)), "")


def _mounts(group: PodGroup) -> bool:
    paths = (str(dig(volume, "hostPath", "path") or "") for volume in items(group.pod.get("volumes")))
    return any(path.rstrip("/") in ("/dev", _DEVICES) or path.startswith(f"{_DEVICES}/") for path in paths)


def _privileged(group: PodGroup) -> bool:
    return any(
        dig(container, "securityContext", "privileged") is True
        for container in map(mapping, items(group.pod.get("containers")))
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="network-efa-pods",
        title="Pods that use EFA ask for it, and for nothing of the node beside it",
        why=(
            "Interfaces of EFA come into a pod by its device plugin, for a limit like that of GPUs. Variables alone make libfabric look for a provider that it does not find, and NCCL goes on "
            "with TCP; a mount of /dev/infiniband gives the pod all interfaces of the node."
        ),
        check=pods,
        sources=(
            "awslabs/ai-on-sagemaker-hyperpod PR#134",
            "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html",
        ),
    ),
)
