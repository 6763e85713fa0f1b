"""accelerator_type: a name that Ray knows, that nodes carry, and that is the pool's GPU.

Not for: whether the GPU is large or new enough (fit.py, dtype_quantisation.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog import gpus
from policies.catalog.lookup import closest_names
from policies.catalog.ray_releases import ACCELERATOR_TYPES, NOT_DETECTED
from policies.facts import Stack
from policies.facts.quantities import real
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, ray_version, seats
from ._values import before, version
from .topology import ray_resources

_PREFIX = "accelerator_type:"
# Kinds of ray.util.accelerators that are no NVIDIA GPU: theirs to judge, not ours.
_FOREIGN = ("AMD-", "Apple-", "Ascend", "FURIOSA", "Intel-", "M1", "M2", "M3", "MOBILINT", "MXC", "TPU-", "aws-neuron")


def wanted(seat: Seat) -> tuple[str, ...]:
    """Accelerator types an engine asks for: stated, or in its bundles."""
    names = [seat.engine.accelerator_type] if seat.engine.accelerator_type else []
    for bundle in seat.engine.bundles:
        names += [str(key).removeprefix(_PREFIX) for key in bundle if str(key).startswith(_PREFIX)]
    return tuple(dict.fromkeys("A10G" if name == "A10" else str(name) for name in names))


def name(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        given = seat.engine.accelerator_type
        if given is None or not seat.ray:
            continue
        where, ray = seat.engine.where, ray_version(stack, seat.workload)
        text = str(given)
        if not seat.on_gpu:
            yield error(
                where,
                f"accelerator_type {text} and the engine runs on CPU: Ray refuses the two together",
                "leave it out",
            )
        elif text.startswith("TPU-"):
            yield error(
                where,
                f"accelerator_type {text} and bundles with GPUs: Ray refuses the two together",
                f"{_by_pool(seat)}or leave it out",
            )
        elif text == "A10" or text.startswith(_FOREIGN):
            continue
        elif text not in ACCELERATOR_TYPES:
            newer = (version(ray) or (0,)) >= (2, 61)
            near = closest_names(text, ACCELERATOR_TYPES, 1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            if not newer:
                yield error(
                    where,
                    f"accelerator_type '{text}' is none that Ray {ray or 'knows'} takes".replace(
                        "knows takes", "takes"
                    ),
                    f"{hint}{_by_pool(seat)}allowed: {', '.join(sorted(ACCELERATOR_TYPES))}",
                )
        elif before(ray, ACCELERATOR_TYPES[text]):
            yield error(
                where,
                f"accelerator_type {text} came with Ray {ACCELERATOR_TYPES[text]} and this is Ray {ray}, which refuses it",
                f"use Ray {ACCELERATOR_TYPES[text]} or newer, or leave accelerator_type out",
            )


def _by_pool(seat: Seat) -> str:
    if seat.gpu is None:
        return ""
    if seat.gpu.ray_accelerator_type is None:
        return f"Ray has no name for a {seat.gpu.name}, leave it out; "
    return f"for {seat.pool.where if seat.pool else 'this GPU'} it is {seat.gpu.ray_accelerator_type}; "


def detected(stack: Stack) -> Iterator[Problem]:
    """Names that must be declared, because no node gets them by itself."""
    for seat in seats(stack):
        if not seat.ray:
            continue
        for kind in wanted(seat):
            if kind in NOT_DETECTED and not _declared(seat, kind):
                yield error(
                    seat.engine.where,
                    f"accelerator_type {kind} is on no node by itself: Ray detects A100 for both sizes, so the placement group waits for ever",
                    f'use accelerator_type A100, or declare worker.resources: {{"{_PREFIX}{kind}": "1"}} on pods of that size',
                )


def _declared(seat: Seat, kind: str) -> bool:
    key = _PREFIX + kind
    return any((real(ray_resources(group).get(key)) or 0) > 0 for group in seat.groups)


def of_pool(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        if not seat.ray or not seat.on_gpu or seat.gpu is None or seat.pool is None:
            continue
        for kind in wanted(seat):
            meant = gpus.for_ray_accelerator_type(kind)
            if kind in NOT_DETECTED or kind not in ACCELERATOR_TYPES or _declared(seat, kind):
                continue
            if seat.gpu.ray_auto_label != kind and seat.gpu.name not in {gpu.name for gpu in meant}:
                right = seat.gpu.ray_accelerator_type
                yield error(
                    seat.engine.where,
                    f"accelerator_type {kind} and {seat.pool.where} has {seat.gpu.name}: no pod of it satisfies the bundles",
                    f"use accelerator_type {right}, or leave it out" if right else "leave it out",
                )


def from_zero(stack: Stack) -> Iterator[Problem]:
    """The Ray autoscaler adds a pod only if the group's declared resources satisfy the bundle."""
    for seat in seats(stack):
        if not seat.ray or not seat.workload.autoscaling or not seat.on_gpu:
            continue
        for kind in wanted(seat):
            if kind in NOT_DETECTED or _declared(seat, kind):
                continue
            empty = [group for group in seat.groups if not group.min]
            if empty and len(empty) == len(seat.groups):
                yield warning(
                    seat.engine.where,
                    f"accelerator_type {kind} with a worker group that starts at 0 pods: the autoscaler does not know that its pods will have "
                    f"{_PREFIX}{kind}, and adds none",
                    f'declare worker.resources: {{"{_PREFIX}{kind}": "1"}}, keep one pod (worker.min), or leave accelerator_type out',
                )


RULES: tuple[Rule, ...] = (
    Rule(
        id="accelerator-name",
        title="accelerator_type is a name this Ray knows",
        why="LLMConfig refuses names that are not in ray.util.accelerators of its own version; newer GPUs came with newer Ray.",
        check=name,
        sources=("ray PR#51935", "ray PR#62139", "ray 2.43 to 2.60: util/accelerators/accelerators.py"),
    ),
    Rule(
        id="accelerator-detected",
        title="Sized A100 names are declared by the group",
        why="Ray detects A100 from the device's name; A100-40G and A100-80G exist as names only, and a bundle that asks for one waits until a node declares it.",
        check=detected,
        sources=("ray 2.60.0: util/accelerators/accelerators.py",),
    ),
    Rule(
        id="accelerator-pool",
        title="accelerator_type is the GPU of the pool",
        why="It adds accelerator_type:<name> to each bundle. Pods of another GPU never have it, so the replica waits for ever on nodes that are paid for.",
        check=of_pool,
        sources=("ray 2.60.0: vllm_models.py placement_bundles",),
    ),
    Rule(
        id="accelerator-from-zero",
        title="A group that starts at zero declares its accelerator_type",
        why=(
            "Ray's autoscaler knows a group that has no pods only by its declared resources. KubeRay derives CPU, memory and GPU from the pod, and no "
            "accelerator_type."
        ),
        check=from_zero,
        sources=("kuberay v1.7.0: controllers/ray/utils/resources.go",),
    ),
)
