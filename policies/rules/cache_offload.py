"""KV caches beyond the GPU: connectors that are told how much they may hold, that are on at all, and whose keys agree.

Not for: memory of the pod (host_memory.py), or prefill and decode (disaggregation.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import PodGroup, Stack
from policies.facts.quantities import items, mapping, quantity, real, switch, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, has_env, literal_env, seats

LMCACHE = "LMCacheConnectorV1"
NATIVE = "OffloadingConnector"
_SIMPLE = "SimpleCPUOffloadConnector"
_GIB = 1 << 30
_LMCACHE_DEFAULT_GB = 5.0  # lmcache/v1/config.py max_local_cpu_size
_SIMPLE_DEFAULT_GIB = 8.0  # simple_cpu_offload_connector.py DEFAULT_CPU_CAPACITY_BYTES


def parts(seat: Seat) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(connector, its extra config) of an engine; of each one inside a MultiConnector."""
    config = mapping(seat.engine.kv_transfer)
    extra = mapping(config.get("kv_connector_extra_config"))
    if config.get("kv_connector"):
        yield str(config["kv_connector"]), extra
    for each in map(mapping, items(extra.get("connectors"))):
        yield str(each.get("kv_connector")), mapping(each.get("kv_connector_extra_config"))


def host_gib(seat: Seat, workers: float) -> tuple[float, str]:
    """Memory (GiB) that caches take of one pod with `workers` workers of the engine, and what says so."""
    given = real(seat.args.get("kv_offloading_size"))
    found, said = given or 0.0, ["kv_offloading_size"] if given else []
    for name, extra in parts(seat):
        if name in (NATIVE, _SIMPLE):
            size = (real(extra.get("cpu_bytes_to_use")) or 0.0) / _GIB  # of all workers together
            found += size or (_SIMPLE_DEFAULT_GIB if name == _SIMPLE else 0.0)
            said.append("cpu_bytes_to_use")
        elif (
            name == LMCACHE and not has_env(seat, "LMCACHE_CONFIG_FILE") and _on(literal_env(seat, "LMCACHE_LOCAL_CPU"))
        ):
            stated = real(literal_env(seat, "LMCACHE_MAX_LOCAL_CPU_SIZE"))
            found += (_LMCACHE_DEFAULT_GB if stated is None else stated) * 1e9 / _GIB * workers  # GB, of each worker
            said.append("LMCACHE_MAX_LOCAL_CPU_SIZE for each worker")
    return found, ", ".join(said)


def _on(value: str | None) -> bool:
    return value is None or value.casefold() not in ("false", "0", "no", "off")


