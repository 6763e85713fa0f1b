"""Placement groups against pods: whether the bundles of a replica can be placed.

Not for: where workers talk to each other (engine_spread.py), the sum of GPUs (gang.py), pods against nodes (placement.py), or the model (parallelism.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policies.catalog.ray_releases import DATA_PARALLEL_PACK_SINCE, PACK_SINCE
from policies.facts import PodGroup, Stack
from policies.facts.quantities import mapping, real
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, bundle_gpu, most_replicas, ray_version, seats
from ._places import pods_at_most
from ._values import amount, before

_OWN = ("CPU", "GPU", "memory", "object_store_memory")
_EDGE = 1e-6


@dataclass(frozen=True, slots=True)
class Bundles:
    """What one replica (one data-parallel rank) asks of Ray: CPU of the first bundle and of the others, GPU of each."""

    count: int
    first_cpu: float
    cpu: float
    gpu: float


def bundles_of(seat: Seat) -> Bundles:
    """Serve LLM adds the replica actor (one CPU unless ray_actor_options.num_cpus says otherwise) to the first bundle."""
    engine = seat.engine
    actor = real(engine.ray_actor_options.get("num_cpus"))
    actor = 1.0 if actor is None else actor
    cpus = [real(bundle.get("CPU")) or 0.0 for bundle in engine.bundles] or [0.0] * engine.world
    gpu = (bundle_gpu(engine) or 0.0) if seat.on_gpu else 0.0
    return Bundles(len(cpus), cpus[0] + actor, max(cpus[1:], default=cpus[0]), gpu)


def pod_cpu(group: PodGroup) -> float | None:
    """CPUs one pod brings to Ray: group resources, num-cpus, else KubeRay's ceiling of limit or request."""
    for stated in (group.resources.get("CPU"), group.ray_start_params.get("num-cpus")):
        number = real(stated)
        if number is not None:
            return number
    milli = group.cpu_limit_milli or group.cpu_milli
    return math.ceil(milli / 1000) if milli else None


def strategy_of(stack: Stack, seat: Seat) -> str:
    """The placement strategy that Ray takes."""
    engine, ray = seat.engine, ray_version(stack, seat.workload)
    if engine.data > 1:
        return "STRICT_PACK" if before(ray, DATA_PARALLEL_PACK_SINCE) else "PACK"
    if before(ray, PACK_SINCE):
        return "PACK" if engine.pipeline > 1 else "STRICT_PACK"
    return engine.strategy or "PACK"


