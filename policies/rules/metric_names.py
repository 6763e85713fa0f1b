"""Queries of scalers and alerts: metrics that vLLM has, by the names it has for them.

Prometheus answers a query of a metric that does not exist with nothing, and KEDA takes nothing for zero. Not for: what a scaler should
ask (pod_scaling.py), or metrics of gateways and routers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog import vllm_metrics
from policies.catalog.lookup import closest_names
from policies.facts import Object, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, warning

from ._values import before, dig, listed, releases, true

_TEXT = re.compile(r"\"[^\"]*\"|'[^']*'")
_NAME = re.compile(r"(?<![A-Za-z0-9_:])vllm(?P<sign>[:_])(?P<name>[a-z0-9_]+)")
# A series that is named outright: x, x{...}, or {__name__=~"^x$"}.
_SERIES = re.compile(
    r'\{\s*__name__\s*=~?\s*"\^?(?P<exact>[A-Za-z_:][\w:]*)\$?"|(?P<plain>[A-Za-z_:][\w:]*)\s*(?:\{|$)'
)
_RENAMED_IN = "0.12"  # until then both names were there


def names(stack: Stack) -> Iterator[Problem]:
    engines = {(w.namespace, w.name): w for w in stack.workloads if w.engines and not w.by_kuberay}
    for item in stack.of_kind("PrometheusRule", "ScaledObject"):
        target = str(mapping(item.spec.get("scaleTargetRef")).get("name") or "")
        workload = engines.get((item.namespace, target))
        old = workload is not None and before(workload.vllm_version, _RENAMED_IN)
        said = set()
        for query in _queries(item):
            for match in _NAME.finditer(_TEXT.sub("", query)):
                problem = _problem(match["sign"], match["name"], old)
                if problem is not None and match[0] not in said:
                    said.add(match[0])
                    yield warning(
                        item.where, f"it asks for {match[0]}, and {problem[0]}: the query answers nothing", problem[1]
                    )


def _queries(item: Object) -> Iterator[str]:
    spec = item.spec
    for trigger in map(mapping, items(spec.get("triggers"))):
        if trigger.get("type") == "prometheus":
            yield str(mapping(trigger.get("metadata")).get("query") or "")
    for group in map(mapping, items(spec.get("groups"))):
        for rule in map(mapping, items(group.get("rules"))):
            yield str(rule.get("expr") or "")


def _problem(sign: str, given: str, old: bool) -> tuple[str, str] | None:
    """(what is wrong, what to do) with a name; None where vLLM has it, or may have it under a recording rule's name."""
    name = vllm_metrics.plain(given)
    if name in vllm_metrics.GONE:
        new = vllm_metrics.GONE[name]
        if old:
            return None
        return (
            "vLLM has it no more",
            f"ask for vllm:{new}" if new else "ask for vllm:num_requests_waiting or vllm:kv_cache_usage_perc",
        )
    if name in vllm_metrics.NAMES:
        return None if sign == ":" else ("vLLM writes a colon there", f"ask for vllm:{given}")
    near = closest_names(name, vllm_metrics.NAMES, 1)
    if sign == ":" and near:
        return "vLLM has no such metric", f"did you mean vllm:{near[0]}?"
    return None


def served(stack: Stack) -> Iterator[Problem]:
    """Names under which prometheus-adapter serves series, where its rules are all seen."""
    found = releases(stack, "prometheus-adapter")
    rules = [mapping(each) for release in found for each in items(dig(release.values, "rules", "custom"))]
    serves = [_served(rule) for rule in rules]
    known = sorted(name for name in serves if name)
    if not rules or None in serves or any(true(dig(release.values, "rules", "default"), True) for release in found):
        return
    for item in stack.of_kind("HorizontalPodAutoscaler"):
        for metric in map(mapping, items(item.spec.get("metrics"))):
            kind = {"Pods": "pods", "Object": "object"}.get(str(metric.get("type")), "")
            name = str(dig(metric, kind, "metric", "name") or "")
            if name and name not in known:
                near = closest_names(name, known, 1)
                yield warning(
                    item.where,
                    f"it scales on {name}, and prometheus-adapter serves {listed(known)}: the metric is never there, and nothing is scaled",
                    f"did you mean {near[0]}?" if near else f"add a rule with name.as: {name}",
                )


def _served(rule: Mapping[str, Any]) -> str | None:
    """The name of a rule's metric; None where it depends on what Prometheus has."""
    pattern, given = str(dig(rule, "name", "matches") or ""), str(dig(rule, "name", "as") or "")
    if given and "$" not in given and not pattern.strip("^$"):
        return given
    series = _SERIES.match(str(rule.get("seriesQuery") or ""))
    if series is None:
        return None
    name = series["exact"] or series["plain"]
    if not pattern:
        return given if given and "$" not in given else name
    try:
        match = re.search(pattern, name)
    except re.error:
        return None
    if match is None:
        return name
    new = given or ("$1" if match.re.groups == 1 else "$0" if match.re.groups == 0 else "")
    return re.sub(r"\$\{?(\d+)\}?", lambda found: match[int(found[1])] or "", new) if new else None


RULES: tuple[Rule, ...] = (
    Rule(
        id="metric-names",
        title="Scalers and alerts ask for metrics that vLLM has",
        why=(
            "vLLM's metrics begin with vllm and a colon, and several were renamed (gpu_cache_usage_perc is kv_cache_usage_perc). A query of the wrong name is valid and answers "
            "nothing, so nothing scales and no alert fires."
        ),
        check=names,
        sources=("volcano-sh/kthena PR#868", "vllm: docs/usage/metrics.md", "vllm 0.29.0: v1/metrics/loggers.py"),
    ),
    Rule(
        id="metric-served",
        title="An autoscaler asks for a metric that the adapter serves",
        why="prometheus-adapter gives series other names (name.as), since a colon may not stand in a path. An HPA of any other name finds no metric and keeps its number of pods.",
        check=served,
        sources=(
            "kubernetes-sigs/prometheus-adapter#673",
            "developmentseed/eoapi-k8s PR#547",
            "https://github.com/kubernetes-sigs/prometheus-adapter: docs/config.md",
        ),
    ),
)
