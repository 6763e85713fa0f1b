"""/dev/shm of engine pods: large enough, mounted, and counted.

Not for: traffic between nodes (network.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Engine, PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._engines import RAY_KINDS, ranks_in_pod
from ._places import engine_groups, other_chips
from ._values import gib

# A container's own /dev/shm (containerd and Docker default), and what NCCL and vLLM's message queues take for each worker:
# NCCL maps some MiB for each channel and peer, vLLM's broadcast ring ten chunks of VLLM_MQ_MAX_CHUNK_BYTES_MB (16).
DEFAULT_SHM_MIB = 64


LEAST_SHM_MIB = 256


COMFORTABLE_SHM_MIB = 2048
# vLLM's message queue for a single worker in a process of its own (shm_broadcast.py check_shm_free_space, 0.29.0).
ONE_WORKER_SHM_MIB = 160


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
        id="network-shm-mount",
        title="A shared-memory volume reaches the engine",
        why="A volume only counts where it is mounted, in the container that runs the engine, and its content counts against that container's memory.",
        check=shm_mounted,
        sources=("production-stack#276",),
    ),
)
