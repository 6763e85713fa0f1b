"""vLLM engine arguments and environment that follow from the statement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from components.config import Model, Replicas
from policies.facts import NodePool
from policies.facts.quantities import whole

# vLLM's own default of gpu_memory_utilization (vllm/config/cache.py, 0.29.0), written out so that the plan and the engine agree.
WHOLE_GPU_UTILIZATION = 0.92
# Each further engine on a GPU brings a CUDA context and allocator slack of its own beside what vLLM profiles; public reports of
# start-up refused for a few hundred MiB (vllm#20305) lead to 1.2 GiB a worker, and never less than 3 %.
HEADROOM_MIB = 1229
MIN_HEADROOM = 0.03


def utilization(model: Model, pool: NodePool | None, memory_share: float, shared: bool) -> float:
    """gpu_memory_utilization: 0.92 of a whole device; of a shared one the share less head-room, down to a hundredth."""
    if not shared:
        return WHOLE_GPU_UTILIZATION
    headroom = model.gpu.headroom
    if headroom is None:
        headroom = max(MIN_HEADROOM, HEADROOM_MIB / pool.gpu_mib) if pool and pool.gpu_mib else 0.05
    return max(0.01, math.floor(round((memory_share - headroom) * 100, 6)) / 100)


def derived(model: Model, role: str, util: float | None) -> dict[str, Any]:
    """Engine arguments: derived, then the person's own over them."""
    args: dict[str, Any] = {}
    parallel = model.parallel
    if parallel.tensor > 1:
        args["tensor_parallel_size"] = parallel.tensor
    if parallel.pipeline > 1:
        args["pipeline_parallel_size"] = parallel.pipeline
    if parallel.data > 1:
        args["data_parallel_size"] = parallel.data
    if parallel.expert:
        args["enable_expert_parallel"] = True
    if util is not None:
        # beside kv_cache_memory_bytes too: vLLM still checks at start that this much is free (v1/worker/utils.py request_memory)
        args["gpu_memory_utilization"] = util
    if model.lora is not None:
        args.update(enable_lora=True, max_loras=model.lora.max_adapters, max_lora_rank=model.lora.max_rank)
    if model.disaggregation is not None:
        args["kv_transfer_config"] = {"kv_connector": model.disaggregation.connector, "kv_role": "kv_both"}
    if model.routing.policy in ("prefix_affinity", "kv_aware"):
        args["enable_prefix_caching"] = True
    args.update(model.engine_args)
    if role == "prefill" and model.disaggregation is not None:
        args.update(model.disaggregation.prefill_engine_args)
    return dict(sorted(args.items()))


def cpu_threads(cpus: float, workers: int, args: Mapping[str, Any]) -> int:
    """OpenMP threads of each of `workers` workers of a CPU engine whose pod has `cpus` cores: as many as vLLM's own binding
    would give it of them (utils/ompmultiprocessing.py, 0.29.0: one core is for the scheduler, one more for a KV connector)."""
    reserved = 2 if args.get("kv_transfer_config") else 1
    return max(1, (math.floor(cpus) - reserved) // workers)


def environment(model: Model, worker_gpu: float, device: str, *, cpus: float, workers: int) -> dict[str, str]:
    """Environment of the engine (runtime_env): derived, then the person's own over it.

    `cpus`: cores of its pod; `workers`: engine workers in that pod.
    """
    env: dict[str, str] = {}
    if device == "cpu":
        # GiB, whole; without it vLLM takes its share of the pod's or the node's memory. It goes before kv_cache_memory_bytes
        # (vllm/platforms/cpu.py, 0.29.0), and is left out where that is stated.
        if model.kv_cache_gib is not None or "kv_cache_memory_bytes" not in model.engine_args:
            env["VLLM_CPU_KVCACHE_SPACE"] = str(model.kv_cache_gib or 1)
        # Left alone, vLLM binds a thread to every core that it may run on, the first ones first: all of the node's in a pod
        # without cores of its own, and the same ones in each engine there. A second engine then starves behind one that is busy
        # (1.3 s of processor in 260 s on two cores), and two workers need two NUMA nodes.
        env["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        env["OMP_NUM_THREADS"] = str(cpu_threads(cpus, workers, model.engine_args))
    elif worker_gpu < 1:
        # Ray 2.60 sets it from the bundle; earlier versions reached helper tasks only (ray#63875), so it is always written.
        env["VLLM_RAY_PER_WORKER_GPUS"] = f"{worker_gpu:g}"
    if "LMCache" in str(model.engine_args.get("kv_transfer_config", "")) or (
        model.disaggregation and "LMCache" in model.disaggregation.connector
    ):
        # Keys of LMCache begin with Python's hash of nothing: workers and engines agree on it only where it is fixed (LMCache#1739).
        env["PYTHONHASHSEED"] = "0"
    env.update(model.env)
    return dict(sorted(env.items()))


# A streamed answer may take minutes: a replica that is replaced finishes what it has begun (Serve's default is 20 s).
DRAIN_SECONDS = 300


CALM_SECONDS = 600.0  # Serve's own downscale_delay_s (serve/config.py AutoscalingConfig, 2.60.0)


def _calm(least: float, cold_seconds: int | None) -> float:
    """At least `least`, and the cold start in whole minutes."""
    return max(least, 60.0 * math.ceil((cold_seconds or 0) / 60))


def scaling(
    replicas: Replicas, engine_args: dict[str, Any], device: str, cold_seconds: int | None = None
) -> dict[str, Any]:
    """Ray Serve deployment options for replicas and load.

    A replica that goes is missed for `cold_seconds` when load comes back: it stays for as long, and the last one twice.
    Without target_ongoing_requests Ray Serve LLM aims at 1e9 and never adds a replica (llm_config.py, 2.60.0); it is
    therefore always written where replicas may change.
    """
    default_seqs = 128 if device == "cpu" else 256
    seqs = max(0, whole(engine_args.get("max_num_seqs")) or 0) or default_seqs  # what is no number a rule refuses
    options: dict[str, Any] = {}
    if replicas.min == replicas.max:
        options["num_replicas"] = replicas.max
        options["max_ongoing_requests"] = replicas.max_ongoing_requests or seqs
    else:
        target = replicas.target_ongoing_requests or max(1, int(min(seqs, 64) * 0.75))
        autoscaling: dict[str, Any] = {
            "min_replicas": replicas.min,
            "max_replicas": replicas.max,
            "target_ongoing_requests": target,
            "upscale_delay_s": replicas.upscale_delay_s or 10.0,
            "downscale_delay_s": replicas.downscale_delay_s or _calm(CALM_SECONDS, cold_seconds),
        }
        if replicas.initial is not None:
            autoscaling["initial_replicas"] = replicas.initial
        if replicas.min == 0:
            autoscaling["downscale_to_zero_delay_s"] = replicas.downscale_to_zero_delay_s or _calm(
                3 * CALM_SECONDS, 2 * cold_seconds if cold_seconds else None
            )
        options["autoscaling_config"] = autoscaling
        options["max_ongoing_requests"] = replicas.max_ongoing_requests or max(seqs, math.ceil(target) + 1)
    options["graceful_shutdown_timeout_s"] = DRAIN_SECONDS
    if replicas.surge_percent:
        options["max_surge_percent"] = replicas.surge_percent
    if replicas.max_queued_requests != -1:
        options["max_queued_requests"] = replicas.max_queued_requests
    return options
