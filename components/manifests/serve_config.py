"""serveConfigV2: applications of Ray Serve, their LLMConfigs, placement groups and routers. Plain data in, plain data out."""

from __future__ import annotations

import json
from typing import Any

from components.config import deep_merge
from components.derive import engines as engine_args
from components.derive.request_path import (
    IDLE_SECONDS,
    keep_alive_seconds,
    patience_seconds,
    streams_directly,
)
from components.derive.spec import EngineSpec, ServiceSpec
from policies.catalog.ray_releases import (
    BUNDLE_PER_WORKER_SINCE,
    DIRECT_ROUTER,
    PLACEMENT_GROUP_CONFIG_SINCE,
    SURGE_SINCE,
    has,
)
from serve_apps import APPS

ROUTERS = {
    # python/ray/serve/llm/request_router.py and python/ray/serve/experimental (2.60.0); power of two is Serve's default.
    "prefix_affinity": "ray.serve.llm.request_router.PrefixCacheAffinityRouter",
    "kv_aware": "ray.serve.llm.request_router.KVAwareRouter",
    "session": "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter",
    "round_robin": "ray.serve.experimental.round_robin_router.RoundRobinRouter",
}
# A group's own resource: bundles ask for a crumb of it where a service has several groups, so that an engine lands on the pods
# that were sized for it and not on another group's free GPU.
GROUP_CRUMB = 0.001
GROUP_STOCK = "1"


def group_resource(group: str) -> str:
    return f"group-{group}"


def llm_config(engine: EngineSpec, ray: str) -> dict[str, Any]:
    """The LLMConfig of one engine, as Ray Serve LLM of version `ray` reads it."""
    model = engine.config
    config: dict[str, Any] = {
        "model_loading_config": {"model_id": engine.name, "model_source": engine.source},
        "engine_kwargs": engine.engine_args,
        "deployment_config": _deployment(engine, ray),
    }
    if model.accelerator_type:
        config["accelerator_type"] = model.accelerator_type
    if model.device == "cpu":
        config["accelerator_config"] = {"kind": "cpu"}
    placement = _placement(engine, ray)
    if placement:
        config["placement_group_config"] = placement
    if model.lora is not None:
        config["lora_config"] = {
            "dynamic_lora_loading_path": model.lora.path,
            "max_num_adapters_per_replica": model.lora.max_adapters,
        }
    experimental = dict(model.experimental)
    if model.disaggregation is not None and model.disaggregation.connector == "NixlConnector":
        base = model.disaggregation
        port = base.prefill_port_base if engine.role == "prefill" else base.decode_port_base
        experimental.setdefault("NIXL_SIDE_CHANNEL_PORT_BASE", port)
    if experimental:
        config["experimental_configs"] = dict(sorted(experimental.items()))
    if engine.env:
        config["runtime_env"] = {"env_vars": engine.env}
    return config


def _placement(engine: EngineSpec, ray: str) -> dict[str, Any]:
    own = engine.config.placement
    plain = (
        not engine.groups_differ and engine.worker_gpu == 1 and own.bundles is None and own.bundle_per_worker is None
    )
    if plain and not has(ray, PLACEMENT_GROUP_CONFIG_SINCE):
        return {}  # a Ray that does not have the field reserves a whole GPU for each worker by itself
    placement: dict[str, Any] = {}
    bundle: dict[str, float] = {"CPU": engine.config.cpu_per_worker}
    if engine.config.device == "gpu":
        bundle["GPU"] = engine.worker_gpu
    if engine.groups_differ:
        bundle[group_resource(engine.group)] = GROUP_CRUMB
    if own.bundles is not None:
        placement["bundles"] = [dict(sorted(b.items())) for b in own.bundles]
    if own.bundle_per_worker is not None:
        placement["bundle_per_worker"] = dict(sorted(own.bundle_per_worker.items()))
    if not placement:
        if engine.config.device == "cpu" or not has(ray, BUNDLE_PER_WORKER_SINCE):
            # Ray 2.60 puts {GPU: 0, CPU: 2} in place of bundle_per_worker on CPU; explicit bundles are kept (llm_config.py).
            placement["bundles"] = [dict(sorted(bundle.items()))] * engine.world
        else:
            placement["bundle_per_worker"] = dict(sorted(bundle.items()))
    if engine.role != "data_parallel" or own.strategy:  # ignored for data parallel: gangs are placed by Serve
        placement["strategy"] = own.strategy or "PACK"
    return placement


def _deployment(engine: EngineSpec, ray: str) -> dict[str, Any]:
    model = engine.config
    replicas = model.replicas
    if engine.role == "prefill" and model.disaggregation is not None:
        replicas = model.disaggregation.prefill_replicas
    options: dict[str, Any] = engine_args.scaling(replicas, engine.engine_args, model.device, engine.cold_seconds)
    if not has(ray, SURGE_SINCE):
        options.pop("max_surge_percent", None)
    router = ROUTERS.get(model.routing.policy)
    if router or model.routing.options:
        options["request_router_config"] = {
            "request_router_class": router or "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter",
            **({"request_router_kwargs": model.routing.options} if model.routing.options else {}),
        }
    if model.ray_actor_options:
        options["ray_actor_options"] = model.ray_actor_options
    merged: dict[str, Any] = deep_merge(options, model.deployment_config)
    return dict(sorted(merged.items()))


