"""Request routers and direct streaming: options that exist, that do something, and that go together.

Not for: prefill and decode (disaggregation.py), or scaling (serve_autoscaling.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.lookup import closest_names
from policies.catalog.ray_releases import DIRECT_STREAMING, ROUTERS
from policies.facts import Stack, Workload
from policies.facts.quantities import items
from policies.finding import Problem, Rule, error, warning

from ._engines import literal_env, most_replicas, ray_version, seats
from ._values import before, listed, literal

_PREFIX = "ray.serve.llm.request_router.PrefixCacheAffinityRouter"
_KV_AWARE = "ray.serve.llm.request_router.KVAwareRouter"
_OPTIONS: dict[str, tuple[str, ...]] = {
    # initialize_state of each router, 2.60.0; the hash router ignores names it does not know.
    _PREFIX: (
        "do_eviction",
        "eviction_interval_secs",
        "eviction_target_chars",
        "eviction_threshold_chars",
        "imbalanced_threshold",
        "match_rate_threshold",
        "tree_actor",
    ),
    _KV_AWARE: (),
    "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter": (
        "num_fallback_replicas",
        "num_virtual_nodes",
    ),
}
_DYNAMO = "ai-dynamo"
_FORWARD = "RAY_SERVE_INGRESS_REQUEST_ROUTER_FORWARD_BODY"


def routers(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        engine = seat.engine
        if engine.router is None or not seat.ray:
            continue
        path, where, ray = engine.router.replace(":", "."), engine.where, ray_version(stack, seat.workload)
        ours = path.startswith(("ray.serve.llm.", "ray.serve.experimental."))
        if ours and path not in ROUTERS:
            near = closest_names(path, ROUTERS, 1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            yield error(
                where,
                f"request router '{path}' is none that Ray has",
                f"{hint}allowed: {', '.join(sorted(ROUTERS))}, or an import path of your own",
            )
            continue
        if before(ray, ROUTERS.get(path) or "0"):
            yield error(
                where,
                f"{path.rsplit('.', 1)[-1]} came with Ray {ROUTERS[path]} and this is Ray {ray}",
                f"use Ray {ROUTERS[path]} or newer",
            )
        allowed = _OPTIONS.get(path)
        unknown = [name for name in engine.router_options if allowed is not None and name not in allowed]
        if unknown:
            listing = ", ".join(allowed or ()) or "none"
            yield error(
                where,
                f"router option {listed(unknown)} is unknown to {path.rsplit('.', 1)[-1]}; allowed: {listing}",
                "correct it, or leave it out",
            )
        yield from _effect(
            stack, seat.workload, path, engine.where, engine.data > 1, most_replicas(engine), engine.engine_args
        )


def _effect(
    stack: Stack, workload: Workload, path: str, where: str, ranks: bool, replicas: int, args: object
) -> Iterator[Problem]:
    by_prefix = path in (_PREFIX, _KV_AWARE)
    name = path.rsplit(".", 1)[-1]
    if replicas <= 1 and not ranks and path in ROUTERS and "round_robin" not in path:
        yield warning(
            where,
            f"{name} chooses among replicas and there is at most one",
            "raise replicas.max, or leave the router out",
        )
    if by_prefix and isinstance(args, dict) and args.get("enable_prefix_caching") is False:
        yield warning(
            where,
            f"{name} sends requests to where their prefix is cached and enable_prefix_caching is off",
            "turn prefix caching on, or use power_of_two",
        )
    if by_prefix and ranks:
        yield warning(
            where,
            f"{name} with data parallel: ranks run in step, so a rank that gets all requests of a prefix makes the others wait with it",
            "use power_of_two or round_robin for data parallel",
        )
    if path == _KV_AWARE and not streaming(workload):
        yield warning(
            where,
            f"{name} keeps its index in the ingress router, which only direct streaming has: without it, it routes by load",
            f'set {DIRECT_STREAMING}: "1" in env (expose.direct_streaming: true), or use prefix_affinity',
        )


def kv_aware(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        path = (seat.engine.router or "").replace(":", ".")
        if path == _KV_AWARE and seat.ray and seat.engine.role != "prefill" and streaming(seat.workload):
            yield warning(
                seat.engine.where,
                "KVAwareRouter scores replicas with ai-dynamo, which ray[llm] does not bring: where the image has it not, every request is answered with 503",
                f"build {_DYNAMO} into the image and set policy: {{routing-kv-aware: off}}, or use prefix_affinity",
            )


def streaming(workload: Workload) -> bool:
    """Whether the head or the workers build applications with direct streaming."""
    pods = workload.pod_groups
    return any(literal(pod.env, DIRECT_STREAMING) == "1" for pod in pods)


def direct_streaming(stack: Stack) -> Iterator[Problem]:
    by_workload: dict[str, list[str]] = {}
    for seat in seats(stack):
        if seat.engine.lora is not None and literal_env(seat, _FORWARD) != "1":
            by_workload.setdefault(seat.workload.where, []).append(seat.engine.where)
    for workload in stack.workloads:
        if not streaming(workload):
            continue
        for app in workload.apps:
            where, count = f"{workload.where}: application '{app.name}'", len(items(app.args.get("llm_configs")))
            if count > 1:
                yield error(
                    where,
                    f"direct streaming takes one model and the application has {count}",
                    "make an application for each model, or turn direct streaming off",
                )
            for option in ("ingress_deployment_config", "ingress_cls_config"):
                if app.args.get(option):
                    yield error(
                        where,
                        f"{option} has no effect with direct streaming and Ray refuses it",
                        "set deployment_config of the model instead",
                    )
        for place in by_workload.get(workload.where, ()):
            yield error(
                place,
                f"LoRA with direct streaming needs {_FORWARD}=1: the router must read the model name in the body",
                f'set {_FORWARD}: "1" in env',
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="routing-router",
        title="The request router exists, knows its options, and has something to choose",
        why=(
            "LLMConfig imports the router's path and Serve passes its options on, so a wrong name fails when the application is built. Prefix routing needs several "
            "replicas with prefix caching; with one it is only overhead."
        ),
        check=routers,
        sources=("ray 2.60.0: llm/_internal/serve/routing_policies, serve/experimental",),
    ),
    Rule(
        id="routing-kv-aware",
        title="The image of a KV-aware router has what scores replicas",
        why=(
            "KVAwareRouter keeps its index in NVIDIA Dynamo's selection service, inside the router of direct streaming. Ray imports it when the router starts, logs a warning "
            "where it is not there, and refuses each request."
        ),
        check=kv_aware,
        sources=("ray 2.60.0: llm/_internal/serve/routing_policies/kv_aware/kv_token_tracker.py",),
    ),
    Rule(
        id="routing-direct-streaming",
        title="Direct streaming is for one model without ingress options",
        why="With RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING=1 the engine's own deployment is the ingress, so there can be one, and options of the usual ingress are refused.",
        check=direct_streaming,
        sources=("ray 2.60.0: core/ingress/builder.py",),
    ),
)
