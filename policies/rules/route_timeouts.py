"""How long a Gateway waits for an engine: timeouts of HTTPRoutes. Not for: Ingresses (ingress_timeouts.py), or whether a route finds its Service."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Object, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from .ingress_timeouts import engine_services

_ENVOY = "gateway.envoyproxy.io/gatewayclass-controller"
_PART = re.compile(r"(\d+)(h|ms|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_ENOUGH = 120


def _seconds(given: object) -> float | None:
    """A duration of the Gateway API (GEP-2257)."""
    text = str(given)
    return (
        sum(int(n) * _SECONDS[unit] for n, unit in _PART.findall(text))
        if re.fullmatch(r"(\d+(h|ms|m|s))+", text)
        else None
    )


def _rules(item: Object) -> Iterator[Mapping[str, Any]]:
    yield from map(mapping, items(item.spec.get("rules")))


def order(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("HTTPRoute"):
        for rule in _rules(item):
            given = mapping(rule.get("timeouts"))
            whole, part = _seconds(given.get("request")), _seconds(given.get("backendRequest"))
            if whole and part and part > whole:
                yield error(
                    item.where,
                    f"timeouts.backendRequest {given['backendRequest']} is longer than request {given['request']}, of which it is a part: the API server refuses the route",
                    "make request at least as long",
                )


def engines(stack: Stack) -> Iterator[Problem]:
    routes = stack.of_kind("HTTPRoute")
    services = engine_services(stack) if routes else {}
    gateways = {(each.namespace, each.name): each for each in stack.of_kind("Gateway")}
    # A policy may set the timeout for a route, a Gateway, or whatever has a label.
    policies = any(mapping(mapping(p.spec.get("timeout")).get("http")) for p in stack.of_kind("BackendTrafficPolicy"))
    for item in routes:
        by_envoy = not policies and any(_by_envoy(stack, gateways.get(name)) for name in _parents(item))
        for rule in _rules(item):
            leads = (mapping(each) for each in items(rule.get("backendRefs")))
            names = ((str(each.get("namespace") or item.namespace), str(each.get("name"))) for each in leads)
            stated = mapping(rule.get("timeouts")).get("request")
            seconds = 15.0 if stated is None and by_envoy else _seconds(stated)
            if seconds and seconds < _ENOUGH and any(name in services for name in names):
                what = (
                    f"timeouts.request is {stated}"
                    if stated is not None
                    else "it states no timeout, and Envoy's is 15 s"
                )
                yield warning(
                    item.where,
                    f"{what}: an answer that takes longer is cut off, streamed or not",
                    "set timeouts: {request: 0s} in the rule, or as long as the longest answer takes",
                )
                break


def _parents(item: Object) -> list[tuple[str, str]]:
    refs = map(mapping, items(item.spec.get("parentRefs")))
    return [(str(ref.get("namespace") or item.namespace), str(ref.get("name"))) for ref in refs]


def _by_envoy(stack: Stack, gateway: Object | None) -> bool:
    """Whether a Gateway is Envoy Gateway's: by its class where that is seen, else by the names that guides give the class."""
    name = str(gateway.spec.get("gatewayClassName")) if gateway else ""
    seen = [each for each in stack.of_kind("GatewayClass") if each.name == name]
    return seen[0].spec.get("controllerName") == _ENVOY if seen else name in ("eg", "envoy", "envoy-gateway")


RULES: tuple[Rule, ...] = (
    Rule(
        id="route-timeout",
        title="A Gateway waits as long as an answer takes",
        why=(
            "A route's request timeout counts from the request to the last byte of the answer, which for a long one is minutes. Envoy has 15 s where none is stated: streams end in the "
            "middle, without an error in the engine."
        ),
        check=engines,
        sources=(
            "modelplaneai/modelplane PR#174",
            "defilantech/LLMKube#734",
            "https://gateway.envoyproxy.io/latest/tasks/traffic/http-timeouts/",
        ),
    ),
    Rule(
        id="route-timeout-order",
        title="A try is no longer than the request that it is part of",
        why="HTTPRoute's CRD refuses a backendRequest timeout over the request timeout.",
        check=order,
        sources=("gateway-api PR#2492",),
    ),
)
