"""KAI: the annotations of GPU fractions, what its chart must allow, and versions that get sharing right.

Not for: queues (queues.py, queue_shares.py) or gangs (gang.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import real, whole
from policies.finding import Problem, Rule, error, warning

from ._places import asks_kai_share, places
from ._values import before, dig, releases, true

FRACTION, MEMORY, DEVICES, MPS = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "mps"


def _pods(stack: Stack) -> Iterator[tuple[Workload, PodGroup]]:
    for workload in stack.workloads:
        for group in workload.pod_groups:
            yield workload, group


def _gpu_limit(group: PodGroup) -> bool:
    return any(str(key) == "nvidia.com/gpu" for key in group.limits)


def well_formed(stack: Stack) -> Iterator[Problem]:
    for _, group in _pods(stack):
        given = group.annotations
        if not any(key in given for key in (FRACTION, MEMORY, DEVICES, MPS)):
            continue
        shared = asks_kai_share(group)
        if MPS in given and str(given[MPS]).lower() == "true" and not shared:
            yield error(group.where, "annotation mps needs a GPU fraction", f"add {FRACTION}, or leave mps out")
        if DEVICES in given and not shared:
            yield error(
                group.where, f"annotation {DEVICES} needs {FRACTION} or {MEMORY}", f"add {FRACTION}, or leave it out"
            )
        if FRACTION in given and _gpu_limit(group):
            yield error(
                group.where,
                f"annotation {FRACTION} and a limit of nvidia.com/gpu exclude each other; KAI's webhook refuses the pod",
                "leave the limit out: the fraction is the GPU request",
            )
        if MEMORY in given and (FRACTION in given or _gpu_limit(group)):
            other = FRACTION if FRACTION in given else "a limit of nvidia.com/gpu"
            yield error(
                group.where,
                f"annotation {MEMORY} and {other} exclude each other; KAI's webhook refuses the pod",
                f"keep one of them; {FRACTION} is what the engine's memory share is derived from",
            )
        part = real(given.get(FRACTION))
        if FRACTION in given and (part is None or not 0 < part < 1):
            yield error(
                group.where,
                f"{FRACTION} '{given[FRACTION]}' is not a number between 0 and 1; KAI's webhook refuses the pod",
                "give a part such as 0.5, or a whole GPU by its limit",
            )
        for key, what in ((MEMORY, "MiB"), (DEVICES, "devices")):
            number = whole(given.get(key))
            if key in given and (number is None or number <= 0):
                yield error(
                    group.where,
                    f"{key} '{given[key]}' is not a whole number of {what} above 0; KAI's webhook refuses the pod",
                    f"give a number such as {'8000' if key == MEMORY else '1'}",
                )


def enabled(stack: Stack) -> Iterator[Problem]:
    if stack.gpu_sharing_enabled is not False or stack.batch_scheduler not in (None, "kai"):
        return
    for _, group in _pods(stack):
        if asks_kai_share(group):
            yield error(
                group.where,
                "it asks for a part of a GPU and KAI's chart has global.gpuSharing false (its default); the webhook refuses the pod",
                "set software.kai.gpu_sharing: true",
            )


def scheduled(stack: Stack) -> Iterator[Problem]:
    index = places(stack)
    for _, group in _pods(stack):
        if not asks_kai_share(group):
            continue
        if stack.batch_scheduler not in (None, "kai"):
            yield error(
                group.where,
                f"it asks for a part of a GPU by KAI's annotation and the batch scheduler is {stack.batch_scheduler}: nothing gives it a GPU",
                "set software.batch_scheduler: kai, or ask for the GPU in the limits",
            )
            continue
        pool = index.home(group)
        if pool is not None and pool.sharing.strategy in ("mig", "time_slicing", "mps", "volcano_vgpu"):
            yield error(
                group.where,
                f"it asks KAI for a part of a GPU and {pool.where} shares its GPUs by {pool.sharing.strategy}: a GPU is shared in one way only",
                "set the pool's sharing.strategy: kai",
            )


def versions(stack: Stack) -> Iterator[Problem]:
    kai = stack.versions.kai
    if kai is None:
        return
    mixed = [p for p in stack.pools if p.sharing.strategy == "mig" and p.sharing.mig_strategy == "mixed"]
    if mixed and stack.batch_scheduler in (None, "kai") and not before(kai, "0.16.0") and before(kai, "0.16.5"):
        yield error(
            mixed[0].where,
            f"KAI {kai} does not find resources that only some nodes have, nvidia.com/mig-* among them",
            "use KAI 0.16.5 or 0.17",
        )
    if before(kai, "0.6.0") and stack.batch_scheduler in (None, "kai"):
        for workload in stack.workloads:
            if workload.labels.get("kai.scheduler/queue") and not workload.labels.get("runai/queue"):
                yield error(
                    workload.where,
                    f"KAI {kai} reads the queue from the label runai/queue: its pods go to the default queue, or wait where there is none",
                    "use KAI 0.6 or newer, which reads kai.scheduler/queue",
                )
    if before(kai, "0.7.12"):
        for _, group in _pods(stack):
            if asks_kai_share(group):
                yield error(
                    group.where,
                    f"KAI {kai} makes its GPU reservation pods without the nvidia runtime class: where containerd's default is another runtime they "
                    "see no GPU and the pod dies",
                    "use KAI 0.10 or newer",
                )


def values(stack: Stack) -> Iterator[Problem]:
    for release in releases(stack, "kai-scheduler"):
        if dig(release.values, "binder", "resourceReservation", "runtimeClassName") and not before(
            release.version, "0.16"
        ):
            yield warning(
                release.where,
                "value binder.resourceReservation.runtimeClassName is not read by the chart's templates",
                "use binder.runtimeClassName",
            )
        if "kai-scheduler/kai-scheduler" in str(release.repository or release.chart) and before(
            release.version, "0.14.0"
        ):
            yield error(
                release.where,
                f"chart version {release.version} is not in {release.repository or release.chart}: KAI's charts moved there with 0.14",
                "use 0.14 or newer, or oci://ghcr.io/nvidia/kai-scheduler for older ones",
            )
        rendered = true(dig(release.values, "kaiConfig", "render"), False)
        deployed = true(dig(release.values, "kaiConfigDeployer", "enabled"), True)
        if rendered and deployed:
            yield error(
                release.where,
                "kaiConfig.render and kaiConfigDeployer.enabled exclude each other",
                "set kaiConfigDeployer.enabled: false with kaiConfig.render: true",
            )
        grows = stack.autoscaler in ("karpenter", "cluster_autoscaler")
        shares = any(asks_kai_share(group) for _, group in _pods(stack))
        if grows and shares and not true(dig(release.values, "global", "clusterAutoscaling"), False):
            yield warning(
                release.where,
                f"GPU fractions are asked for by annotation, which {str(stack.autoscaler).replace('_', '-')} does not read: no node is started for them",
                "set global.clusterAutoscaling: true (KAI's node-scale-adjuster asks for whole GPUs in their place)",
            )
        runtime = dig(release.values, "admission", "gpuFractionRuntimeClassName")
        for operator in releases(stack, "gpu-operator"):
            there = dig(operator.values, "operator", "runtimeClass") or "nvidia"
            if shares and runtime not in (None, "", there):
                yield error(
                    release.where,
                    f"admission.gpuFractionRuntimeClassName '{runtime}' does not exist: the GPU Operator makes RuntimeClass '{there}'",
                    f"set it to '{there}'",
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kai-fraction",
        title="A KAI fraction is a part, alone, and well written",
        why=(
            "KAI's admission webhook refuses a pod that has a fraction and a whole-GPU limit, a fraction outside (0, 1), memory together with either, or MPS "
            "and device counts without a fraction. KubeRay then retries for ever."
        ),
        check=well_formed,
        sources=("KAI-Scheduler d5bc503: pkg/binder/plugins/gpusharing/gpu-request/gpu_request_validator.go",),
    ),
    Rule(
        id="kai-sharing-off",
        title="KAI's GPU sharing is switched on for fractions",
        why="global.gpuSharing is false by default, and the webhook refuses every pod with a fraction while it is.",
        check=enabled,
        sources=("KAI-Scheduler v0.17.0: deployments/kai-scheduler/values.yaml",),
    ),
    Rule(
        id="kai-fraction-scheduler",
        title="Fractions go to KAI, on pools that share by KAI",
        why=(
            "Only KAI reads gpu-fraction and gpu-memory. Under another scheduler the pod has no GPU request at all; on GPUs that the device plugin already "
            "divides, KAI divides slices."
        ),
        check=scheduled,
    ),
    Rule(
        id="kai-versions",
        title="KAI versions that share GPUs as they say",
        why=(
            "0.16.0 to 0.16.4 lose resources that only some nodes have, so mixed MIG profiles are not found; before 0.7.12 reservation pods run without the "
            "nvidia runtime class."
        ),
        check=versions,
        sources=("kai#1876", "kai#1852", "kai#340", "kai#360"),
    ),
    Rule(
        id="kai-values",
        title="KAI chart values that are read",
        why=(
            "The chart ignores unknown values silently. Node autoscalers see fraction pods only through KAI's node-scale-adjuster, and fraction pods run with a "
            "RuntimeClass that must exist."
        ),
        check=values,
        sources=("KAI-Scheduler v0.17.0: deployments/kai-scheduler",),
    ),
)
