"""Annotations of Ingresses and Services that their controller does not read, or whose values it cannot, and who makes a load balancer.

An annotation is any text to the API server; one letter apart it is nobody's. Not for: what a value should be (ingress_timeouts.py,
ingress_health.py, exposure.py), or words to Karpenter and schedulers (karpenter_words.py, queue_labels.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from policies.catalog.annotations import NAMES, OPEN, SERVICE
from policies.catalog.lookup import closest_names
from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

from ._values import chart_name, dig, true
from .auto_mode import auto_clusters

_BOOLEANS = ("0", "1", "F", "FALSE", "False", "T", "TRUE", "True", "f", "false", "t", "true")  # strconv.ParseBool
_CONTROLLED = ("external", "nlb-ip")
_TEMPLATE = ("${", "{{", "<")  # what other programs complete


def words(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("Ingress", "Service"):
        for key, value in item.annotations.items():
            for prefix, names in NAMES.items():
                if key.startswith(prefix):
                    yield from _word(item.where, key, key.removeprefix(prefix), value, prefix, names)


def _word(where: str, key: str, name: str, value: Any, prefix: str, names: Any) -> Iterator[Problem]:
    if name.startswith(OPEN):
        return
    if name not in names:
        near = closest_names(name, names, 1)
        if near:
            yield warning(
                where, f"nothing reads annotation {key}: what it asks for is not done", f"write {prefix}{near[0]}"
            )
        return
    judged = isinstance(value, str) and not value.startswith(_TEMPLATE)  # others are refused as no text
    wrong = _wrong(value, names[name]) if judged else ""
    if wrong:
        yield error(where, f"annotation {key} is {value!r}, and its controller reads {wrong} there", f"give {wrong}")


def _wrong(text: str, kind: Any) -> str:
    """What a value should be; nothing where it is that."""
    if kind is int:
        return "" if re.fullmatch(r"\s*-?\d+\s*", text) else "a whole number without a unit"
    if kind is bool:
        return "" if text in _BOOLEANS else "true or false"
    if isinstance(kind, tuple):
        return "" if text in kind else " or ".join(kind)
    if kind == "json":
        try:
            json.loads(text)
        except json.JSONDecodeError:
            return 'JSON, e.g. [{"HTTPS": 443}]'
    return ""


def makers(stack: Stack) -> Iterator[Problem]:
    """Services whose load balancer Kubernetes makes itself, which does not read the scheme."""
    controllers = [each for each in stack.releases if chart_name(each) == "aws-load-balancer-controller"]
    if auto_clusters(stack) or any(true(dig(c.values, "enableServiceMutatorWebhook"), True) for c in controllers):
        return
    for item in stack.of_kind("Service"):
        given = item.annotations
        if (
            item.spec.get("type") != "LoadBalancer"
            or item.spec.get("loadBalancerClass")
            or given.get(f"{SERVICE}type") in _CONTROLLED
            or given.get(f"{SERVICE}scheme") != "internal"
            or str(given.get(f"{SERVICE}internal", "")).lower() in ("true", "0.0.0.0/0")
        ):
            continue
        yield warning(
            item.where,
            f"only the AWS Load Balancer Controller reads {SERVICE}scheme, and nothing hands this Service to it: unless its webhook does, Kubernetes makes the load balancer itself, open to the internet",
            f"set loadBalancerClass: service.k8s.aws/nlb, or {SERVICE}type: external",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="annotation-words",
        title="Annotations are ones that the controller reads",
        why="An annotation of another name is kept and ignored: load balancers are not shared, time-outs stay at 60 s. ingress-nginx takes a number with a unit for none; the AWS Load Balancer Controller stops at a value that it cannot parse.",
        check=words,
        sources=(
            "kubernetes-sigs/aws-load-balancer-controller#2564",
            "kubernetes-sigs/aws-load-balancer-controller#71",
            "aws-load-balancer-controller: pkg/annotations/constants.go",
            "ingress-nginx: docs/user-guide/nginx-configuration/annotations.md",
        ),
    ),
    Rule(
        id="load-balancer-maker",
        title="A load balancer's scheme is read by who makes it",
        why="Without a class, or type external, the load balancer of a Service is made by Kubernetes' own controller, which reads the older annotation internal alone. The controller's webhook sets the class on new Services where it is installed.",
        check=makers,
        sources=(
            "kubernetes-sigs/aws-load-balancer-controller#3293",
            "kubernetes-sigs/aws-load-balancer-controller#2737",
            "kubernetes-sigs/aws-load-balancer-controller#4110",
            "aws-load-balancer-controller: webhooks/core/service_mutator.go",
        ),
    ),
)
