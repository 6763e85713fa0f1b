"""The Ray head: it must see no GPU, carry no replica, fit a node, and stay.

Not for: whether any pod fits a node (placement.py), or the ports the head opens (exposure.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import real
from policies.finding import Problem, Rule, error, warning

from ._places import Places, asks_kai_share, places, ray_gpus
from ._values import gib, literal

_RAY = ("RayService", "RayCluster", "RayJob")
# GCS, dashboard, raylet and job agents alone take about 1 GiB (ray start --head, idle); Ray Serve LLM's builder imports vLLM on
# the head's side, and the dashboard's caches grow for days (docs.ray.io head-node-memory-management).
LEAST_MEMORY_MIB = 1024
COMFORTABLE_MEMORY_MIB = 3072
# Ray's images without CUDA: nothing in them sets NVIDIA_VISIBLE_DEVICES, so NVIDIA's runtime shows them no GPU.
_WITHOUT_CUDA = re.compile(r"(.*/)?rayproject/ray:(?!.*(gpu|cu\d))[^@]*")


def _heads(stack: Stack) -> Iterator[tuple[Workload, PodGroup]]:
    for workload in stack.workloads:
        if workload.kind in _RAY and workload.head is not None:
            yield workload, workload.head


def _stated(head: PodGroup, param: str, resource: str) -> float | None:
    """What the head tells Ray of its CPUs or GPUs; None when it leaves that to KubeRay."""
    for value in (head.ray_start_params.get(param), head.resources.get(resource)):
        number = real(value)
        if number is not None:
            return number
    return None


def _hidden(pod: PodGroup) -> bool:
    """Whether the NVIDIA runtime is told to show no GPU."""
    return literal(pod.env, "NVIDIA_VISIBLE_DEVICES") in ("void", "none", "")


def gpu_visible(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload, head in _heads(stack):
        gpu_nodes = _only_gpu_nodes(index, head)
        if head.gpus or asks_kai_share(head) or (_stated(head, "num-gpus", "GPU") or 0) > 0:
            continue
        if not gpu_nodes and (_WITHOUT_CUDA.fullmatch(head.image) or not any(map(ray_gpus, workload.groups))):
            continue  # a cluster of CPUs, or an image that shows no GPU anywhere
        if _stated(head, "num-gpus", "GPU") is None and not _hidden(head):
            message = (
                "it asks for no GPU, states no num-gpus, and leaves NVIDIA_VISIBLE_DEVICES to the image: "
                "on a GPU node it offers Ray every GPU of the node, though other pods own them"
            )
            mend = 'set rayStartParams num-gpus: "0" and NVIDIA_VISIBLE_DEVICES=void, and keep it on a CPU pool'
            yield (error if gpu_nodes else warning)(head.where, message, mend)
        elif gpu_nodes and not _hidden(head):
            yield warning(
                head.where,
                "it runs on a GPU node without NVIDIA_VISIBLE_DEVICES=void: its processes can open GPUs that other pods own",
                "set NVIDIA_VISIBLE_DEVICES=void",
            )


def _only_gpu_nodes(index: Places, head: PodGroup) -> bool:
    pools = index.selected(head) if head.node_selector else ()
    return bool(pools) and all(pool.gpus_per_node for pool in pools)


def gpu_node(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload, head in _heads(stack):
        if not _only_gpu_nodes(index, head) or head.gpus:
            continue
        names = ", ".join(f"'{pool.name}'" for pool in index.selected(head))
        yield warning(
            head.where,
            f"it is sent to GPU pool {names} though it uses no GPU: a GPU node cannot go while the head is on it",
            "send it to a CPU pool (head.pool)" if workload.kind == "RayService" else "select a CPU pool",
        )


def replicas_on_head(stack: Stack) -> Iterator[Problem]:
    for workload, head in _heads(stack):
        if workload.kind != "RayService":
            continue
        if head.gpus or asks_kai_share(head):
            yield warning(
                head.where,
                "it asks for a GPU, so engines run on it: a replica that exhausts its memory takes the control plane with it",
                'give GPUs to worker groups only, and set num-cpus and num-gpus of the head to "0"',
            )
        elif _stated(head, "num-cpus", "CPU") != 0:
            yield warning(
                head.where,
                "it offers CPUs to Ray, so replicas and tasks run beside the control plane and die with it",
                'set rayStartParams num-cpus: "0" on the head',
            )


def spot(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload, head in _heads(stack):
        pools = index.selected(head) if head.node_selector else ()
        if not pools or not all(pool.spot for pool in pools):
            continue
        names = ", ".join(f"'{pool.name}'" for pool in pools)
        if workload.fault_tolerance is None:
            yield error(
                head.where,
                f"it runs on spot pool {names} and GCS fault tolerance is off: each interruption ends the Ray cluster with all replicas",
                "send the head to an on-demand pool (head.pool)",
            )
        else:
            yield warning(
                head.where,
                f"it runs on spot pool {names}: each interruption stops scaling and deployments until a new head is up",
                "send the head to an on-demand pool (head.pool)",
            )


def memory(stack: Stack) -> Iterator[Problem]:
    for _, head in _heads(stack):
        if head.memory_mib is None:
            yield warning(
                head.where,
                "it states no memory: it is the first pod to go when its node runs short",
                "set memory request and limit, 8 GiB for a service",
            )
        elif head.memory_mib < LEAST_MEMORY_MIB:
            yield error(
                head.where,
                f"{gib(head.memory_mib)} of memory do not hold GCS, dashboard and raylet, which take about 1 GiB before any application",
                "give it 8 GiB, at least 3 GiB",
            )
        elif head.memory_mib < COMFORTABLE_MEMORY_MIB:
            yield warning(
                head.where,
                f"{gib(head.memory_mib)} of memory are little: the dashboard's and GCS's tables grow for days, and importing vLLM takes 1 to 2 GiB",
                "give it 8 GiB, at least 3 GiB",
            )


def fault_tolerance(stack: Stack) -> Iterator[Problem]:
    for workload, head in _heads(stack):
        if workload.kind != "RayService" or not any(e.device == "gpu" for e in workload.engines) or _tolerant(workload):
            continue
        yield warning(
            head.where,
            "GCS fault tolerance is off: when the head's node is drained or the head dies, KubeRay starts a whole new cluster, "
            "an outage or twice the GPUs for as long as models load",
            "set fault_tolerance (Redis), which keeps replicas answering while the head restarts",
        )


def _tolerant(workload: Workload) -> bool:
    annotated = str(workload.annotations.get("ray.io/ft-enabled", "")).lower() == "true"
    return workload.fault_tolerance is not None or annotated


_KEEP = {
    "karpenter": ("karpenter.sh/do-not-disrupt", "true"),
    "cluster_autoscaler": ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
}


def eviction(stack: Stack) -> Iterator[Problem]:
    if stack.autoscaler not in _KEEP:
        return
    key, value = _KEEP[stack.autoscaler]
    for workload, head in _heads(stack):
        if workload.kind == "RayJob" and not workload.engines:
            continue
        if str(head.annotations.get(key, "")).lower() != value:
            yield warning(
                head.where,
                f"nothing keeps {stack.autoscaler.replace('_', '-')} from evicting it to save a node",
                f'annotate the head\'s pod template with {key}: "{value}"',
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="head-gpu-visible",
        title="A head without GPUs must tell Ray so",
        why=(
            "KubeRay passes --num-gpus only where the container has a GPU limit. Without it `ray start` counts the GPUs it sees, and on "
            "nodes whose default container runtime is NVIDIA's a CUDA image sees all of them. Ray then schedules engines on GPUs "
            "that Kubernetes gave to other pods."
        ),
        check=gpu_visible,
        sources=("kuberay#2098", "ray#29753", "ray#20265"),
    ),
    Rule(
        id="head-gpu-node",
        title="The head belongs on a CPU node",
        why=(
            "The head is the control plane and must stay up. On a GPU node it takes CPU and memory sized for an engine and keeps the "
            "autoscaler from removing the dearest kind of node."
        ),
        check=gpu_node,
        sources=("kuberay#2098",),
    ),
    Rule(
        id="head-replicas",
        title="No replica runs on the head of a service",
        why=(
            "Ray's own guide keeps tasks and actors off the head with num-cpus 0: GCS, dashboard and Serve's controller live there. A "
            "replica that runs out of memory beside them ends the cluster, not one request."
        ),
        check=replicas_on_head,
        sources=("https://docs.ray.io/en/master/ray-core/head-node-memory-management.html",),
    ),
    Rule(
        id="head-spot",
        title="The head does not run on spot capacity",
        why=(
            "A spot node goes with two minutes' notice. Losing a worker costs one replica; losing the head without GCS fault tolerance "
            "costs the cluster, and every model loads again."
        ),
        check=spot,
        sources=("kuberay#4900", "kuberay#1333"),
    ),
    Rule(
        id="head-memory",
        title="The head has memory for the control plane",
        why=(
            "GCS, the dashboard with its event caches, the raylet and the agents start at about 1 GiB and grow with the cluster's age. A "
            "head that is killed for memory restarts the service."
        ),
        check=memory,
        sources=("https://docs.ray.io/en/master/ray-core/head-node-memory-management.html", "doeks#429"),
    ),
    Rule(
        id="head-fault-tolerance",
        title="A GPU service survives the loss of its head",
        why=(
            "Without gcsFaultToleranceOptions the state of the cluster is in the head's memory. When the head goes, KubeRay prepares a new "
            "RayCluster beside the old workers: the service is down or holds twice its GPUs until the models are loaded."
        ),
        check=fault_tolerance,
        sources=("kuberay#1565", "kuberay#1333"),
    ),
    Rule(
        id="head-eviction",
        title="Node autoscalers leave the head alone",
        why=(
            "Karpenter's consolidation and the cluster-autoscaler's scale-down evict pods to empty a node. The head is a single point of "
            "failure, so it carries the annotation with which each of them skips a pod."
        ),
        check=eviction,
        sources=("ray#64907", "kuberay#4900"),
    ),
)
