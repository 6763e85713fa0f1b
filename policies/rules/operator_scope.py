"""Operators that are told to look at some namespaces only, and objects of theirs that stand in others.

The API server takes such an object, and nothing ever happens to it. Only charts that are seen with their values are judged; several
releases of one operator look at the namespaces of all. Not for: operators that are missing (software.py, kinds.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from policies.facts import Release, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error

from ._values import chart_name, dig, listed

Scope = frozenset[str] | None  # None: all namespaces
_RAY = ("RayCluster", "RayJob", "RayService")


@dataclass(frozen=True)
class _Operator:
    """scope: the namespaces of a release, by its values. ingress_class: of Ingresses that are this controller's."""

    scope: Callable[[Release], Scope]
    key: str  # what to change
    kinds: tuple[str, ...]
    ingress_class: str = ""


def _kuberay(release: Release) -> Scope:
    named = frozenset(map(str, items(release.values.get("watchNamespace"))))
    if named:
        return named
    single = release.values.get("singleNamespaceInstall") is True
    return frozenset({release.namespace}) if single and release.namespace else None


def _text(*path: str) -> Callable[[Release], Scope]:
    """Names in one text, separated by commas; nothing stands for all."""

    def scope(release: Release) -> Scope:
        given = dig(release.values, *path)
        names = items(given) or str(given or "").split(",")
        return frozenset(filter(None, (str(name).strip() for name in names))) or None

    return scope


def _nginx(release: Release) -> Scope:
    given = mapping(dig(release.values, "controller", "scope"))
    name = given.get("namespace") or release.namespace
    return frozenset({str(name)}) if given.get("enabled") is True and name else None


def _prometheus(release: Release) -> Scope:
    given = mapping(dig(release.values, "prometheusOperator", "namespaces"))
    own = {release.namespace} if given.get("releaseNamespace") is True and release.namespace else set()
    return frozenset({*own, *map(str, items(given.get("additional")))}) or None


_OPERATORS: Mapping[str, _Operator] = {
    "aws-load-balancer-controller": _Operator(_text("watchNamespace"), "watchNamespace", ("Ingress",), "alb"),
    "external-secrets": _Operator(_text("scopedNamespace"), "scopedNamespace", ("ExternalSecret", "SecretStore")),
    "ingress-nginx": _Operator(_nginx, "controller.scope", ("Ingress",), "nginx"),
    "keda": _Operator(_text("watchNamespace"), "watchNamespace", ("ScaledJob", "ScaledObject")),
    "kube-prometheus-stack": _Operator(
        _prometheus, "prometheusOperator.namespaces", ("PodMonitor", "PrometheusRule", "ServiceMonitor")
    ),
    "kuberay-operator": _Operator(_kuberay, "watchNamespace (software.kuberay.watch_namespaces)", _RAY),
}


def scopes(stack: Stack) -> Iterator[Problem]:
    for chart, operator in _OPERATORS.items():
        found = [release for release in stack.releases if chart_name(release) == chart]
        seen = [operator.scope(release) if release.values_known else None for release in found]
        watched = {name for scope in seen for name in scope or ()}
        if not found or None in seen:
            continue
        for where, namespace in _objects(stack, operator):
            if namespace not in watched:
                yield error(
                    where,
                    f"it is in namespace '{namespace}', and {chart} looks at {listed(watched)} alone: nothing ever happens to it",
                    f"add the namespace to {operator.key}",
                )


def _objects(stack: Stack, operator: _Operator) -> Iterator[tuple[str, str | None]]:
    """(where, namespace) of what the operator would act on."""
    if operator.kinds is _RAY:
        yield from ((w.where, w.namespace) for w in stack.workloads if w.by_kuberay)
        return
    for item in stack.of_kind(*operator.kinds):
        if not operator.ingress_class or _class(item.spec, item.annotations) == operator.ingress_class:
            yield item.where, item.namespace


def _class(spec: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    return str(spec.get("ingressClassName") or annotations.get("kubernetes.io/ingress.class") or "")


RULES: tuple[Rule, ...] = (
    Rule(
        id="operator-namespaces",
        title="Operators look at the namespaces that their objects are in",
        why="KubeRay, KEDA, External Secrets, Prometheus' operator and ingress controllers can be held to some namespaces. What is elsewhere is valid, stays without a status, and no event says why.",
        check=scopes,
        sources=(
            "ray-project/kuberay-helm#27",
            "ray-project/kuberay#1083",
            "kuberay v1.7.0: helm-chart/kuberay-operator/templates/deployment.yaml",
            "keda, external-secrets, ingress-nginx, kube-prometheus-stack and aws-load-balancer-controller: values.yaml of the charts",
        ),
    ),
)
