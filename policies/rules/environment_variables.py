"""Environment of engines: names vLLM reads, values it can parse, and variables that Kubernetes or Ray set by themselves.

Not for: VLLM_RAY_PER_WORKER_GPUS (engine_share.py), NIXL (side_channels.py), or tokens (model_access.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from policies.catalog.lookup import closest_names
from policies.catalog.vllm_environment import GONE, NEWEST, VLLM_VARIABLES
from policies.facts import PodGroup, SecretRef, Stack
from policies.facts.quantities import mapping, real, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, seats, vllm_version
from ._values import before, version

_KNOWN = frozenset(VLLM_VARIABLES)
_MEMORY_SHARE = "RAY_memory_usage_threshold"
# What Kubernetes injects for a Service NAME (pkg/kubelet/envvars): NAME_PORT and NAME_SERVICE_HOST, among others.
_INJECTED = ("_PORT", "_SERVICE_HOST", "_SERVICE_PORT", "_PORT_8000_TCP")
# Read as numbers by vLLM or Ray; a URL there stops the process.
_NUMBERS = ("VLLM_PORT", "VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_DP_MASTER_PORT", "VLLM_MOONCAKE_BOOTSTRAP_PORT")


def known(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        vllm = vllm_version(stack, workload)
        if not workload.engines or vllm is None:
            continue
        seen: set[tuple[str, str]] = set()
        places = [(pod.where, pod.env) for pod in workload.pod_groups]
        if workload.by_kuberay:  # else the engine's environment is that of its pod
            places += [(engine.where, engine.env) for engine in workload.engines]
        for where, env in places:
            for name in env:
                problem = _name(str(name), vllm)
                if problem is not None and (where, str(name)) not in seen:
                    seen.add((where, str(name)))
                    yield warning(where, *problem)


@lru_cache(maxsize=4096)
def _name(name: str, vllm: str) -> tuple[str, str] | None:
    if not name.startswith("VLLM_") or name in _KNOWN:
        return None
    if name in GONE:
        gone, mend = GONE[name]
        return None if before(vllm, gone) else (f"{name} has no effect since vLLM {gone} and this is {vllm}", mend)
    numbers, newest = version(vllm), version(NEWEST)
    if numbers is None or newest is None or numbers[:2] > newest[:2]:
        return None
    near = closest_names(name, VLLM_VARIABLES, 1)
    hint = f"did you mean {near[0]}?" if near else "take it out"
    return f"{name} is no variable of vLLM, which ignores it", hint


def values(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        where = seat.engine.where
        for name in _NUMBERS:
            given = literal_env(seat, name)
            if given is not None and whole(given) is None:
                yield error(where, f"{name} is '{given}'; allowed: a port number", "take it out")
        space = literal_env(seat, "VLLM_CPU_KVCACHE_SPACE")
        if space is not None and (whole(space) is None or (whole(space) or 0) < 0):
            yield error(
                where, f"VLLM_CPU_KVCACHE_SPACE is '{space}'; allowed: whole GiB", "give a whole number (kv_cache_gib)"
            )
        stated = seat.args.get("kv_cache_memory_bytes")
        if not seat.on_gpu and space is not None and stated is not None:
            yield warning(
                where,
                f"VLLM_CPU_KVCACHE_SPACE ({space} GiB) goes before kv_cache_memory_bytes ({stated}), which then has no effect",
                "leave one of them out (kv_cache_gib sets VLLM_CPU_KVCACHE_SPACE)",
            )
        elif not seat.on_gpu and space is None and stated is None:
            yield warning(
                where,
                "VLLM_CPU_KVCACHE_SPACE is not set: vLLM then takes a part of the node's memory for the cache, not of the pod's, and is killed",
                "set kv_cache_gib",
            )
        address = literal_env(seat, "VLLM_HOST_IP")
        if address is not None and (seat.engine.world > 1 or seat.engine.max_replicas > 1):
            yield error(
                where,
                f"VLLM_HOST_IP is fixed to {address}: it is the address of each worker's own pod, so all but one announce a wrong one",
                "take it out: vLLM and Ray find it",
            )
        yield from _devices(seat)


def _devices(seat: Seat) -> Iterator[Problem]:
    if not seat.on_gpu:
        return
    where = seat.engine.where
    devices = literal_env(seat, "CUDA_VISIBLE_DEVICES")
    if devices is not None and seat.ray and literal_env(seat, "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES") is None:
        yield warning(
            where,
            f"CUDA_VISIBLE_DEVICES is set to '{devices}' by hand: Ray sets it for each worker from the GPU it reserved, and a fixed value puts workers on one GPU",
            "take it out",
        )
    group = seat.group
    visible = group.env.get("NVIDIA_VISIBLE_DEVICES") if group is not None else None
    if isinstance(visible, str) and group is not None and group.gpus:
        if visible in ("void", "none", ""):
            yield error(
                group.where,
                f"NVIDIA_VISIBLE_DEVICES is '{visible}' on pods that ask for GPUs: they see none",
                "take it out",
            )
        elif visible == "all":
            yield warning(
                group.where,
                "NVIDIA_VISIBLE_DEVICES is 'all': where the container runtime honours it, pods see the GPUs of other pods",
                "take it out: the device plugin sets it",
            )


def service_links(stack: Stack) -> Iterator[Problem]:
    """A Service called vllm makes VLLM_PORT=tcp://... in every pod of its namespace that was made after it."""
    services: dict[str, list[str]] = {}
    for item in stack.of_kind("Service"):
        services.setdefault(item.namespace or "default", []).append(item.name)
    for workload in stack.workloads:
        own = mapping(mapping(workload.serve_service).get("metadata")).get("name")
        if isinstance(own, str):
            services.setdefault(workload.namespace, []).append(own)
    for workload in stack.workloads:
        linked = [pod for pod in workload.groups if pod.service_links is not False]
        if not workload.engines or not linked:
            continue
        found = services.get(workload.namespace, [])
        for name in found:
            variable = _collision(name, linked[0])
            if variable is not None:
                yield error(
                    workload.where,
                    f"Service '{name}' in its namespace makes Kubernetes set {variable} to tcp://... in its pods, which vLLM reads as a number and stops",
                    "rename the Service, or set enableServiceLinks: false in the pods",
                )
        if not found and workload.name == "vllm" and workload.kind not in ("RayService", "RayCluster", "RayJob"):
            yield warning(
                workload.where,
                "a Service of the same name 'vllm' makes Kubernetes set VLLM_PORT to tcp://... in its pods, which vLLM reads as a number and stops",
                "choose another name, or set enableServiceLinks: false in the pods",
            )


