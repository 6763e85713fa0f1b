"""Values of Serve's deployment options: of the engines and of the ingress in front of them.

Not for: which options exist (serve_llm.py), replicas and targets (serve_autoscaling.py), routers (routing.py), or the GPUs that
actor options reserve (engine_share.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.lookup import closest_names
from policies.catalog.ray_releases import DEPLOYMENT_OPTIONS
from policies.catalog.serve_options import (
    ACTOR,
    AUTOSCALING,
    AUTOSCALING_COUNTS,
    DEPLOYMENT,
    LOG_LEVELS,
    LOGGING,
    OWN_NAMES,
    ROUTER,
    Option,
)
from policies.facts import Stack
from policies.facts.quantities import mapping, real, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import RAY_KINDS, ray_version, seats
from ._values import before

# ray PR#46392 and PR#46427, after 2.33: until then both names were read.
RENAMED = {
    "max_concurrent_queries": "max_ongoing_requests",
    "target_num_ongoing_requests_per_replica": "target_ongoing_requests",
}
RENAMED_IN = "2.34"
_INGRESS = "ingress_deployment_config"
_AMOUNTS = ("memory", "num_cpus", "num_gpus")
_REPLICAS = ("initial_replicas", "max_replicas", "min_replicas")
_PLACEMENT = ("placement_group_bundle_label_selector", "placement_group_bundles", "placement_group_strategy")


def values(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        if not seat.ray:
            continue
        given = seat.engine.deployment_config
        yield from _deployment(seat.engine.where, given)
        if given.get("gang_scheduling_config") is not None and seat.engine.data <= 1:
            yield error(
                seat.engine.where,
                "gang_scheduling_config and a placement strategy: Serve refuses the two together, and every LLM deployment has one",
                "leave gang_scheduling_config out; data parallel (parallel.data) makes gangs",
            )
    for workload in stack.workloads:
        if workload.kind not in RAY_KINDS:
            continue
        for app in workload.apps:
            where, given = f"{workload.where}: application '{app.name}'", mapping(app.args.get(_INGRESS))
            yield from _deployment(where, given, f"{_INGRESS}.")
            old = before(ray_version(stack, workload), RENAMED_IN)
            for override in map(mapping, app.deployments):
                yield from _deployment(
                    where, _read(override) if old else override, f"deployments '{override.get('name', '')}'."
                )
            count = given.get("num_replicas")
            if whole(count) is not None and given.get("autoscaling_config") is not None:
                yield error(
                    where,
                    f"{_INGRESS} has num_replicas and autoscaling_config: Serve takes one of them",
                    "leave num_replicas out",
                )
            if count is not None and count != "auto" and (whole(count) or 0) < 1:
                yield error(
                    where,
                    f"{_INGRESS}.num_replicas is {count!r}; allowed: a whole number from 1, or auto",
                    "correct it",
                )
            for key in sorted(set(map(str, given)) - {*DEPLOYMENT_OPTIONS, *_PLACEMENT}):
                yield error(
                    where,
                    f"{_INGRESS} has no option '{key}': building the application fails",
                    f"{_near(key, DEPLOYMENT_OPTIONS)} allowed: {', '.join(DEPLOYMENT_OPTIONS)}".strip(),
                )


def _read(override: Mapping[str, Any]) -> Mapping[str, Any]:
    """A deployment without the names of autoscaling that an older Ray still reads."""
    scaling = override.get("autoscaling_config")
    if not isinstance(scaling, Mapping):
        return override
    return {**override, "autoscaling_config": {k: v for k, v in scaling.items() if k not in RENAMED}}


def _deployment(where: str, given: Mapping[str, Any], path: str = "") -> Iterator[Problem]:
    yield from _options(where, given, DEPLOYMENT, path)
    queued = given.get("max_queued_requests")
    if "max_queued_requests" in given and not (type(queued) is int and (queued >= 1 or queued == -1)):
        yield error(
            where,
            f"{path}max_queued_requests is {queued!r}; allowed: a whole number from 1, or -1 for no limit",
            "set replicas.max_queued_requests to 1 or more, or leave it out",
        )
    scaling = mapping(given.get("autoscaling_config"))
    for key in _REPLICAS:
        count = scaling.get(key)
        if count is None and key in scaling and key != "initial_replicas":
            yield error(
                where,
                f"{path}autoscaling_config.{key} is null; allowed: a whole number from 0",
                "give one, or leave it out",
            )
        if count is not None and (isinstance(count, bool) or (whole(count) is None) or (real(count) or 0) < 0):
            yield error(
                where, f"{path}autoscaling_config.{key} is {count!r}; allowed: a whole number from 0", "correct it"
            )
    yield from _options(where, scaling, AUTOSCALING, f"{path}autoscaling_config.")
    known = (*AUTOSCALING, *AUTOSCALING_COUNTS)
    for key in sorted(set(map(str, scaling)) - set(known)):
        yield warning(
            where,
            f"{path}autoscaling_config has no '{key}': Serve ignores it",
            _near(key, known) or f"allowed: {', '.join(sorted(known))}",
        )
    yield from _options(where, mapping(given.get("request_router_config")), ROUTER, f"{path}request_router_config.")
    yield from logging(where, given.get("logging_config"), f"{path}logging_config")
    actor = mapping(given.get("ray_actor_options"))
    yield from _actor(where, actor, f"{path}ray_actor_options")
    for name in _AMOUNTS if not path.startswith("deployments") else ():  # the schema of those reads numbers in text
        if isinstance(actor.get(name), str) and real(actor[name]) is not None:
            yield error(
                where,
                f"{path}ray_actor_options.{name} is the text {actor[name]!r}; allowed: a number",
                "leave out the quotes",
            )


def logging(where: str, given: Any, path: str) -> Iterator[Problem]:
    """logging_config of a deployment, an application or the whole config."""
    yield from _only(where, mapping(given), LOGGING, path)
    yield from _options(
        where,
        {k: v for k, v in mapping(given).items() if k != "log_level" or not _level(v)},
        {k: v for k, v in LOGGING.items() if k != "additional_log_standard_attrs"},
        f"{path}.",
    )


def _level(value: Any) -> bool:
    return isinstance(value, (int, float)) and value in LOG_LEVELS


def _actor(where: str, given: Mapping[str, Any], path: str) -> Iterator[Problem]:
    yield from _only(where, given, ACTOR, path)
    yield from _options(where, given, {k: v for k, v in ACTOR.items() if k != "fallback_strategy"}, f"{path}.")
    for name, amount in mapping(given.get("resources")).items():
        if name in OWN_NAMES:
            yield error(
                where,
                f"{path}.resources has {name}: Ray refuses it there",
                f"leave it out: the engine's own bundles ask for it (or use {path}.{OWN_NAMES[str(name)]})",
            )
        elif isinstance(amount, bool) or (real(amount) is None or (real(amount) or 0) < 0):
            yield error(
                where, f"{path}.resources.{name} is {amount!r}; allowed: a number from 0", "give the amount it reserves"
            )


def _only(where: str, given: Mapping[str, Any], known: Mapping[str, Option], path: str) -> Iterator[Problem]:
    for key in sorted(set(map(str, given)) - set(known)):
        hint = _near(key, tuple(known))
        yield error(
            where, f"{path} has no '{key}': Serve refuses it", f"{hint} allowed: {', '.join(sorted(known))}".strip()
        )


def _near(key: str, known: tuple[str, ...]) -> str:
    near = closest_names(key, known, 1)
    return f"did you mean '{near[0]}'?" if near else ""


def _options(where: str, given: Mapping[str, Any], known: Mapping[str, Option], path: str) -> Iterator[Problem]:
    for name, option in known.items():
        if name in given and not _fits(given[name], option):
            yield error(
                where,
                f"{path}{name} is {given[name]!r}; allowed: {_words(option)}",
                "give that, or leave it out",
            )


def _fits(value: Any, option: Option) -> bool:
    if value is None:
        return option.null
    if option.kind == "mapping":
        return isinstance(value, Mapping)
    if option.kind == "text":
        if not isinstance(value, str):
            return False
        return not option.choices or value.upper() in {choice.upper() for choice in option.choices}
    if option.kind == "switch":
        return isinstance(value, bool) or value in (0, 1)
    number = float(value) if isinstance(value, bool) else real(value)
    if number is None or (option.kind == "whole" and whole(number) is None):
        return False
    if option.most is not None and number > option.most:
        return False
    return option.least is None or number > option.least or (number == option.least and not option.above)


def _words(option: Option) -> str:
    if option.choices:
        return ", ".join(option.choices)
    if option.kind in ("mapping", "text", "switch"):
        return {"mapping": "a mapping", "text": "text", "switch": "true or false"}[option.kind]
    text = "a whole number" if option.kind == "whole" else "a number"
    if option.least is not None:
        text += f" {'over' if option.above else 'from'} {option.least:g}"
    return text + (f" to {option.most:g}" if option.most is not None else "")


RULES: tuple[Rule, ...] = (
    Rule(
        id="serve-option-values",
        title="Deployment options have values that Serve takes",
        why=(
            "Ray checks deployment_config, ray_actor_options and the ingress's options when the application is built on the cluster: kinds, ranges, and keys of "
            "ray_actor_options and logging_config. An unknown key of autoscaling_config is ignored without a word, so the scaling that it was meant for never happens."
        ),
        check=values,
        sources=(
            "ray 2.60.0: serve/config.py, serve/_private/config.py, serve/schema.py, _common/ray_option_utils.py",
        ),
    ),
)
