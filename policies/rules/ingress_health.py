"""How an application load balancer asks an engine whether it lives. Not for: probes of pods (probe_requests.py), or time-outs (ingress_timeouts.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.facts import Object, Stack
from policies.facts.quantities import whole
from policies.finding import Problem, Rule, error, warning

from .ingress_timeouts import engine_services
from .published import backends, ingress_class

_ALB = "alb.ingress.kubernetes.io"
_NLB = "service.beta.kubernetes.io/aws-load-balancer-healthcheck-"


def health(stack: Stack) -> Iterator[Problem]:
    found = [item for item in stack.of_kind("Ingress") if ingress_class(item) == "alb"]
    if not found:
        return
    engines = engine_services(stack)
    services = {(item.namespace, item.name): item for item in stack.of_kind("Service")}
    for item in found:
        for name, _ in backends(item):
            kind = engines.get((item.namespace, name))
            service = services.get((item.namespace, name))
            if kind is None or _answered(item) or (service is not None and _answered(service)):
                continue
            path = "/-/healthz" if kind.startswith("Ray") else "/health"
            stray = next(
                (each for each in (service, item) if each and any(k.startswith(_NLB) for k in each.annotations)), None
            )
            read = f"; {stray.where} has {_NLB}path, which network load balancers read" if stray is not None else ""
            yield warning(
                item.where,
                f"its health check asks Service '{name}' for path /, and gets 404: every target is unhealthy, and one that is really dead still gets requests{read}",
                f"set {_ALB}/healthcheck-path: {path}",
            )


def times(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("Ingress", "Service"):
        # Network load balancers take an interval that is as long: the controller's own values are 10 and 10.
        for prefix, unit, more in ((f"{_ALB}/healthcheck-", "-seconds", 1), (_NLB, "", 0)):
            every = whole(item.annotations.get(f"{prefix}interval{unit}"))
            patience = whole(item.annotations.get(f"{prefix}timeout{unit}"))
            if every is not None and patience is not None and patience + more > every:
                yield error(
                    item.where,
                    f"its load balancer asks every {every} s and waits {patience} s for an answer: AWS refuses it, and makes no target group",
                    f"set {prefix}interval{unit} to {patience + more} or more, or a shorter timeout",
                )


def _answered(item: Object) -> bool:
    """Whether a path is named, or 404 counts as alive."""
    if str(item.annotations.get(f"{_ALB}/healthcheck-path") or "/") != "/":
        return True
    if str(item.annotations.get(f"{_ALB}/backend-protocol-version") or "").upper() == "GRPC":
        return True
    for part in str(item.annotations.get(f"{_ALB}/success-codes") or "").split(","):
        numbers = [int(each) for each in re.findall(r"\d+", part)]
        if numbers and numbers[0] <= 404 <= numbers[-1]:
            return True
    return False


RULES: tuple[Rule, ...] = (
    Rule(
        id="ingress-health",
        title="A load balancer asks engines for a path that they have",
        why=(
            "Application load balancers ask for / and take 200 as alive; vLLM and Ray Serve's OpenAI application answer 404 there. With every target unhealthy the balancer sends to all of "
            "them, dead ones included, and takes new ones before their model is loaded."
        ),
        check=health,
        sources=(
            "jupyter-infra/jupyter-k8s PR#342",
            "aws-load-balancer-controller#2279",
            "https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/#health-check",
        ),
    ),
    Rule(
        id="ingress-health-times",
        title="A health check ends before the next one begins",
        why="AWS checks both when the controller makes the target group (Health check interval must be greater than the timeout). The Ingress or Service stays without an address until then.",
        check=times,
        sources=("aws-load-balancer-controller#2951",),
    ),
)
