"""Pods on GPUs that are shared: the resource they ask for, how much of it, and what Ray sees of it.

Not for: the pool's side (sharing.py) or KAI's annotations (kai.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import NodePool, PodGroup, Sharing, Stack
from policies.facts.sharing import CONFIG_LABEL
from policies.finding import Problem, Rule, error, warning

from ._places import asks_kai_share, engine_groups, places
from ._values import amount, before, literal
from .sharing import VGPU, advertised

# KubeRay's own test of a resource key (utils/resources.go, v1.7.0).
_KUBERAY_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")


def resource_name(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload in stack.workloads:
        for group in workload.pod_groups:
            pool = index.home(group)
            if pool is None or group.gpu_resource is None or not pool.gpus_per_node:
                continue
            wanted = advertised(pool)
            if wanted and group.gpu_resource not in wanted:
                yield error(
                    group.where,
                    f"it asks for {group.gpu_resource} and nodes of {pool.where} advertise {' or '.join(wanted)} "
                    f"({_reason(pool)}), so its pods stay pending",
                    f"ask for {wanted[0]}, or leave it to be derived from the pool",
                )


def _reason(pool: NodePool) -> str:
    sharing = pool.sharing
    if sharing.strategy == "mig":
        return f"MIG {sharing.mig_strategy}"
    if sharing.strategy == "time_slicing":
        return "time-slicing, renamed" if sharing.rename_by_default else "time-slicing"
    return {"none": "whole GPUs", "volcano_vgpu": "Volcano vGPU"}.get(sharing.strategy, sharing.strategy)


def _sharing(stack: Stack, group: PodGroup) -> tuple[str, Sharing]:
    """(whose GPUs, how they are shared): of the pod's pool, or where nodes are not declared of any that chooses no other."""
    pool = places(stack).home(group)
    if pool is not None:
        return pool.where, pool.sharing
    return "nodes", Sharing() if stack.pools or CONFIG_LABEL in group.node_selector else stack.gpu_sharing