def placement(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        if not seat.ray or not seat.groups or (seat.on_gpu and seat.gpus_per_pod <= 0):
            continue
        asked, strategy = bundles_of(seat), strategy_of(stack, seat)
        yield from _cpu(seat, asked)
        if not seat.on_gpu or asked.gpu <= 0 or asked.gpu > 1:
            continue
        per_pod = int(seat.gpus_per_pod * (int(1 / asked.gpu + _EDGE) if asked.gpu < 1 else 1))
        pods = sum(pods_at_most(seat.workload, group) for group in seat.groups)
        if strategy == "STRICT_PACK" and asked.count > per_pod:
            yield error(
                seat.engine.where,
                f"{asked.count} workers must be in one pod (STRICT_PACK{_why(stack, seat)}) and a pod holds {per_pod}: "
                "the placement group is never ready",
                "use strategy PACK, larger pods (worker.gpus_per_pod), or fewer GPUs for each engine",
            )
        elif strategy == "STRICT_SPREAD" and asked.count > pods:
            yield error(
                seat.engine.where,
                f"STRICT_SPREAD puts each of {asked.count} workers on a pod of its own and there are at most {pods} pods",
                f"use strategy PACK, or worker.max: {asked.count}",
            )
        elif strategy in ("SPREAD", "STRICT_SPREAD") and 1 < asked.count <= per_pod and seat.engine.tensor > 1:
            yield warning(
                seat.engine.where,
                f"{strategy} separates workers that one pod could hold: tensor parallel then goes over the network",
                "use strategy PACK",
            )


def _why(stack: Stack, seat: Seat) -> str:
    if seat.engine.strategy == "STRICT_PACK" and seat.engine.data <= 1:
        return ""
    what = "data-parallel ranks" if seat.engine.data > 1 else "engines without pipeline parallel"
    return f", which Ray {ray_version(stack, seat.workload)} sets for {what}"


def _cpu(seat: Seat, asked: Bundles) -> Iterator[Problem]:
    known = [(group, cpu) for group in seat.groups if (cpu := pod_cpu(group)) is not None]
    if not known or len(known) != len(seat.groups):
        return
    largest = max(cpu for _, cpu in known)
    where = seat.engine.where
    if asked.first_cpu > largest + _EDGE or asked.cpu > largest + _EDGE:
        most = max(asked.first_cpu, asked.cpu)
        yield error(
            where,
            f"a bundle needs {amount(most)} CPU (the replica actor's CPU is added to the first) and a pod brings {amount(largest)}: "
            "it is never placed",
            "lower cpu_per_worker, set ray_actor_options.num_cpus: 0, or give the pods more CPU (worker.cpu)",
        )
        return
    ranks, replicas = max(1, seat.engine.data), most_replicas(seat.engine)
    whole = asked.first_cpu + (asked.count - 1) * asked.cpu
    most = sum(cpu * pods_at_most(seat.workload, group) for group, cpu in known)
    few = max(1, seat.engine.min_replicas)
    text = f"CPU in their bundles ({asked.count} worker{'s' if asked.count > 1 else ''} and the replica actor each)"
    mend = "lower cpu_per_worker, set ray_actor_options.num_cpus: 0, or give the pods more CPU (worker.cpu)"
    if whole * ranks * few > most + _EDGE:
        need = amount(whole * ranks * few)
        yield error(
            where, f"{few} replica{'s' if few > 1 else ''} need {need} {text} and all pods bring {amount(most)}", mend
        )
    elif whole * ranks * replicas > most + _EDGE:
        need = amount(whole * ranks * replicas)
        yield warning(
            where,
            f"{replicas} replicas need {need} {text} and all pods bring {amount(most)}: the last never start",
            mend,
        )


def custom_resources(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        if not seat.ray or not seat.groups:
            continue
        wanted = {str(key) for bundle in seat.engine.bundles for key, value in bundle.items() if (real(value) or 0) > 0}
        wanted |= {str(key) for key in mapping(seat.engine.ray_actor_options.get("resources"))}
        for key in sorted(wanted):
            if key in _OWN or key.startswith(("accelerator_type:", "node:")):
                continue
            if not any(key in ray_resources(group) for group in seat.groups):
                yield error(
                    seat.engine.where,
                    f"its bundles ask for the resource '{key}' and no worker group declares it",
                    f'declare it in worker.resources (e.g. {{{key}: "1"}}), or take it out',
                )


def ray_resources(group: PodGroup) -> Mapping[str, Any]:
    """Custom resources of a group: `resources`, or rayStartParams resources, which is JSON in quotes of its own."""
    text = str(group.ray_start_params.get("resources", "")).strip().strip("'\"").replace('\\"', '"')
    try:
        params = mapping(json.loads(text)) if text else {}
    except json.JSONDecodeError:
        params = {}
    return {**params, **group.resources}


RULES: tuple[Rule, ...] = (
    Rule(
        id="topology-placement",
        title="The placement group of a replica can be placed",
        why=(
            "Ray places all bundles of a replica or none, and says nothing while it waits. Bundles need CPU as well as GPU (the replica actor adds one CPU to the first), "
            "and STRICT_PACK and STRICT_SPREAD limit where they may go."
        ),
        check=placement,
        sources=("vllm#8908", "vllm#4639", "ray PR#56980", "ray 2.60.0: vllm_models.py, dp_server.py"),
    ),
    Rule(
        id="topology-custom-resources",
        title="Resources in bundles exist in a worker group",
        why="A bundle that asks for a resource which no node type has waits for ever; the autoscaler adds no node for it.",
        check=custom_resources,
    ),
)
