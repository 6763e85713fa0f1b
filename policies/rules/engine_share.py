"""Fractions of a GPU as Ray reserves them: one form, one number, the same in bundle and environment.

Not for: how much memory an engine takes of its share (memory_share.py), or shares between pods (sharing.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.ray_releases import PER_WORKER_GPUS_SINCE
from policies.facts import Stack
from policies.facts.quantities import mapping, real
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, bundle_gpu, literal_env, most_replicas, on_gpus, ray_share, ray_version, seats
from ._values import amount, before

PER_WORKER = "VLLM_RAY_PER_WORKER_GPUS"
_PLACES = 1e-9


def form(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        engine = seat.engine
        given = engine.ray_actor_options.get("num_gpus")
        if not seat.ray or given is None:
            continue
        number = real(given)
        mend = (
            "take num_gpus out; the share belongs in the bundle (gpu.share of the model, or "
            f"placement.bundle_per_worker: {{GPU: {amount(number) if number and 0 < number <= 1 else 1}, CPU: 1}})"
        )
        if number is None or number < 0:
            yield error(engine.where, f"ray_actor_options.num_gpus is {given!r}, not a number of GPUs", mend)
            continue
        if number == 0:
            continue
        if not seat.on_gpu:
            message = (
                f"it runs on CPU and ray_actor_options.num_gpus {amount(number)} makes its replicas wait for a GPU"
            )
            yield error(engine.where, message, "take num_gpus out, or set device: gpu")
            continue
        first = real(engine.bundles[0].get("GPU", 0)) if engine.bundles else 1.0
        total = (first or 0.0) + number
        reserved = f"ray_actor_options.num_gpus {amount(number)} is added to the engine's first bundle of GPU {amount(first or 0)}"
        if total > 1 + _PLACES:
            outcome = (
                f"which becomes {amount(total)}: no single GPU holds it, and vLLM refuses a bundle of more than one GPU"
            )
        else:
            outcome = f"so a replica reserves {amount(total)} of a GPU and its engine works with {amount(first or 0)}"
        yield error(engine.where, f"{reserved}, {outcome}", mend)


def bundles(stack: Stack) -> Iterator[Problem]:
    yield from _without_gpus(stack)
    for seat in on_gpus(stack):
        engine = seat.engine
        if not seat.ray or not engine.bundles:
            continue
        values = [(i, bundle["GPU"], real(bundle["GPU"])) for i, bundle in enumerate(engine.bundles) if "GPU" in bundle]
        for i, given, number in values:
            if number is None or number < 0:
                yield error(
                    engine.where,
                    f"bundle {i} asks for GPU {given!r}, which is no number of GPUs",
                    "give a number over 0 and up to 1",
                )
            elif number > 1 + _PLACES:
                yield error(
                    engine.where,
                    f"bundle {i} asks for GPU {amount(number)}; a bundle carries one engine worker and vLLM refuses more than 1",
                    "give each worker a bundle with at most GPU 1; more GPUs are more bundles (tensor or pipeline parallel)",
                )
            if engine.bundles_form == "bundle_per_worker":
                break  # the others are copies
        usable = [number for _, _, number in values if number is not None and number > 0]
        world = engine.world
        if len(usable) < world:
            yield error(
                engine.where,
                f"{world} engine workers (tensor {engine.tensor} x pipeline {engine.pipeline}) need {world} bundles with a GPU and "
                f"the placement group has {len(usable)}",
                f"give {world} bundles, or bundle_per_worker, which makes as many as there are workers",
            )
        elif len(usable) > world:
            yield warning(
                engine.where,
                f"the placement group has {len(usable)} bundles with a GPU and the engine has {world} worker{'s' if world > 1 else ''}: "
                "the rest is reserved and idle",
                f"give {world} bundles, or raise tensor or pipeline parallel",
            )
        if usable and min(usable) < max(usable) - _PLACES:
            yield error(
                engine.where,
                f"its bundles have different shares, GPU {amount(min(usable))} to {amount(max(usable))}; all workers of an engine ask "
                f"for the same share ({PER_WORKER}), so one of them is never placed",
                "give all bundles the same GPU value",
            )


def _without_gpus(stack: Stack) -> Iterator[Problem]:
    """Bundles without a GPU say that an engine runs on CPU, whatever its pods have."""
    for seat in seats(stack):
        said = mapping(seat.engine.llm_config.get("accelerator_config")).get("kind") == "cpu"
        if seat.ray and not seat.on_gpu and seat.engine.bundles and seat.gpus_per_pod and not said:
            yield error(
                seat.engine.where,
                "no bundle of its placement group asks for a GPU: Ray Serve LLM runs the engine on CPU, and the GPUs of its pods stay idle",
                f"give each bundle a GPU ({seat.engine.world} x {{GPU: 1, CPU: 1}}), or leave the placement group out",
            )


def environment(stack: Stack) -> Iterator[Problem]:
    """VLLM_RAY_PER_WORKER_GPUS against the bundle: what vLLM asks of Ray for a worker, inside what Ray reserved."""
    for seat in on_gpus(stack):
        if not seat.ray:
            continue
        where, given = seat.engine.where, literal_env(seat, PER_WORKER)
        value, share = real(given), ray_share(seat)
        bundle = bundle_gpu(seat.engine)
        if given is not None and (value is None or not 0 < value <= 1):
            yield error(where, f"{PER_WORKER} is '{given}'; allowed: a number over 0 and up to 1", _same(share or 1.0))
        elif value is None and share is not None and before(ray_version(stack, seat.workload), PER_WORKER_GPUS_SINCE):
            yield error(
                where,
                f"its bundle has GPU {amount(share)} and {PER_WORKER} is not set: before Ray {PER_WORKER_GPUS_SINCE} the engine then asks "
                "for a whole GPU inside that bundle and never starts",
                _same(share),
            )
        elif value is None or bundle is None or bundle > 1:
            continue
        elif value > bundle + 1e-4:
            yield error(
                where,
                f"{PER_WORKER} is {amount(value)} and the bundle has GPU {amount(bundle)}: the worker does not fit into its own bundle",
                _same(bundle),
            )
        elif value < bundle - 1e-4:
            message = f"{PER_WORKER} is {amount(value)} and each worker's bundle reserves GPU {amount(bundle)}: the share is not shared"
            if share is None:
                message += "; no other replica can use the rest"
            yield error(
                where, message, f"set gpu.share: {amount(value)} (bundle and variable follow), or take the variable out"
            )


def _same(share: float) -> str:
    return f'set {PER_WORKER}: "{amount(share)}" in the runtime_env of the engine (gpu.share writes both)'


def stranded(stack: Stack) -> Iterator[Problem]:
    """A share over one half leaves a rest that nobody can take."""
    by_workload: dict[str, list[Seat]] = {}
    for seat in on_gpus(stack):
        if ray_share(seat) is not None:
            by_workload.setdefault(seat.workload.where, []).append(seat)
    for members in by_workload.values():
        for seat in members:
            share = ray_share(seat) or 1.0
            rest = 1 - share
            if rest < 0.25 - _PLACES or share <= 0.5 + _PLACES or not most_replicas(seat.engine):
                continue
            fits = any((ray_share(other) or 1.0) <= rest + _PLACES for other in members if _together(seat, other))
            if not fits:
                yield warning(
                    seat.engine.where,
                    f"a share of {amount(share)} goes once on a GPU and {amount(round(rest * 100))} % of each of its GPUs stays idle",
                    f"use a share of at most 0.5, a whole GPU, or put a model of share {amount(rest)} beside it",
                )


def _together(seat: Seat, other: Seat) -> bool:
    names = {group.name for group in seat.groups}
    return other is not seat and any(group.name in names for group in other.groups)


RULES: tuple[Rule, ...] = (
    Rule(
        id="gpu-share-form",
        title="A share of a GPU is stated in the placement bundle only",
        why=(
            "Ray Serve LLM adds ray_actor_options.num_gpus of the replica actor to the first bundle of the engine's placement group. With the usual whole "
            "GPU the bundle becomes 1.4 and is never placed (or refused by vLLM); with a fraction in both places twice the share is reserved. The engine's "
            "own workers never see the actor's GPU."
        ),
        check=form,
        sources=("kuberay#2354", "vllm#4639", "ray 2.60.0: llm_server.py _merge_replica_actor_and_child_actor_bundles"),
    ),
    Rule(
        id="gpu-share-bundles",
        title="One bundle for each engine worker, all alike, with at most one GPU",
        why=(
            "vLLM places one worker in each bundle that has a GPU, needs as many as tensor x pipeline parallel, refuses bundles of more than one GPU, and asks "
            "the same share for each worker."
        ),
        check=bundles,
        sources=("vllm#14109", "vllm PR#14521", "vllm 0.29.0: v1/executor/ray_utils.py initialize_ray_cluster"),
    ),
    Rule(
        id="gpu-share-environment",
        title="VLLM_RAY_PER_WORKER_GPUS equals the bundle's GPU value",
        why=(
            "vLLM asks Ray for VLLM_RAY_PER_WORKER_GPUS (1.0 by default) for each worker, inside the bundle that Serve reserved. More than the bundle has "
            "can never be placed; less leaves the rest reserved and unused."
        ),
        check=environment,
        sources=("ray#63875", "vllm PR#22577", "vllm 0.29.0: v1/executor/ray_executor_v2.py"),
    ),
    Rule(
        id="gpu-share-stranded",
        title="Shares fill a GPU",
        why="Ray packs whole shares: two of 0.6 do not go on one GPU, so each takes a GPU of its own and 40 % of it is paid for and idle.",
        check=stranded,
        sources=("ray#58328",),
    ),
)
