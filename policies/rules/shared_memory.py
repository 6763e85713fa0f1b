"""/dev/shm of engine pods: large enough for workers and for caches, mounted, and counted.

Not for: traffic between nodes (network.py), or offloaded caches against the memory of the pod (host_memory.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Engine, PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, real, switch, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import RAY_KINDS, Seat, literal_env, on_gpus, ranks_in_pod, vllm_version
from ._places import engine_groups, other_chips
from ._values import before, gib
from .cache_offload import NATIVE, parts

# A container's own /dev/shm (containerd and Docker default), and what NCCL and vLLM's message queues take for each worker:
# NCCL maps some MiB for each channel and peer, vLLM's broadcast ring ten chunks of VLLM_MQ_MAX_CHUNK_BYTES_MB (16).
DEFAULT_SHM_MIB = 64
LEAST_SHM_MIB = 256
COMFORTABLE_SHM_MIB = 2048
# vLLM's message queue for a single worker in a process of its own (shm_broadcast.py check_shm_free_space, 0.29.0).
ONE_WORKER_SHM_MIB = 160
# v1/kv_offload: the tiered cache was a file in /dev/shm from its start, the plain one became one (vllm#44888, PR#50094).
_TIERED, _IN_SHM = ("TieringOffloadingSpec", "0.22"), ("CPUOffloadingSpec", "0.28")
_INPUTS_GIB = 4.0  # config/multimodal.py mm_processor_cache_gb


def shared_memory(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for engine in workload.engines:
            workers = engine.world * (1 if workload.kind in RAY_KINDS else ranks_in_pod(engine))
            if workers < 2:
                yield from _one_worker(workload, engine)
                continue
            for group in engine_groups(workload, engine):
                if group.host_shm or other_chips(group):  # Neuron's plugin cuts a model over cores in one process
                    continue
                size, whose = _shm(workload, group)
                if size is None or size >= COMFORTABLE_SHM_MIB:
                    continue
                yield (error if size < LEAST_SHM_MIB else warning)(
                    group.where,
                    f"/dev/shm is {_size(size)} ({whose}) and {workers} workers of {engine.where.rsplit(': ', 1)[-1]} talk over it: NCCL and "
                    "vLLM's message queue fail with 'No space left on device' or a bus error",
                    "leave shm_gib out, or set it to 2 or more"
                    if workload.kind != "Deployment"
                    else "mount an emptyDir with medium: Memory at /dev/shm",
                )


def _one_worker(workload: Workload, engine: Engine) -> Iterator[Problem]:
    if engine.device != "cpu" and engine.engine_args.get("distributed_executor_backend") != "mp":
        return  # engine and worker are one process
    for group in engine_groups(workload, engine):
        size, whose = _shm(workload, group)
        if not group.host_shm and size is not None and size < ONE_WORKER_SHM_MIB:
            yield error(
                group.where,
                f"/dev/shm is {_size(size)} ({whose}) and the engine of {engine.where.rsplit(': ', 1)[-1]} talks to its worker over it: vLLM takes "
                f"{ONE_WORKER_SHM_MIB} MiB and refuses to start",
                "leave shm_gib out, or set it to 0.25 or more"
                if workload.kind != "Deployment"
                else "mount an emptyDir with medium: Memory at /dev/shm",
            )


def caches(stack: Stack) -> Iterator[Problem]:
    """Caches that are files in /dev/shm: what is offloaded from the GPU, and processed images between two processes."""
    for seat in on_gpus(stack):
        offloaded, inputs = _offloaded(stack, seat), _inputs(seat)
        for group in engine_groups(seat.workload, seat.engine):
            size, whose = _shm(seat.workload, group)
            if group.host_shm or size is None:
                continue
            if offloaded > size:
                yield (error if vllm_version(stack, seat.workload) else warning)(
                    group.where,
                    f"/dev/shm is {_size(size)} ({whose}) and the cache that {seat.engine.where.rsplit(': ', 1)[-1]} offloads is a file of {gib(offloaded)} in it: vLLM refuses to start",
                    "give /dev/shm more than that (shm_gib, or the sizeLimit of its emptyDir) and the container as much memory, or offload less",
                )
            elif inputs > size:
                yield warning(
                    group.where,
                    f"/dev/shm is {_size(size)} ({whose}) and mm_processor_cache_type shm keeps {gib(inputs)} in it: a bus error ends the engine when that much has come in",
                    "lower mm_processor_cache_gb, or give /dev/shm more than that",
                )


def _offloaded(stack: Stack, seat: Seat) -> float:
    """MiB of vLLM's own cache in host memory, of all workers together."""
    version, found = vllm_version(stack, seat.workload), 0.0
    native = seat.args.get("kv_offloading_backend") in (None, "native")
    if native and not switch(literal_env(seat, "VLLM_USE_SIMPLE_KV_OFFLOAD")) and not before(version, _IN_SHM[1]):
        found = (real(seat.args.get("kv_offloading_size")) or 0.0) * 1024
    for name, extra in parts(seat):
        spec = str(extra.get("spec_name") or _IN_SHM[0])
        since = next((first for known, first in (_TIERED, _IN_SHM) if known == spec), None)
        if name == NATIVE and since and not extra.get("spec_module_path") and not before(version, since):
            found += (real(extra.get("cpu_bytes_to_use")) or 0.0) / (1 << 20)
    return found