def one_slice(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            _, sharing = _sharing(stack, group)
            if group.gpus <= 1 or group.gpu_resource == VGPU:
                continue
            strategy = sharing.strategy
            if strategy == "mig":
                yield error(
                    group.where,
                    f"it asks for {amount(group.gpus)} MIG slices and a CUDA process uses one",
                    "ask for one slice with a larger profile, or for whole GPUs",
                )
            elif strategy == "mps" or (strategy == "time_slicing" and sharing.fail_requests_greater_than_one):
                yield error(
                    group.where,
                    f"it asks for {amount(group.gpus)} shared GPUs and the device plugin refuses more than one "
                    f"({strategy.replace('_', '-')}): the pods fail with UnexpectedAdmissionError",
                    "ask for one, or use a pool of whole GPUs",
                )
            elif strategy == "time_slicing":
                yield warning(
                    group.where,
                    f"{amount(group.gpus)} time-slices can be of one physical GPU: they are no {amount(group.gpus)} GPUs",
                    "ask for one, or use a pool of whole GPUs",
                )


def parallel(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload in stack.workloads:
        for engine in workload.engines:
            if engine.world < 2 or engine.device == "cpu":
                continue
            for group in engine_groups(workload, engine):
                where, sharing = _sharing(stack, group)
                asks = asks_kai_share(group) and index.home(group) is not None
                if not asks and sharing.strategy not in ("mig", "time_slicing", "mps", "volcano_vgpu"):
                    continue
                how = "kai" if asks else sharing.strategy
                yield error(
                    engine.where,
                    f"{engine.world} GPU workers run on {where}, whose GPUs are shared by {how.replace('_', '-')}: NCCL refuses two workers on "
                    "one device and has no path between slices",
                    "use tensor and pipeline parallel 1 on a shared GPU, or a pool of whole GPUs",
                )
                break


def unseen_by_ray(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if not workload.by_kuberay:
            continue
        for group in workload.groups:
            resource = group.gpu_resource
            hidden = resource is not None and not resource.endswith("gpu") and not _KUBERAY_MIG.search(resource)
            if not hidden and not (resource is None and asks_kai_share(group)):
                continue
            if "GPU" in group.resources or "num-gpus" in group.ray_start_params:
                continue
            what = resource if hidden else "a GPU by annotation only"
            zero = workload.autoscaling and not group.min
            yield (error if zero else warning)(
                group.where,
                f"it asks for {what}, which KubeRay does not take for a GPU: Ray's autoscaler sees a group without GPUs"
                + (" and never starts its first pod" if zero else " until a pod runs"),
                'set the group\'s resources: {GPU: "1"} (worker.resources)',
            )


def gpu_containers(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload in stack.workloads:
        for group in workload.pod_groups:
            pool = index.home(group)
            if pool is None or group.gpu_containers < 2 or not pool.gpus_per_node:
                continue
            if pool.sharing.strategy not in ("time_slicing", "mps", "mig") or not group.gpus:
                continue
            asked = group.gpu_containers * max(1, int(group.gpus))
            if pool.kind == "karpenter" and asked > pool.gpus_per_node:
                yield error(
                    group.where,
                    f"{group.gpu_containers} of its containers ask for a GPU: Karpenter looks for {asked} physical GPUs on one node, and {pool.where} "
                    f"has {pool.gpus_per_node}",
                    "let one container of a pod ask for the GPU, or use a managed node group",
                )
            else:
                yield warning(
                    group.where,
                    f"{group.gpu_containers} of its containers ask for a shared GPU each, and may get slices of the same one",
                    "let one container of a pod ask for the GPU",
                )


def device_by_uuid(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
                value = literal(group.env, name) or ""
                if not value.startswith(("MIG-", "GPU-")):
                    continue
                old = before(workload.vllm_version, "0.21.0")
                if name == "CUDA_VISIBLE_DEVICES" and (old or workload.vllm_version is None):
                    yield (error if old else warning)(
                        group.where,
                        f"{name} names a device by UUID, and vLLM {workload.vllm_version or 'before 0.21'} takes int() of it",
                        "leave it out: the device plugin gives the container its device",
                    )
                else:
                    yield warning(
                        group.where,
                        f"{name} names one device of one node: pods on other nodes do not start, and Kubernetes does not count it",
                        "leave it out and ask for the GPU in the limits",
                    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="sharing-resource",
        title="Pods ask for the resource their pool advertises",
        why=(
            "MIG single advertises slices as nvidia.com/gpu, mixed as nvidia.com/mig-<profile>; time-slicing keeps nvidia.com/gpu or renames it to "
            "nvidia.com/gpu.shared; Volcano's vGPU plugin has its own names. Under mixed, nvidia.com/gpu of a GPU cut by MIG is advertised and unusable."
        ),
        check=resource_name,
        sources=("gpu-operator#518", "gpu-operator#637"),
    ),
    Rule(
        id="sharing-one-slice",
        title="One slice for one pod",
        why=(
            "A CUDA process uses a single MIG instance, and two time-slices may be of the same GPU. The device plugin refuses requests over one for MPS, and for "
            "time-slicing with failRequestsGreaterThanOne."
        ),
        check=one_slice,
        sources=("https://docs.nvidia.com/datacenter/tesla/mig-user-guide/", "k8s-device-plugin#1690"),
    ),
    Rule(
        id="sharing-parallel",
        title="No tensor or pipeline parallel over shared GPUs",
        why=(
            "NCCL identifies ranks by their device: two ranks on one GPU are refused as duplicates, and MIG instances cannot reach each other."
        ),
        check=parallel,
        sources=("https://docs.nvidia.com/datacenter/tesla/mig-user-guide/", "nccl: init.cc duplicate GPU check"),
    ),
    Rule(
        id="sharing-ray-unseen",
        title="Ray's autoscaler sees the GPU of a shared pod",
        why=(
            "KubeRay counts limits whose key ends in gpu or is nvidia.com/mig-<n>g.<m>gb. For nvidia.com/gpu.shared, volcano.sh/vgpu-number, mig-1g.10gb.me and KAI's "
            "annotations it tells the autoscaler of no GPU, so a group at zero never grows; ray start finds the GPU once a pod runs, which hides it."
        ),
        check=unseen_by_ray,
        sources=("kuberay#2354", "kuberay: controllers/ray/utils/resources.go"),
    ),
    Rule(
        id="sharing-containers",
        title="One container of a pod asks for the shared GPU",
        why="Each container's request is counted by itself, and Karpenter adds them up as physical GPUs of one node.",
        check=gpu_containers,
        sources=("k8s-device-plugin#1690",),
    ),
    Rule(
        id="sharing-device-uuid",
        title="Devices are given by the device plugin, not by UUID",
        why=(
            "vLLM up to 0.20 converts every entry of CUDA_VISIBLE_DEVICES to a number and dies on a MIG UUID; a UUID in NVIDIA_VISIBLE_DEVICES takes a "
            "device past the scheduler."
        ),
        check=device_by_uuid,
        sources=("vllm#41848", "vllm#17047", "vllm#6551", "vllm#45026"),
    ),
)
