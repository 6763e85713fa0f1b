"""How long an Ingress waits for an engine: a long prompt's first token, or a whole answer that is not streamed.

Not for: encryption and keys of what an Ingress publishes (published.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Object, Stack
from policies.facts.quantities import mapping, whole
from policies.finding import Problem, Rule, warning

from ._selectors import labels
from .published import backends, ingress_class

_NGINX, _ALB = "nginx.ingress.kubernetes.io", "alb.ingress.kubernetes.io"
_IDLE = re.compile(r"idle_timeout\.timeout_seconds=(\d+)")
_DEFAULT_SECONDS = 60  # of ingress-nginx and of application load balancers
_ENOUGH_SECONDS = 120


def timeouts(stack: Stack) -> Iterator[Problem]:
    found = stack.of_kind("Ingress")
    if not found:
        return
    engines = engine_services(stack)
    for item in found:
        if not any((item.namespace, name) in engines for name, _ in backends(item)):
            continue
        given = item.annotations
        seconds, key = _waits(item, given)
        if key and seconds < _ENOUGH_SECONDS:
            yield warning(
                item.where,
                f"it cuts a request off after {seconds} s of silence: an answer that is not streamed, or the first token of a long prompt in a queue, takes longer (504)",
                f"set {key}",
            )


def _waits(item: Object, given: Mapping[str, Any]) -> tuple[int, str]:
    """(seconds, what sets them) of the controllers whose defaults are known; no key for others."""
    name = ingress_class(item)
    if name == "alb":
        match = _IDLE.search(str(given.get(f"{_ALB}/load-balancer-attributes") or ""))
        return int(
            match[1]
        ) if match else _DEFAULT_SECONDS, f"{_ALB}/load-balancer-attributes: idle_timeout.timeout_seconds=900"
    if name == "nginx" or any(str(key).startswith(f"{_NGINX}/") for key in given):
        stated = whole(given.get(f"{_NGINX}/proxy-read-timeout"))
        return _DEFAULT_SECONDS if stated is None else stated, f'{_NGINX}/proxy-read-timeout: "900"'
    return 0, ""


def engine_services(stack: Stack) -> dict[tuple[str, str], str]:
    """(namespace, name) of Services that lead to engines -> kind of the workload."""
    found = {(w.namespace, f"{w.name}-serve-svc"): w.kind for w in stack.workloads if w.kind == "RayService"}
    plain = [
        (w.namespace, labels(w, g), w.kind) for w in stack.workloads if w.engines and not w.by_kuberay for g in w.groups
    ]
    for item in stack.of_kind("Service"):
        selector = {str(k): str(v) for k, v in mapping(item.spec.get("selector")).items()} if plain else {}
        for space, given, kind in plain if selector else ():
            if item.namespace == space and selector.items() <= given.items():
                found[item.namespace, item.name] = kind
    return found


RULES: tuple[Rule, ...] = (
    Rule(
        id="ingress-timeout",
        title="An Ingress waits as long as an engine thinks",
        why=(
            "ingress-nginx and application load balancers end a request after 60 s without a byte. Answers that are not streamed send none until they are complete, and a "
            "long prompt behind others takes as long to its first token; the engine goes on for nobody."
        ),
        check=timeouts,
        sources=("onyx-dot-app/onyx PR#10247", "mudler/LocalAI#11046", "BerriAI/litellm#9551"),
    ),
)