def _inputs(seat: Seat) -> float:
    """MiB of processed images that the API server hands to its one engine; with several vLLM has no such cache."""
    alone = (whole(seat.args.get("api_server_count")) or 1) == 1 and seat.engine.data <= 1
    if (
        seat.args.get("mm_processor_cache_type") != "shm"
        or not alone
        or seat.row is None
        or not seat.row.vision_parameters
    ):
        return 0.0
    given = real(seat.args.get("mm_processor_cache_gb"))
    return (_INPUTS_GIB if given is None else given) * 1024


def _size(mib: int) -> str:
    return f"{mib} MiB" if mib < 1024 else gib(mib)


def _shm(workload: Workload, group: PodGroup) -> tuple[int | None, str]:
    if group.shm_mib is not None:
        return group.shm_mib, "as declared"
    if _mount(group) is not None:
        return None, ""  # a volume without sizeLimit: half of the node's memory
    if workload.by_kuberay:
        if "plasma-directory" in group.ray_start_params:
            return DEFAULT_SHM_MIB, "the container's own: with plasma-directory KubeRay mounts none"
        return group.memory_mib, "KubeRay's own, the memory limit"
    return DEFAULT_SHM_MIB, "the container's own"


def _mount(group: PodGroup) -> str | None:
    first = group.main_container
    for mount in map(mapping, items(first.get("volumeMounts"))):
        if mount.get("mountPath") == "/dev/shm":
            return str(mount.get("name", ""))
    return None


def shm_mounted(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            mounted = _mount(group)
            for volume in map(mapping, items(group.pod.get("volumes"))):
                name = str(volume.get("name", ""))
                memory = mapping(volume.get("emptyDir")).get("medium") == "Memory"
                if memory and "shm" in name.lower() and mounted != name:
                    yield warning(
                        group.where,
                        f"volume '{name}' is memory-backed and not mounted at /dev/shm of the first container, so its size reaches nobody",
                        f"mount it: volumeMounts: [{{name: {name}, mountPath: /dev/shm}}]",
                    )
            if group.shm_mib is not None and group.memory_mib is not None and group.shm_mib > group.memory_mib:
                yield warning(
                    group.where,
                    f"/dev/shm of {gib(group.shm_mib)} is more than the memory limit of {gib(group.memory_mib)}, and what is in it counts there: the pod is "
                    "killed before it is full",
                    "raise memory_gib, or lower shm_gib",
                )
            if group.host_shm:
                yield warning(
                    group.where,
                    "/dev/shm is the host's: pods of one node see each other's segments, and nothing limits or cleans them",
                    "use an emptyDir with medium: Memory",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="network-shared-memory",
        title="Engines over several workers have shared memory",
        why=(
            "Workers of one engine exchange tensors and messages over /dev/shm. A container's own has 64 MiB; KubeRay mounts a memory-backed one of the size of the memory limit, unless "
            "plasma-directory is set, and a plain Deployment has to do so itself."
        ),
        check=shared_memory,
        sources=("kuberay: controllers/ray/common/pod.go", "production-stack#276", "llm-d/llm-d#352"),
    ),
    Rule(
        id="fit-shared-memory",
        title="Caches in /dev/shm fit it",
        why=(
            "vLLM's cache in host memory is one file in /dev/shm that all workers map, and the check of its size comes after the weights are loaded. The cache of processed images that is shared "
            "memory is not checked at all: pages that do not fit end the process when they are written."
        ),
        check=caches,
        sources=(
            "opendatahub-io/kserve PR#1842",
            "vllm PR#52496",
            "vllm#44888",
            "vllm PR#48879",
            "vllm 0.29.0: v1/kv_offload/cpu/shared_offload_region.py, multimodal/cache.py ShmObjectStoreSenderCache",
        ),
    ),
    Rule(
        id="network-shm-mount",
        title="A shared-memory volume reaches the engine",
        why="A volume only counts where it is mounted, in the container that runs the engine, and its content counts against that container's memory.",
        check=shm_mounted,
        sources=("production-stack#276",),
    ),
)
