"""The way of a request from the port of a service to its engine, as environment of Ray.

Serve's own proxy and the OpenAI ingress are Python processes through which every token goes. HAProxy takes the proxy's place where Ray
brings it; with direct streaming it sends a request to the engine's own server, and the ingress is gone too. Not for: which replica takes a
request (routing), or how clients reach the port (expose).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from components.config import Service
from components.derive.spec import EngineSpec, ServiceSpec
from policies.catalog.ray_releases import DIRECT_STREAMING, DIRECT_STREAMING_SINCE, HAPROXY_SINCE, has

HAPROXY = "RAY_SERVE_ENABLE_HA_PROXY"
NICENESS = "RAY_worker_niceness"
HARD_STOP = "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S"
ROUTER_TIMEOUT = "RAY_SERVE_HAPROXY_INGRESS_REQUEST_ROUTER_TIMEOUT_S"
# Serve ends the only replica of a model before it starts the next one, and a request waits for that on its way. Four things on the
# way give up earlier by themselves (ray 2.60.0: _private/constants.py, ingress_request_router.lua.tmpl, config.py), each with 503 or a
# cut connection: HAProxy after 5 s without a word of the router, a router or ingress that is replaced itself after 20 s, and an old
# HAProxy, of which each change of the replicas makes one, after 120 s, with the streams that it still carries.
# The steps are few: as environment of the pods another value makes a new cluster. So the number of replicas does not count either.
_PATIENCE = (300, 900, 1800, 3600, 7200)


def environment(config: Service, engines: Iterable[EngineSpec], ray: str) -> dict[str, str]:
    """Derived environment of head and workers; what a person states goes over it."""
    if config.kind != "ray_service":
        return {}
    # Ray's workers are nice by 15 (ray_config_def.h): the engine would wait for every metrics agent of its pod.
    env = {NICENESS: "0"}
    expose, engines = config.expose, tuple(engines)
    haproxy = has(ray, HAPROXY_SINCE) if expose.proxy is None else expose.proxy == "haproxy"
    direct = expose.direct_streaming
    if direct is None:
        direct = haproxy and has(ray, DIRECT_STREAMING_SINCE) and _can_stream_directly(config, engines)
    patience = str(patience_seconds(engines))
    if haproxy:
        env |= {HAPROXY: "1", HARD_STOP: patience}
    if direct:
        env |= {DIRECT_STREAMING: "1", ROUTER_TIMEOUT: patience}
    return env


def patience_seconds(engines: Iterable[EngineSpec]) -> int:
    """How long a request may be on its way: as long as the next replica of a model may take to start, and a streamed answer."""
    longest = max((each.cold_seconds or _PATIENCE[-2] for each in engines), default=0)
    return next((step for step in _PATIENCE if step >= longest), _PATIENCE[-1])


def _can_stream_directly(config: Service, engines: tuple[EngineSpec, ...]) -> bool:
    """One model, whose replica any request may go to (ray 2.60.0: core/ingress/builder.py), and which does not scale to zero."""
    if len(engines) != 1 or config.app != "openai_chat" or config.app_args:
        return False
    (engine,) = engines
    model = engine.config
    # the KV-aware router scores replicas in the router of direct streaming, and nowhere else
    routed = model.routing.policy in ("power_of_two", "kv_aware")
    plain = model.lora is None and routed and not model.routing.options
    return engine.role == "serve" and plain and model.replicas.min > 0


def streams_directly(spec: ServiceSpec) -> bool:
    """Whether head or workers build the application with direct streaming, by derivation or by a person's own environment."""
    return _switched_on(spec, DIRECT_STREAMING)


def head_answers(spec: ServiceSpec) -> bool:
    """Whether the head is behind the endpoint's Service: a hop more, since it carries no replica, and it holds requests that no worker can.

    A worker without a replica is not ready (Serve drains its proxy), and connections to a Service without ready pods are refused:
    where all workers may go, and where an in-place change ends the only replica of each model. For the second a head is not taken that
    is the narrow place for all other requests: with Ray's own proxy, or on the nodes of the engines, which leave it no processor
    (local.bench.serving on two cores: 0.66 to 0.97 of bare vLLM's requests a second and 4 to 8 s to the first token at p95, against
    1.15 to 1.18 and 0.5 s without it).
    """
    if spec.groups and not any(group.min for group in spec.groups):
        return True
    alone = [each.min_replicas == 1 and not each.config.replicas.surge_percent for each in spec.engines]
    apart = all(group.pool_name != spec.head.pool_name for group in spec.groups)
    return bool(alone) and all(alone) and apart and _switched_on(spec, HAPROXY)


def _switched_on(spec: ServiceSpec, name: str) -> bool:
    shapes: tuple[Mapping[str, str], ...] = (spec.config.head.env, spec.config.worker.env)
    shared = {**spec.ray_env, **spec.environment.env, **spec.config.env}
    return any({**shared, **shape}.get(name) == "1" for shape in shapes)


IDLE_SECONDS = 90
"""Seconds that servers keep a connection nobody uses: Serve's own default since Ray 2.48, and over what load balancers do by default."""


def keep_alive_seconds(config: Service) -> int:
    """Longer than the load balancer keeps it: one that the server ends first is answered with 502 (ray PR#54127, vllm PR#18472)."""
    ingress = config.expose.ingress
    return IDLE_SECONDS if ingress is None else max(IDLE_SECONDS, ingress.timeout_seconds + 30)
