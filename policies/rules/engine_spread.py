"""How one engine is spread over pods: what crosses the network, which backend starts the workers, one type of GPU.

Not for: whether its placement group can be placed (topology.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.catalog import instances
from policies.catalog.lookup import UnknownRow
from policies.facts import PodGroup, Stack
from policies.facts.quantities import real, switch, whole
from policies.facts.vllm import words
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, on_gpus, ranks_in_pod, seats, vllm_version
from ._places import ray_gpus
from ._values import amount, before
from .compute_domain import nvlink_joins
from .topology import strategy_of

# From here on vLLM takes Ray only where it is told to; before, it took it by itself for a world larger than the pod (vllm PR#25775).
_NO_FALLBACK = "0.11.1"
# Ray's second executor schedules steps ahead, the first cannot (vllm PR#36836, ray_executor.py). Before this version the first was the default.
_SECOND, _SECOND_SINCE = "VLLM_USE_RAY_V2_EXECUTOR_BACKEND", "0.21"
_RAY_FIRST = re.compile(r"\bray start\b|ray_init|multi-node-serving")


def spans_pods(stack: Stack) -> Iterator[Problem]:
    """Tensor parallel over the network works since Ray 2.51, and is slow."""
    for seat in on_gpus(stack):
        size, pod = seat.engine.tensor, seat.gpus_per_pod
        if (
            not seat.ray
            or pod < 1
            or size <= pod
            or (seat.pool and seat.pool.sharing.strategy in ("time_slicing", "mps"))
        ):
            continue
        if strategy_of(stack, seat) == "STRICT_PACK":
            continue  # never placed: topology-placement says so
        if seat.pool and all(nvlink_joins(group, seat.pool) for group in seat.groups):
            continue
        inside = max((v for v in range(1, int(pod) + 1) if size % v == 0), default=1)
        fabric = "" if any(pool.efa for pool in seat.pools) else ", without EFA over TCP"
        yield warning(
            seat.engine.where,
            f"tensor parallel {size} spans pods of {amount(pod)} GPU{'s' if pod > 1 else ''}: each layer's all-reduce crosses the network{fabric}",
            f"use parallel.tensor: {inside} with pipeline: {size * seat.engine.pipeline // inside}, so that only activations cross",
        )


def expert_ranks(stack: Stack) -> Iterator[Problem]:
    """Pods that are smaller than their node, and ranks of one model in several of them."""
    for seat in on_gpus(stack):
        pool, pod = seat.pool, int(seat.gpus_per_pod)
        if pool is None or not seat.ray or not seat.shares_experts or pool.sharing.strategy != "none":
            continue
        room = min(seat.ranks, pool.gpus_per_node) // seat.engine.world * seat.engine.world
        if 1 <= pod < room:
            yield warning(
                seat.engine.where,
                f"its {seat.engine.data} data-parallel ranks exchange tokens in each layer with experts, and {pool.where} has {pool.gpus_per_node} GPUs a node "
                f"and pods of {pod}: NCCL takes each pod for a host of its own and goes over the network where NVLink or PCIe would do",
                f"leave worker.gpus_per_pod out, or set it to {room}",
            )


def _joins_ray(group: PodGroup) -> bool:
    """Whether a script makes a Ray cluster of the pods before it starts vLLM, which an older one takes."""
    return any("vllm" in word and _RAY_FIRST.search(word) for word in words(group.main_container))


def one_pod(stack: Stack) -> Iterator[Problem]:
    """Plain vLLM starts its workers as processes of one pod."""
    for seat in on_gpus(stack):
        group = seat.group
        if seat.ray or group is None:
            continue
        backend = seat.args.get("distributed_executor_backend")
        several = sum(each.hosts for each in seat.groups) > 1
        if backend is None and several and before(seat.workload.vllm_version, _NO_FALLBACK):
            backend = "ray"
        # Pods of a LeaderWorkerSet that Ray joins count together; processes do not leave their pod.
        joined = sum(ray_gpus(each) * max(1, each.hosts) for each in seat.groups)
        have, ranks = joined if backend == "ray" else ray_gpus(group), ranks_in_pod(seat.engine)
        need = seat.engine.world * ranks
        nodes = whole(seat.args.get("nnodes")) or 1
        if nodes > 1:
            yield from _of_each(seat, have, nodes)
        elif have >= 1 and need > have:
            unsure = several and backend is None and seat.workload.vllm_version is None and _joins_ray(group)
            yield (warning if unsure else error)(
                seat.engine.where,
                f"it needs {need} GPUs (tensor {seat.engine.tensor} x pipeline {seat.engine.pipeline} x data {ranks}) and "
                + (
                    f"the pods of its group have {amount(have)} together: it waits for the others"
                    if several and backend == "ray"
                    else f"its pod has {amount(have)}: the {backend or 'mp'} backend counts the GPUs of its own pod"
                ),
                f"lower data_parallel_size_local, which starts {ranks} ranks in each pod, or give each pod more GPUs"
                if several and ranks > 1
                else "set distributed_executor_backend to ray, which joins the pods of the group"
                if several and backend is None
                else "raise leaderWorkerTemplate.size, or give each of its pods more GPUs"
                if seat.workload.kind == "LeaderWorkerSet"
                else "use kind: ray_service, which spans pods (backend ray), or a pool with larger nodes",
            )
        elif (
            have - need >= 1
            and backend != "ray"
            and not switch(seat.args.get("enable_elastic_ep"))
            and not any("$" in word or word.startswith("--config") for word in words(group.main_container))
            and all(pool.sharing.strategy in ("none", "kai") for pool in seat.pools)
        ):
            yield warning(
                seat.engine.where,
                f"its pod has {amount(have)} GPUs and vLLM takes {need} (tensor {seat.engine.tensor} x pipeline {seat.engine.pipeline} x data {ranks}): the others are paid for and idle",
                f"set --tensor-parallel-size so that it takes {amount(have)}, or ask for {need}",
            )


def _of_each(seat: Seat, have: float, nodes: int) -> Iterator[Problem]:
    """Pods that nnodes joins start an equal part of the workers each (vllm/config/parallel.py, local_world_size)."""
    part = seat.engine.world // nodes
    if have >= 1 and part > have and seat.engine.data == 1:
        yield error(
            seat.engine.where,
            f"{seat.engine.world} workers (tensor {seat.engine.tensor} x pipeline {seat.engine.pipeline}) over {nodes} nodes are {part} in each pod, and a pod has {amount(have)} GPUs",
            f"give each pod {part} GPUs, or set tensor parallel x pipeline parallel to {amount(have * nodes)}",
        )


def backend(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        given = seat.args.get("distributed_executor_backend")
        if seat.ray and seat.on_gpu and given is not None and given != "ray":
            yield error(
                seat.engine.where,
                f"distributed_executor_backend is {given!r}; Ray Serve LLM takes only 'ray' for GPUs and refuses the replica",
                "leave it out",
            )
        elif not seat.ray and given is not None and given not in ("ray", "mp", "uni", "external_launcher"):
            yield error(
                seat.engine.where,
                f"distributed_executor_backend is {given!r}; allowed: ray, mp, uni, external_launcher",
                "leave it out: mp is the default inside one pod",
            )
        if seat.args.get("device_ids") and (given == "ray" or (seat.ray and seat.on_gpu)):
            yield warning(
                seat.engine.where,
                "device_ids has no effect where Ray starts the workers, each on the GPU that Ray gives it",
                "leave it out",
            )
        told = switch(literal_env(seat, _SECOND))
        first = told is False or (told is None and before(vllm_version(stack, seat.workload), _SECOND_SINCE))
        if first and switch(seat.args.get("async_scheduling")) and (given == "ray" or (seat.ray and seat.on_gpu)):
            yield error(
                seat.engine.where,
                "async_scheduling, which Ray's first executor in vLLM does not support: vLLM refuses to start",
                f"leave async_scheduling out, or take {_SECOND} out" if told is False else "leave async_scheduling out",
            )
        nodes = real(seat.args.get("nnodes"))
        if nodes and nodes > 1 and (seat.ray or given == "ray"):
            yield error(
                seat.engine.where,
                f"nnodes {amount(nodes)} is for the mp backend and its own launcher; Ray places the workers",
                "leave it out",
            )


def one_type(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        if seat.engine.world <= max(1.0, seat.gpus_per_pod) and len(seat.pools) < 2:
            continue
        kinds = {pool.gpu for pool in seat.pools if pool.gpu} | {
            kind for pool in seat.pools for kind in _kinds(pool.instance_types)
        }
        if len(kinds) > 1 and not seat.engine.accelerator_type:
            yield warning(
                seat.engine.where,
                f"its pods can be on GPUs of different types ({', '.join(sorted(kinds))}): workers of one engine then differ in memory and "
                "speed, and the placement group may wait for pods that never come",
                "use one pool of one GPU type for the model (`pool`), or set accelerator_type",
            )


def _kinds(types: tuple[str, ...]) -> set[str]:
    found = set()
    for name in types:
        try:
            row = instances.get(name)
        except UnknownRow:
            continue
        if row.gpu:
            found.add(row.gpu)
    return found


RULES: tuple[Rule, ...] = (
    Rule(
        id="topology-tensor-spans-pods",
        title="Tensor parallel stays inside a pod",
        why=(
            "Tensor parallel exchanges activations twice in each layer. Inside a node NVLink or PCIe carries that, between nodes the network does, which is one to two "
            "orders of magnitude slower; pipeline parallel exchanges once a stage."
        ),
        check=spans_pods,
        sources=("vllm#8908", "ray PR#56980"),
    ),
    Rule(
        id="topology-expert-ranks",
        title="Data-parallel ranks that share experts share pods, too",
        why=(
            "Ranks of a model with experts send each token to the ranks that have its experts, in each layer. NCCL knows a host by its name and its namespaces, so that "
            "two pods of one node are two hosts to it, and NVLink between them is not used."
        ),
        check=expert_ranks,
        sources=("NVIDIA/nccl: src/misc/utils.cc getHostHash", "vllm 0.29.0: v1/engine/core.py DPEngineCoreProc"),
    ),
    Rule(
        id="topology-one-pod",
        title="vLLM without Ray has all its GPUs in one pod, and uses all that the pod has",
        why="The mp backend starts one process for each GPU of its own container and refuses a world that is larger. GPUs beyond the world are the pod's, and nobody's.",
        check=one_pod,
        sources=("vllm#15217", "vllm#29447", "llmos-ai/llmos#40", "vllm PR#25775", "vllm 0.29.0: config/parallel.py"),
    ),
    Rule(
        id="topology-backend",
        title="The executor backend is the one that places the workers",
        why="Ray Serve LLM refuses any backend but ray on GPUs when the replica starts, after the node has come up; what the backend's executor lacks, vLLM.",
        check=backend,
        sources=(
            "vllm#15217",
            "vllm PR#25887",
            "gpustack/gpustack#4979",
            "ray 2.60.0: vllm_models.py get_initialization_kwargs",
            "vllm 0.29.0: v1/executor/abstract.py",
        ),
    ),
    Rule(
        id="topology-gpu-types",
        title="One engine, one type of GPU",
        why=(
            "All workers of an engine take the same memory and wait for the slowest. With pods of several types the smallest GPU decides what fits and a placement group "
            "can wait for a mix that does not come."
        ),
        check=one_type,
        sources=("kuberay#3414",),
    ),
)