def _collision(service: str, pod: PodGroup) -> str | None:
    prefix = service.upper().replace("-", "_")
    for suffix in _INJECTED:
        name = prefix + suffix
        own: str | SecretRef | None = pod.env.get(name)  # what the pod sets itself wins
        if name in _KNOWN and own is None:
            return name
    return None


def engine_start(stack: Stack) -> Iterator[Problem]:
    """Numbers that Ray Serve LLM parses when it is imported, and the raylet when it starts."""
    for workload in stack.workloads:
        for pod in workload.pod_groups:
            share = pod.env.get(_MEMORY_SHARE)
            if (
                workload.by_kuberay
                and isinstance(share, str)
                and not 0 <= (-1 if (number := real(share)) is None else number) <= 1
            ):
                yield error(
                    pod.where,
                    f"{_MEMORY_SHARE} is '{share}'; allowed: a part of the memory from 0 to 1: the raylet checks it and ends",
                    "use 0.95, Ray's own value, or leave it out",
                )
            for name, given in pod.env.items():
                if not isinstance(given, str) or not str(name).startswith(("RAYLLM_", "RAY_SERVE_LLM_")):
                    continue
                if (
                    str(name).endswith(("_TIMEOUT_S", "_TIMEOUT_MS", "_PERIOD_S", "_REQUESTS", "_REPLICAS"))
                    and real(given) is None
                ):
                    yield error(pod.where, f"{name} is '{given}'; allowed: a number", "give a number, or take it out")


RULES: tuple[Rule, ...] = (
    Rule(
        id="environment-known",
        title="VLLM_ variables are those of this vLLM",
        why="vLLM ignores variables it does not know, with one line in the log: a misspelt or removed one looks set and does nothing.",
        check=known,
        sources=("vllm 0.8 to 0.32: envs.py",),
    ),
    Rule(
        id="environment-values",
        title="Variables hold what their reader can use",
        why=(
            "Ports and sizes are parsed when the process starts. Addresses and device lists that Ray and the device plugin set for each worker must not be fixed by hand: "
            "all workers would share one."
        ),
        check=values,
        sources=("vllm 0.29.0: envs.py", "ray#29753"),
    ),
    Rule(
        id="environment-service-links",
        title="No Service overwrites a variable of vLLM",
        why=(
            "For each Service of the namespace Kubernetes sets NAME_PORT=tcp://address:port in pods made after it, unless enableServiceLinks is false. A Service called "
            "vllm so sets VLLM_PORT, and vLLM stops at it."
        ),
        check=service_links,
        sources=("vllm#15613", "vllm#34199"),
    ),
    Rule(
        id="environment-ray-numbers",
        title="Variables that Ray reads as numbers are numbers, in their range",
        why=(
            "Those of Ray Serve LLM are converted when ray.serve.llm is imported; anything else stops the import. The raylet checks its memory threshold when it starts, "
            "and ends with the whole pod where it is no part of 1."
        ),
        check=engine_start,
        sources=(
            "ray 2.60.0: llm/_internal/serve/constants.py, common/memory_monitor (usage_threshold must be >= 0, <= 1)",
        ),
    ),
)
