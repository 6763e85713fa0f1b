"""The rest of an LLMConfig and of a Serve application: keys and options that Ray refuses or ignores.

Not for: engine arguments (engine_args.py) or bundles (engine_share.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.catalog.lookup import closest_names
from policies.catalog.ray_releases import (
    BUNDLE_PER_WORKER_SINCE,
    DEPLOYMENT_OPTIONS,
    DIRECT_ROUTER,
    LLM_CONFIG_FIELDS,
    PLACEMENT_GROUP_CONFIG_SINCE,
)
from policies.facts import ServeApp, Stack, Workload
from policies.facts.quantities import items, mapping, real
from policies.finding import Problem, Rule, error

from ._engines import RAY_KINDS, ray_version, seats
from ._values import before, version
from .routing import streaming

_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
_GONE = {
    "resources_per_bundle": "use placement_group_config: {bundle_per_worker: {...}}",
    "use_cpu": "use accelerator_config: {kind: cpu}",
}
_INGRESS = "OpenAiIngress"
_READ_FROM = (2, 60)  # fields and options were read in this version; older ones are judged leniently


def placement(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        config, where, ray = seat.engine.placement_group_config, seat.engine.where, ray_version(stack, seat.workload)
        if not seat.ray:
            continue
        if config is not None:
            keys = [key for key in ("bundles", "bundle_per_worker") if config.get(key) is not None]
            if len(keys) == 2:
                yield error(
                    where,
                    "placement_group_config has bundles and bundle_per_worker: Ray takes one of them",
                    "leave bundles out",
                )
            elif not keys:
                yield error(
                    where,
                    "placement_group_config has neither bundles nor bundle_per_worker: Ray refuses it",
                    "give bundle_per_worker: {GPU: 1, CPU: 1}, or leave placement_group_config out",
                )
            elif config.get("bundles") == [] and seat.engine.accelerator_type:
                yield error(
                    where,
                    f"placement_group_config.bundles is empty and accelerator_type is {seat.engine.accelerator_type}: Ray takes the model for one without GPUs and refuses it",
                    "give bundle_per_worker: {GPU: 1, CPU: 1}, or leave placement_group_config out",
                )
            strategy = config.get("strategy", "PACK")
            if strategy not in _STRATEGIES:
                yield error(where, f"placement strategy is {strategy!r}; allowed: {', '.join(_STRATEGIES)}", "use PACK")
            for key in sorted(set(map(str, config)) - {"bundles", "bundle_per_worker", "strategy"}):
                yield error(
                    where, f"placement_group_config has no '{key}'", "allowed: bundle_per_worker, bundles, strategy"
                )
            for bundle in seat.engine.bundles[:1] if "bundle_per_worker" in keys else seat.engine.bundles:
                for resource, amount in sorted(bundle.items()):
                    if isinstance(amount, (bool, str)) or real(amount) is None or (real(amount) or 0) < 0:
                        yield error(
                            where,
                            f"a bundle asks for {amount!r} of {resource}; allowed: a number from 0",
                            "give what one worker reserves",
                        )
            if before(ray, PLACEMENT_GROUP_CONFIG_SINCE):
                yield error(
                    where,
                    f"placement_group_config came with Ray {PLACEMENT_GROUP_CONFIG_SINCE} and this is Ray {ray}",
                    f"use Ray {PLACEMENT_GROUP_CONFIG_SINCE} or newer",
                )
            elif "bundle_per_worker" in keys and before(ray, BUNDLE_PER_WORKER_SINCE):
                yield error(
                    where,
                    f"bundle_per_worker came with Ray {BUNDLE_PER_WORKER_SINCE} and this is Ray {ray}",
                    f"write bundles, or use Ray {BUNDLE_PER_WORKER_SINCE} or newer",
                )
        for key in ("placement_group_bundles", "placement_group_strategy"):
            if key in seat.engine.deployment_config:
                yield error(
                    where,
                    f"deployment_config has {key}: Ray Serve LLM sets it and refuses another",
                    "use placement (placement_group_config)",
                )


def fields(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        engine = seat.engine
        if not seat.ray:
            continue
        current = (version(ray_version(stack, seat.workload)) or _READ_FROM) >= _READ_FROM
        for key in sorted(map(str, engine.llm_config)):
            if key in _GONE and current:
                yield error(engine.where, f"LLMConfig has no {key} any more: Ray refuses it", _GONE[key])
            elif key not in LLM_CONFIG_FIELDS and key not in _GONE and current:
                near = closest_names(key, LLM_CONFIG_FIELDS, 1)
                hint = f"did you mean '{near[0]}'? " if near else ""
                yield error(
                    engine.where,
                    f"LLMConfig has no '{key}': Ray refuses it",
                    f"{hint}allowed: {', '.join(LLM_CONFIG_FIELDS)}",
                )
        known = (
            *DEPLOYMENT_OPTIONS,
            "placement_group_bundles",
            "placement_group_strategy",
            "placement_group_bundle_label_selector",
        )
        for key in sorted(map(str, engine.deployment_config)):
            if key not in known and current:
                near = closest_names(key, DEPLOYMENT_OPTIONS, 1)
                hint = f"did you mean '{near[0]}'? " if near else ""
                yield error(
                    engine.where,
                    f"deployment_config has no option '{key}': building the application fails",
                    f"{hint}allowed: {', '.join(DEPLOYMENT_OPTIONS)}",
                )
        if "num_router_replicas" in engine.experimental:
            yield error(
                engine.where,
                "experimental_configs.num_router_replicas was renamed and Ray refuses the old name",
                "write num_ingress_replicas",
            )
        if engine.max_replicas_per_node is not None and current:
            yield error(
                engine.where,
                f"max_replicas_per_node {engine.max_replicas_per_node} and a placement group: Serve refuses the two together, and every LLM deployment has one",
                "leave max_replicas_per_node out; the size of the pods limits replicas on a node",
            )


def applications(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind not in RAY_KINDS:
            continue
        for app in workload.apps:
            where = f"{workload.where}: application '{app.name}'"
            configs = app.args.get("llm_configs")
            if configs is None:
                continue
            entries = [mapping(entry) for entry in items(configs)]
            if not entries:
                yield error(where, "llm_configs is empty: Ray refuses it", "give at least one model")
            seen: set[str] = set()
            for entry in entries:
                model_id = str(mapping(entry.get("model_loading_config")).get("model_id", ""))
                if model_id and model_id in seen:
                    yield error(
                        where, f"two models have the model_id '{model_id}': Ray refuses them", "give each its own name"
                    )
                seen.add(model_id)
            yield from _overrides(stack, workload, app, entries, where)


def _overrides(
    stack: Stack, workload: Workload, app: ServeApp, entries: list[dict[str, Any]], where: str
) -> Iterator[Problem]:
    """`deployments` of a Serve application override those that its builder makes, by names that only the builder knows."""
    if (version(ray_version(stack, workload)) or ())[:2] != _READ_FROM or any(e.get("server_cls") for e in entries):
        return
    ids = [str(mapping(entry.get("model_loading_config")).get("model_id", "")) for entry in entries]
    made = (
        *(f"LLMServer:{name.replace('/', '--').replace('.', '_')}" for name in ids),
        DIRECT_ROUTER if streaming(workload) else _INGRESS,
    )
    for given in app.deployments:
        name = str(given.get("name", ""))
        if name not in made:
            near = closest_names(name, made, 1)
            yield error(
                where,
                f"it overrides deployment '{name}', which its builder does not make: the application is not deployed",
                f"did you mean '{near[0]}'?" if near else f"its deployments: {', '.join(made)}",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="serve-llm-placement",
        title="placement_group_config has the shape Ray takes",
        why="Ray reads it when the replica's engine config is made: bundles or bundle_per_worker, one of four strategies, and nothing of it in deployment_config.",
        check=placement,
        sources=("ray 2.60.0: llm/_internal/common/placement.py, core/server/llm_server.py",),
    ),
    Rule(
        id="serve-llm-fields",
        title="LLMConfig and deployment options exist",
        why=(
            "The Serve schema does not look inside args, so a misspelt field passes kubectl and KubeRay and fails when the application is built on the cluster. LLMConfig "
            "takes no unknown fields; deployment options come from a fixed list."
        ),
        check=fields,
        sources=("ray 2.60.0: core/configs/llm_config.py, serve/_private/config.py",),
    ),
    Rule(
        id="serve-llm-applications",
        title="An application has models with names of their own",
        why="Ray's builder refuses an empty list and two models of one name; Serve refuses options for a deployment that the builder does not make.",
        check=applications,
        sources=(
            "ray#33579",
            "ray 2.60.0: core/ingress/builder.py LLMServingArgs, serve/_private/application_state.py",
        ),
    ),
)
