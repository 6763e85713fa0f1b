"""Serve's autoscaling of replicas: settings that never scale, flap, or contradict each other.

Not for: pods and nodes for those replicas (replicas.py, capacity.py), or the start-up time itself (startup_time.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.ray_releases import INGRESS_LEAVES_ZERO_SINCE
from policies.facts import Engine, Stack
from policies.facts.quantities import mapping, real, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import literal_env, ray_version, seats
from ._values import amount, before, literal
from .startup_time import cold_seconds

# Ray Serve LLM's default target (RAY_SERVE_LLM_DEFAULT_MAX_TARGET_ONGOING_REQUESTS, builder.py): a replica is never full.
_TARGET_DEFAULT = "RAY_SERVE_LLM_DEFAULT_MAX_TARGET_ONGOING_REQUESTS"
_DEFAULT_DOWNSCALE = 600.0
_ENDLESS = 1e6


def shape(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        if not seat.ray:
            continue
        engine, options = seat.engine, seat.engine.deployment_config
        fixed, scaling = options.get("num_replicas"), options.get("autoscaling_config")
        if fixed is not None and fixed != "auto" and (whole(fixed) or 0) < 1:
            yield error(
                engine.where,
                f"num_replicas is {fixed!r}; allowed: a whole number from 1, or auto",
                "give a number (replicas.min: 0 with replicas.max scales to zero)",
            )
        if fixed is not None and fixed != "auto" and scaling is not None:
            yield error(
                engine.where,
                f"num_replicas {fixed} and an autoscaling_config: Serve refuses both together",
                "leave num_replicas out (replicas.min and replicas.max), or the autoscaling_config",
            )
        if scaling is None and fixed != "auto":
            continue
        values = mapping(scaling)
        low, high = engine.min_replicas, engine.max_replicas
        if high < 1:
            yield error(
                engine.where, f"max_replicas is {high}; allowed: a whole number from 1", "set replicas.max: 1 or more"
            )
        elif low > high:
            yield error(
                engine.where,
                f"min_replicas {low} is more than max_replicas {high}",
                "set replicas.min to at most replicas.max",
            )
        initial = whole(values.get("initial_replicas"))
        if initial is not None and not low <= initial <= max(low, high):
            yield error(
                engine.where,
                f"initial_replicas {initial} is outside min_replicas {low} and max_replicas {high}",
                f"set replicas.initial between {low} and {high}",
            )
        target = values.get("target_ongoing_requests")
        if target is not None and not (real(target) or 0) > 0:
            yield error(
                engine.where,
                f"target_ongoing_requests is {target!r}; allowed: a number over 0",
                "give the requests one replica handles well",
            )


def scales(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        engine = seat.engine
        if not seat.ray or not engine.autoscaled or engine.max_replicas <= engine.min_replicas:
            continue
        target, most = engine.target_ongoing_requests, engine.max_ongoing_requests
        if target is None and _own_policy(engine):
            continue  # a policy of its own (Ray Serve LLM's TTFTAutoscalingPolicy, say) decides by something else
        if target is None:
            head = seat.workload.head
            if (head is not None and literal(head.env, _TARGET_DEFAULT)) or literal_env(seat, _TARGET_DEFAULT):
                continue
            yield error(
                engine.where,
                f"replicas may grow from {engine.min_replicas} to {engine.max_replicas} and target_ongoing_requests is not set: Ray Serve LLM "
                "then aims at 1000000000 requests for each replica and never adds one",
                "set target_ongoing_requests (about three quarters of max_num_seqs)",
            )
        elif target >= _ENDLESS:
            yield error(
                engine.where,
                f"target_ongoing_requests {amount(target)} is more than any replica ever has: no replica is added",
                "set target_ongoing_requests to what one replica handles well",
            )
        elif most is not None and target >= most:
            yield warning(
                engine.where,
                f"target_ongoing_requests {amount(target)} is not below max_ongoing_requests {most}: a replica takes no more than that at once, so "
                "only the queue can push it over the target and scaling comes late or never",
                f"set max_ongoing_requests above {amount(target)}, or the target to at most {amount(max(1, int(most * 0.75)))}",
            )


def _own_policy(engine: Engine) -> bool:
    policy = mapping(mapping(engine.deployment_config.get("autoscaling_config")).get("policy"))
    return not str(policy.get("policy_function", "default")).endswith(("default", "default_autoscaling_policy"))


def to_zero(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        engine = seat.engine
        if not seat.ray or engine.min_replicas > 0 or not engine.autoscaled:
            continue
        ray = ray_version(stack, seat.workload)
        if ray and not before(ray, "2.51") and before(ray, INGRESS_LEAVES_ZERO_SINCE):
            never = (
                "starts one replica of each model and, in 2.51 and 2.52, never goes to zero"
                if before(ray, "2.53")
                else "wakes each model once when it starts"
            )
            yield warning(
                engine.where,
                f"min_replicas 0 with Ray {ray}: the ingress {never}",
                f"use Ray {INGRESS_LEAVES_ZERO_SINCE} or newer, or 2.50",
            )
        delay = engine.downscale_to_zero_delay_s
        named = "downscale_to_zero_delay_s"
        if delay is None:
            delay, named = engine.downscale_delay_s, "downscale_delay_s"
        if delay is None:
            delay = _DEFAULT_DOWNSCALE
        cold = cold_seconds(seat)
        if cold is not None and delay < cold:
            yield warning(
                engine.where,
                f"it scales to zero after {amount(delay)} s of calm ({named}) and a cold start takes at least {round(cold)} s: it flaps, and each "
                "first request waits for the whole start",
                f"set replicas.downscale_to_zero_delay_s to {_round(cold)} or more",
            )


def nobody_home(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind != "RayService" or workload.spec.get("excludeHeadPodFromServeSvc") is not True:
            continue
        if workload.autoscaling and workload.groups and not any(group.min for group in workload.groups):
            yield error(
                workload.where,
                "all worker groups may go to zero and excludeHeadPodFromServeSvc leaves the head out: then no pod is behind the Service, and "
                "the first request is refused instead of held",
                "set excludeHeadPodFromServeSvc: false, or keep a worker (worker.min: 1)",
            )


def _round(seconds: float) -> int:
    return int(-(-seconds * 2 // 60) * 60)


RULES: tuple[Rule, ...] = (
    Rule(
        id="serve-replica-settings",
        title="Replica settings that Serve accepts",
        why="Serve refuses num_replicas beside an autoscaling_config, min over max, and an initial number outside both, when the application is built on the cluster.",
        check=shape,
        sources=("ray 2.60.0: serve/config.py AutoscalingConfig, serve/deployment.py",),
    ),
    Rule(
        id="serve-never-scales",
        title="Replicas that may grow have a target they can exceed",
        why=(
            "Serve adds a replica when the requests in flight exceed the target. Ray Serve LLM's default target is 1e9, and a target at or above "
            "max_ongoing_requests can hardly be exceeded: the service stays at its fewest replicas under any load."
        ),
        check=scales,
        sources=("ray#24793", "ray#20977", "ray 2.60.0: llm/_internal/serve/core/server/builder.py"),
    ),
    Rule(
        id="serve-scale-to-zero",
        title="Scale to zero with a Ray that does it, and a delay over the cold start",
        why=(
            "A model that goes to zero sooner than it can start again flaps under thin traffic. In Ray 2.51 to 2.55 the LLM ingress calls every model when it starts, "
            "which wakes all of them."
        ),
        check=to_zero,
        sources=("ray#59076", "ray PR#63065", "ray#33416"),
    ),
    Rule(
        id="serve-zero-without-head",
        title="A service whose workers may all go keeps its head behind the Service",
        why=(
            "When every model is at zero Ray's ingress is as well, Ray's autoscaler takes the last worker pod away, and the Serve proxy of the head is the "
            "only one left: it holds a request until a replica is there. excludeHeadPodFromServeSvc takes it out of the Service's endpoints."
        ),
        check=nobody_home,
        sources=(
            "kuberay 1.6.1: controllers/ray/rayservice_controller.go",
            "ray 2.60.0: llm/_internal/serve/core/ingress/ingress.py",
        ),
    ),
)
