"""Whether a Prometheus that is seen selects a monitor at all. Not for: whether the monitor finds pods (object_references.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from policies.facts import Stack
from policies.facts.quantities import mapping
from policies.finding import Problem, Rule, warning

from ._selectors import asked
from ._values import dig, listed, releases, true

_KINDS = {"PodMonitor": "podMonitor", "PrometheusRule": "rule", "ServiceMonitor": "serviceMonitor"}


class _Selects(NamedTuple):
    """Labels that a Prometheus asks of one kind; where it is said."""

    where: str
    labels: Mapping[str, str]


def selected(stack: Stack) -> Iterator[Problem]:
    monitors = stack.of_kind(*_KINDS, group="monitoring.coreos.com/")
    servers = _servers(stack) if monitors else []
    for item in monitors:
        asking = [server[item.kind] for server in servers]
        if not asking or any(each is None or each.labels.items() <= item.labels.items() for each in asking):
            continue
        first = next(each for each in asking if each is not None)
        wants = listed(f"{key}: {value}" for key, value in first.labels.items())
        yield warning(
            item.where,
            f"{first.where} takes {item.kind}s with label {wants}, and it has {listed(item.labels) if item.labels else 'none'}: it is never read",
            f"add the label {wants}, or let Prometheus take all ({_KINDS[item.kind]}SelectorNilUsesHelmValues: false)",
        )


def _servers(stack: Stack) -> list[dict[str, _Selects | None]]:
    """For each Prometheus what it asks of each kind; None where it takes all, or that cannot be told."""
    found: list[dict[str, _Selects | None]] = []
    for item in stack.of_kind("Prometheus", group="monitoring.coreos.com/"):
        found.append({kind: _selects(item.where, item.spec.get(f"{field}Selector")) for kind, field in _KINDS.items()})
    for release in releases(stack, "kube-prometheus-stack"):
        spec = mapping(dig(release.values, "prometheus", "prometheusSpec"))
        if not true(dig(release.values, "prometheus", "enabled"), True):
            continue
        found.append({kind: _of_chart(release.where, release.name, spec, field) for kind, field in _KINDS.items()})
    return found


def _of_chart(where: str, name: str, spec: Mapping[str, Any], field: str) -> _Selects | None:
    """The chart asks for the label of its release, unless told otherwise (templates/prometheus/prometheus.yaml)."""
    given = spec.get(f"{field}Selector")
    if mapping(given):
        return _selects(where, given)
    return _Selects(where, {"release": name}) if true(spec.get(f"{field}SelectorNilUsesHelmValues"), True) else None


def _selects(where: str, selector: Any) -> _Selects | None:
    wanted = asked(selector)
    return _Selects(where, wanted) if wanted and not mapping(selector).get("matchExpressions") else None


RULES: tuple[Rule, ...] = (
    Rule(
        id="monitor-selected",
        title="Prometheus takes the monitor",
        why=(
            "A Prometheus takes monitors and rules by their labels; kube-prometheus-stack asks for `release: <its name>` unless it is told to take all. One without the label is stored and "
            "never read: no metrics, no alerts, and scalers that see no load."
        ),
        check=selected,
        sources=("ray PR#53952", "kube-prometheus-stack 88.5.3: values.yaml, podMonitorSelectorNilUsesHelmValues"),
    ),
)
