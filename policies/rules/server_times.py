"""Times that servers count: connections that nobody uses, and requests that take long.

Not for: time to start (startup_time.py), or time-outs of load balancers themselves (published.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from policies.facts import Object, Stack, Workload
from policies.facts.quantities import mapping, real, whole
from policies.finding import Problem, Rule, warning

from ._engines import ray_version
from ._values import amount, before, literal
from .published import Doors

VLLM_KEEP_ALIVE = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"
_VLLM_DEFAULT, _SERVE_DEFAULT, _SERVE_BEFORE = 5, 90, 5  # Ray 2.48 raised it (ray PR#54127)
_ALB_IDLE = 60
_ATTRIBUTES = "alb.ingress.kubernetes.io/load-balancer-attributes"
# 4096 tokens at 40 a second; an answer that a client waits for is seldom done sooner when it is that long.
LONG_ANSWER_SECONDS = 100


def _alb_idle(item: Object) -> int | None:
    """Idle time-out (s) of an Application Load Balancer; None for what is none."""
    spec = item.spec
    notes: Mapping[str, object] = item.annotations
    if (spec.get("ingressClassName") or notes.get("kubernetes.io/ingress.class")) != "alb":
        return None
    found = re.search(r"idle_timeout\.timeout_seconds=(\d+)", str(notes.get(_ATTRIBUTES, "")))
    return int(found[1]) if found else _ALB_IDLE


def _kept(stack: Stack, workload: Workload) -> int | None:
    """Seconds that the endpoint's server keeps an idle connection."""
    if workload.by_kuberay:
        given = whole(mapping(workload.serve_config.get("http_options")).get("keep_alive_timeout_s"))
        if given is not None:
            return given
        return _SERVE_BEFORE if before(ray_version(stack, workload), "2.48") else _SERVE_DEFAULT
    group = workload.groups[0] if workload.groups else None
    if group is None or not workload.engines:
        return None
    value = workload.engines[0].env.get(VLLM_KEEP_ALIVE, group.env.get(VLLM_KEEP_ALIVE))
    return _VLLM_DEFAULT if value is None else whole(literal({VLLM_KEEP_ALIVE: value}, VLLM_KEEP_ALIVE))


def idle(stack: Stack) -> Iterator[Problem]:
    for item, workload, _ in Doors(stack):
        there = _alb_idle(item)
        here = _kept(stack, workload) if workload is not None and there is not None else None
        if workload is None or here is None or there is None or here > there:
            continue
        ray = workload.by_kuberay
        yield warning(
            item.where,
            f"the load balancer keeps idle connections {there} s and the server behind it {here} s: a request on one that has just ended is answered with 502",
            f"set {'http_options.keep_alive_timeout_s' if ray else VLLM_KEEP_ALIVE} to {there + 30}, or a shorter idle_timeout.timeout_seconds",
        )


def requests(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if not workload.engines:
            continue
        limit = real(mapping(workload.serve_config.get("http_options")).get("request_timeout_s"))
        if limit is not None and 0 < limit < LONG_ANSWER_SECONDS:
            yield warning(
                workload.where,
                f"Serve's http_options.request_timeout_s is {amount(limit)}: an answer that takes longer is cut off, streamed or not (408)",
                "leave it out, or give as long as the longest answer takes",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="endpoint-keep-alive",
        title="The server keeps connections longer than the load balancer",
        why=(
            "Load balancers use a connection again. Where the server ends an idle one first, a request can be on its way: the client gets 502 for a service that is well. vLLM's server "
            "keeps connections 5 s, Serve's 90 s since Ray 2.48 and 5 s before, an ALB 60 s unless it is told otherwise."
        ),
        check=idle,
        sources=(
            "ray PR#54127",
            "vllm PR#18472",
            "kserve/kserve#5446",
            "https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html#connection-idle-timeout",
        ),
    ),
    Rule(
        id="serve-request-timeout",
        title="Long answers are not cut off",
        why="request_timeout_s counts from the request to the last token, and is one number for the whole cluster.",
        check=requests,
        sources=("ray PR#37951", "ray 2.60.0: serve/schema.py HTTPOptionsSchema"),
    ),
)