def serve_config(spec: ServiceSpec) -> dict[str, Any]:
    """The Serve config: one application for the models side by side, one for each that needs a builder of its own."""
    import_path = APPS[spec.config.app].import_path
    together = [engine for engine in spec.engines if engine.role == "serve"]
    applications: list[tuple[str, dict[str, Any]]] = []
    if together:
        applications.append((spec.name, {"llm_configs": [llm_config(engine, spec.ray_version) for engine in together]}))
    for engine in spec.engines:
        if engine.role == "data_parallel":
            applications.append((_app_name(spec, engine), {"llm_config": llm_config(engine, spec.ray_version)}))
        elif engine.role == "decode":
            prefill = next(e for e in spec.engines if e.name == engine.name and e.role == "prefill")
            args = {
                "prefill_config": llm_config(prefill, spec.ray_version),
                "decode_config": llm_config(engine, spec.ray_version),
            }
            applications.append((_app_name(spec, engine), args))
    if not applications:
        applications.append((spec.name, {}))
    return {
        "applications": [
            {
                "name": name,
                "import_path": import_path,
                # one application is the endpoint; further ones lie beside it under their own prefix
                "route_prefix": "/" if index == 0 else f"/{name}",
                "args": {**args, **_ingress(spec), **spec.config.app_args},
                **_router(spec),
            }
            for index, (name, args) in enumerate(applications)
        ],
        "http_options": _http(spec),
        **_logging(spec),
    }


def _http(spec: ServiceSpec) -> dict[str, Any]:
    options: dict[str, Any] = {"host": "0.0.0.0", "port": spec.config.expose.port}
    idle = keep_alive_seconds(spec.config)
    if idle != IDLE_SECONDS:
        options["keep_alive_timeout_s"] = idle
    return options


def _logging(spec: ServiceSpec) -> dict[str, Any]:
    """Logs of proxies, controller and replicas, where they differ from Serve's defaults."""
    logs = spec.config.logs
    if (logs.format, logs.level, logs.access) == ("text", "INFO", True):
        return {}
    options: dict[str, Any] = {"encoding": logs.format.upper(), "log_level": logs.level}
    return {"logging_config": {**options, "enable_access_log": logs.access}}


def _ingress(spec: ServiceSpec) -> dict[str, Any]:
    """Options of the OpenAI ingress: in an in-place change the new one answers before the old one goes, which finishes its requests."""
    # Direct streaming has no ingress of its own, and Ray refuses options for it (core/ingress/builder.py, 2.60.0).
    if not spec.engines or not has(spec.ray_version, SURGE_SINCE) or streams_directly(spec):
        return {}
    options = _calm_change(spec)
    if all(engine.role == "serve" and engine.min_replicas == 0 for engine in spec.engines):
        # Where all models go to zero Ray's ingress does as well, and until then holds a pod: it goes with the last of them. Serve's
        # own delay is ten minutes, so that the ingress would start anew beside a model that is still there, or keep a pod for itself.
        calm = [_to_zero(engine, spec.ray_version) for engine in spec.engines]
        options["autoscaling_config"] = {"downscale_to_zero_delay_s": max(calm), "min_replicas": 0}
    return {"ingress_deployment_config": options}


def _router(spec: ServiceSpec) -> dict[str, Any]:
    """The same for the router that is there under direct streaming: its builder takes no options, the application does."""
    alone = len(spec.engines) == 1 and spec.config.app == "openai_chat"
    if not alone or not has(spec.ray_version, SURGE_SINCE) or not streams_directly(spec):
        return {}
    return {"deployments": [{"name": DIRECT_ROUTER, **_calm_change(spec)}]}


def _calm_change(spec: ServiceSpec) -> dict[str, Any]:
    return {"graceful_shutdown_timeout_s": patience_seconds(spec.engines), "max_surge_percent": 100}


def _to_zero(engine: EngineSpec, ray: str) -> float:
    scaling = _deployment(engine, ray).get("autoscaling_config")
    delay = scaling.get("downscale_to_zero_delay_s") if isinstance(scaling, dict) else None
    return float(delay) if isinstance(delay, (int, float)) else engine_args.CALM_SECONDS


def _app_name(spec: ServiceSpec, engine: EngineSpec) -> str:
    return "".join(c if c.isalnum() or c == "-" else "-" for c in f"{spec.name}-{engine.name}".lower())


def dump(config: dict[str, Any]) -> str:
    """serveConfigV2 is YAML; JSON is YAML too, and the same bytes from the same value in every version of every library."""
    return json.dumps(config, indent=2, sort_keys=True) + "\n"
