"""Pods on nodes: selectors, taints, size, and the kind of GPU that the pool's nodes advertise.

Not for: how many pods there is room for (capacity.py), or how a GPU is shared (sharing.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from policies.facts import NodePool, PodGroup, Stack, Workload
from policies.finding import Problem, Rule, error, warning

from ._places import Places, asks_kai_share, engine_groups, places, pods_of, untolerated
from ._values import amount, gib, listed


def _pods(stack: Stack) -> Iterator[tuple[Workload, PodGroup]]:
    for workload in stack.workloads:
        for group in pods_of(workload):
            yield workload, group


def selector(stack: Stack) -> Iterator[Problem]:
    if not stack.complete or not stack.pools:
        return
    index = places(stack)
    labels = {f"{key}={value}" for pool in stack.pools for key, value in pool.labels.items()}
    for _, group in _pods(stack):
        if not group.node_selector or index.selected(group):
            continue
        wanted = [f"{key}={value}" for key, value in sorted(group.node_selector.items())]
        missing = [pair for pair in wanted if pair not in labels] or wanted
        close = difflib.get_close_matches(missing[0], sorted(labels), n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"labels of the pools: {listed(labels)}"
        yield error(
            group.where,
            f"no node pool carries {', '.join(wanted)}, so its pods stay pending",
            f"select labels of a node pool, or leave node_selector out; {hint}",
        )


def taints(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for _, group in _pods(stack):
        selected = index.selected(group) if group.node_selector else ()
        if not selected or index.open(group):
            continue
        pool = selected[0]
        kept = ", ".join(_taint(taint.key, taint.value, taint.effect) for taint in untolerated(group, pool))
        yield error(
            group.where,
            f"{pool.where} is tainted {kept} and the pod does not tolerate it, so its pods stay pending",
            "leave `tolerations` out (they are derived from the pool's taints) or add the matching one",
        )


def _taint(key: str, value: str, effect: str) -> str:
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def node_size(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for _, group in _pods(stack):
        pools = index.open(group) if group.node_selector else ()
        if not pools or any(not _too_big(group, pool) for pool in pools):
            continue
        best = max(pools, key=lambda pool: (pool.memory_mib or 0, pool.cpu_milli or 0))
        yield error(
            group.where,
            f"{' and '.join(_too_big(group, best))}, so the pod fits no node of {', '.join(p.where for p in pools)}",
            "ask for less, or choose a pool with larger nodes",
        )


def _too_big(group: PodGroup, pool: NodePool) -> list[str]:
    found = []
    if group.cpu_milli and pool.cpu_milli and group.cpu_milli > pool.cpu_milli:
        found.append(
            f"it asks for {amount(group.cpu_milli / 1000)} CPU cores of {amount(pool.cpu_milli / 1000)} that pods can have"
        )
    if group.memory_mib and pool.memory_mib and group.memory_mib > pool.memory_mib:
        found.append(f"it asks for {gib(group.memory_mib)} of memory of {gib(pool.memory_mib)} that pods can have")
    whole = pool.sharing.strategy in ("none", "kai")
    if whole and group.gpus and pool.gpus_per_node and group.gpus > pool.gpus_per_node:
        found.append(f"it asks for {amount(group.gpus)} GPUs of {pool.gpus_per_node} that a node has")
    return found


def gpu_pool(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for _, group in _pods(stack):
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
    for workload, group in _pods(stack):
        if group.head or group.gpus or asks_kai_share(group):
            continue
        needed = [e for e in workload.engines if e.device == "gpu" and group.name in e.groups]
        home = index.home(group)
        if needed:
            yield error(
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
    for _, group in _pods(stack):
        if group.gpus and not group.node_selector and not group.pod.get("affinity"):
            yield error(
                group.where,
                f"no node pool is chosen and the environment has GPUs of {len(gpus)} kinds ({', '.join(sorted(map(str, gpus)))}): "
                "the engine's memory would depend on where the scheduler puts it",
                "set `pool`",
            )


def pool_unknown(stack: Stack) -> Iterator[Problem]:
    index: Places = places(stack)
    if not stack.complete:
        return
    for _, group in _pods(stack):
        if (group.gpus or asks_kai_share(group)) and not group.node_selector and not stack.pools:
            yield warning(
                group.where,
                "it needs a GPU and no node pool is declared: memory, room and price cannot be judged",
                "declare the nodes in node_pools (kind: existing for nodes that are there)",
            )
        elif group.gpus and not group.node_selector and not any(p.gpus_per_node for p in index.open(group)):
            yield error(
                group.where,
                "it needs a GPU and no GPU pool takes it: none is declared, or its taints are not tolerated",
                "set `pool` to a GPU pool",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="placement-selector",
        title="A node selector matches a node pool",
        why=(
            "The scheduler and the node autoscaler compare labels literally. A label that no pool carries leaves pods pending without "
            "any event that names the label."
        ),
        check=selector,
        sources=("aieks#112", "doeks#446", "doeks#589"),
    ),
    Rule(
        id="placement-taint",
        title="Pods tolerate the taints of their pool",
        why=(
            "GPU nodes are tainted so that other pods stay away. A toleration must match key, value and effect; an Equal toleration with "
            "another value is none."
        ),
        check=taints,
        sources=("doeks#446", "kdp#1934"),
    ),
    Rule(
        id="placement-node-size",
        title="A pod fits a node of its pool",
        why=(
            "Requests are compared with what is left after the kubelet's reservations, not with the instance's advertised size. A pod "
            "larger than every node stays pending, and no autoscaler can help."
        ),
        check=node_size,
        sources=("doeks#429", "doeks#430", "volcano#1295"),
    ),
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
