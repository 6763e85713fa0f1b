"""GPU pods and GPU pools: pods that need a GPU ask for one, on a pool that has it and was chosen.

Not for: selectors, taints and sizes in general (placement.py), or how a GPU is shared (sharing.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import NodePool, Stack
from policies.finding import Problem, Rule, error, warning

from ._places import Places, asks_kai_share, asks_otherwise, engine_groups, places
from ._values import listed
from .placement import pods


def gpu_pool(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for _, group in pods(stack):
        pools = index.selected(group) if group.node_selector else ()
        if (group.gpus or asks_kai_share(group)) and pools and all(_no_gpu(pool) for pool in pools):
            yield error(
                group.where,
                f"it asks for a GPU and {pools[0].where} has none, so its pods stay pending",
                "choose a GPU pool, or device: cpu for its models",
            )


def _no_gpu(pool: NodePool) -> bool:
    return not pool.gpus_per_node and pool.gpu is None and (pool.kind == "existing" or pool.cpu_milli is not None)


def gpu_asked(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for workload, group in pods(stack):
        if group.head or group.gpus or asks_kai_share(group):
            continue
        needed = [e for e in workload.engines if e.device == "gpu" and group.name in e.groups]
        home = index.home(group)
        if needed and asks_otherwise(group):
            continue
        if needed:
            # KServe's presets ask for none, and a config of the cluster's own may.
            yield (warning if workload.kind == "LLMInferenceService" else error)(
                group.where,
                f"{needed[0].where.rsplit(': ', 1)[-1]} runs on a GPU and the pods ask for none",
                "choose a GPU pool for the model, or set device: cpu",
            )
        elif home is not None and home.gpus_per_node:
            yield warning(
                group.where,
                f"its pods ask for no GPU on {home.where}: they keep GPU nodes busy, and ray start offers every GPU it sees",
                'send them to a CPU pool, or set rayStartParams num-gpus: "0" and NVIDIA_VISIBLE_DEVICES=void',
            )
    for workload in stack.workloads:
        for engine in workload.engines:
            if engine.device == "gpu" and not engine.groups and not engine_groups(workload, engine) and workload.groups:
                if workload.head is not None and workload.head.gpus:
                    continue
                yield error(
                    engine.where,
                    "it runs on a GPU and no worker group asks for one",
                    "give a worker group GPU limits, or set device: cpu",
                )


def no_worker(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind == "RayService" and workload.engines and not workload.groups:
            where, mend = workload.where, "add a worker group: the head runs the control plane only"
            yield error(where, "it has models and no worker group", mend)


def pool_exists(stack: Stack) -> Iterator[Problem]:
    """GPU engines whose pods are sent nowhere while the stack knows several pools of different GPUs."""
    gpus = {pool.gpu for pool in stack.pools if pool.gpu}
    if not stack.complete or len(gpus) < 2:
        return
    for _, group in pods(stack):
        if group.gpus and not group.node_selector and not group.pod.get("affinity"):
            yield error(
                group.where,
                f"no node pool is chosen and the environment has GPUs of {len(gpus)} kinds ({', '.join(sorted(map(str, gpus)))}): "
                "the engine's memory would depend on where the scheduler puts it",
                "set `pool`",
            )


def pool_unknown(stack: Stack) -> Iterator[Problem]:
    index: Places = places(stack)
    gpus = sorted(pool.name for pool in stack.pools if pool.gpus_per_node)
    if not stack.complete or len({pool.gpu for pool in stack.pools if pool.gpu}) > 1:
        return  # with several kinds of GPU the choice of the pool comes first
    for _, group in pods(stack):
        if not (group.gpus or asks_kai_share(group)) or group.node_selector:
            continue
        if not stack.pools:
            yield warning(
                group.where,
                "it needs a GPU and no node pool is declared: memory, room and price cannot be judged",
                "declare the nodes in node_pools (kind: existing for nodes that are there)",
            )
        elif not gpus:
            yield error(
                group.where,
                "it needs a GPU and no node pool has one",
                "declare a GPU pool, or set device: cpu for its models",
            )
        elif not any(pool.gpus_per_node for pool in index.open(group)):
            yield error(
                group.where,
                f"it needs a GPU, is sent to no node pool, and does not tolerate the taints of {listed(gpus)}",
                f"set `pool` to {listed(gpus)}",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="placement-gpu-pool",
        title="Pods with GPUs go to nodes with GPUs",
        why="nvidia.com/gpu is advertised by the device plugin on nodes that have one; on others the pod can never be scheduled.",
        check=gpu_pool,
        sources=("doeks#429",),
    ),
    Rule(
        id="placement-gpu-asked",
        title="A GPU engine's pods ask for GPUs",
        why=(
            "A container gets a GPU by its limits. Without them the engine finds none, or on nodes with NVIDIA's runtime as the default "
            "sees GPUs that belong to other pods."
        ),
        check=gpu_asked,
        sources=("kuberay#2098", "ray#20265"),
    ),
    Rule(
        id="placement-no-worker",
        title="A service has worker pods",
        why="The head of a service offers no CPUs and no GPUs, so replicas need a worker group.",
        check=no_worker,
    ),
    Rule(
        id="placement-pool-choice",
        title="A GPU engine's pool is chosen, not left to chance",
        why=(
            "Memory, data types and speed differ between GPUs. With several kinds in the cluster and no selector the same engine may fit on "
            "one node and fail on the next."
        ),
        check=pool_exists,
        sources=("kuberay#3414",),
    ),
    Rule(
        id="placement-no-gpu-pool",
        title="There is a GPU pool for GPU pods",
        why="A GPU pod needs nodes that advertise GPUs and whose taints it tolerates; without such a pool it stays pending.",
        check=pool_unknown,
    ),
)