def sizes(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        where, reused = seat.engine.where, switch(seat.args.get("enable_prefix_caching")) is not False
        for name, extra in parts(seat):
            if name == NATIVE and not real(extra.get("cpu_bytes_to_use")) and not extra.get("spec_module_path"):
                yield error(
                    where,
                    f"{name} is not told how much it may hold: vLLM refuses to start without cpu_bytes_to_use",
                    "set kv_connector_extra_config: {cpu_bytes_to_use: <bytes>}, or kv_offloading_size (GiB) in place of the connector",
                )
            elif name == _SIMPLE and not reused:
                yield warning(
                    where,
                    f"{name} does nothing while enable_prefix_caching is false",
                    "leave enable_prefix_caching out",
                )
        if LMCACHE in {name for name, _ in parts(seat)} and not has_env(seat, "LMCACHE_CONFIG_FILE"):
            yield from _lmcache(seat)
        backend = seat.args.get("kv_offloading_backend")
        if backend == "native" and seat.args.get("kv_offloading_size") is None:
            yield warning(
                where,
                "kv_offloading_backend is native and kv_offloading_size is not given: nothing is offloaded",
                "set kv_offloading_size (GiB of the pod's memory), or leave the backend out",
            )


def _lmcache(seat: Seat) -> Iterator[Problem]:
    where, size = seat.engine.where, real(literal_env(seat, "LMCACHE_MAX_LOCAL_CPU_SIZE"))
    if size == 0 and not switch(literal_env(seat, "LMCACHE_ENABLE_PD")):
        yield error(
            where,
            "LMCACHE_MAX_LOCAL_CPU_SIZE is 0: LMCache moves everything through that memory, to disk and to other servers too, and ends when it makes it",
            'give 1 or more (GB for each worker); LMCACHE_LOCAL_CPU: "False" is what keeps the cache itself out of memory',
        )
    disk, path, group = (
        real(literal_env(seat, "LMCACHE_MAX_LOCAL_DISK_SIZE")),
        literal_env(seat, "LMCACHE_LOCAL_DISK"),
        seat.group,
    )
    if not disk or not path or group is None:
        return
    workers = max(1.0, min(float(seat.engine.world), seat.gpus_per_pod))
    need, (have, whose) = disk * 1e9 * workers, _room(group, path.removeprefix("file://"))
    if have is not None and need > have:
        yield warning(
            where,
            f"LMCache keeps up to {need / _GIB:.0f} GiB on disk (LMCACHE_MAX_LOCAL_DISK_SIZE for each worker) and {whose} is {have / _GIB:.0f} GiB: "
            "the pod is evicted when it has filled that",
            "lower it, or give the volume more",
        )


def _room(group: PodGroup, path: str) -> tuple[float | None, str]:
    """Bytes that a folder of the first container may hold, and what says so. None where nothing does."""
    container = group.main_container
    mounts = {str(m.get("mountPath")).rstrip("/"): m for m in map(mapping, items(container.get("volumeMounts")))}
    at = max((mount for mount in mounts if f"{path}/".startswith(f"{mount}/")), key=len, default=None)
    if at is None:
        limits = mapping(mapping(container.get("resources")).get("limits"))
        return quantity(limits.get("ephemeral-storage")), "its limit of ephemeral-storage"
    name = str(mounts[at].get("name"))
    volume = next((each for each in map(mapping, items(group.pod.get("volumes"))) if each.get("name") == name), {})
    return quantity(mapping(volume.get("emptyDir")).get("sizeLimit")), f"volume '{name}'"


def keys(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        engine = seat.engine
        if LMCACHE not in {name for name, _ in parts(seat)} or has_env(seat, "PYTHONHASHSEED"):
            continue
        alone = (
            mapping(engine.kv_transfer).get("kv_connector") == LMCACHE
        )  # beside NIXL in a MultiConnector it is a cache of its own
        between = (alone and engine.role in ("prefill", "decode")) or has_env(seat, "LMCACHE_REMOTE_URL")
        if engine.world > 1 or between:
            whom = f"its {engine.world} workers" if not between else "the engines that share the cache"
            yield warning(
                engine.where,
                f"{LMCACHE} without PYTHONHASHSEED: {whom} hash the same tokens to different keys, and nothing is ever found in the cache",
                'set PYTHONHASHSEED: "0" in the environment of each',
            )
        chunk, block = whole(literal_env(seat, "LMCACHE_CHUNK_SIZE")), whole(seat.args.get("block_size")) or 16
        if chunk is not None and chunk % block:
            yield warning(
                engine.where,
                f"LMCACHE_CHUNK_SIZE {chunk} is no multiple of the {block} tokens of a cache block",
                f"use {max(1, round(chunk / block)) * block}",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="cache-offload",
        title="A cache beyond the GPU has a size and is on",
        why=(
            "vLLM's connector for host memory has no default size and refuses to start without one; the argument that names the backend alone turns nothing on. Neither is "
            "seen before the model is on the GPU, or at all."
        ),
        check=sizes,
        sources=(
            "LMCache#1901",
            "LMCache#2556",
            "LMCache#1399",
            "vllm 0.32: v1/kv_offload/cpu/spec.py, config/cache.py, simple_cpu_offload_connector.py",
        ),
    ),
    Rule(
        id="cache-keys",
        title="Processes that share a cache agree on its keys",
        why=(
            "LMCache's keys begin with Python's hash of nothing, which is another one in each process unless PYTHONHASHSEED is set. Workers of one engine, prefill and decode, and "
            "engines with one remote store then never find what another one stored: the hit rate is 0 and the copying is paid for."
        ),
        check=keys,
        sources=("LMCache#1739", "LMCache#1095", "LMCache#2581", "LMCache PR#2596"),
    ),
)
