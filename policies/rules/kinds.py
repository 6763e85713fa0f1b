"""Objects of kinds that other software brings: it is installed, or said to be there.

Not for KubeRay's own kinds (software.py) or the order of installation (components/cluster_software.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.finding import Problem, Rule, error, warning

from ._values import chart_name

# API group -> (chart of ours that brings it, its config, what it is)
_GROUPS = {
    "gateway.envoyproxy.io": ("gateway-helm", "software.gateway", "Envoy Gateway"),
    "gateway.networking.k8s.io": ("gateway-helm", "software.gateway", "the Gateway API"),
    "keda.sh": ("keda", "software.keda", "KEDA"),
    "monitoring.coreos.com": ("kube-prometheus-stack", "software.monitoring", "the Prometheus Operator"),
}


def installed(stack: Stack) -> Iterator[Problem]:
    if not stack.complete:
        return  # others may bring it
    charts = {chart_name(release) for release in stack.releases} | set(stack.present)
    for item in stack.objects:
        group = item.api_version.rpartition("/")[0]
        chart, config, what = _GROUPS.get(group, ("", "", ""))
        if not chart or chart in charts:
            continue
        yield (error if stack.fresh else warning)(
            item.where,
            f"{item.kind} is a kind of {what}, which this stack does not install and which is not said to be there",
            f"set {config}.install: true, or false where another team has installed it",
        )


def gateway_class(stack: Stack) -> Iterator[Problem]:
    for item in stack.of_kind("Gateway") if stack.complete else ():
        if item.spec and not item.spec.get("gatewayClassName"):
            yield error(
                item.where,
                "it names no GatewayClass, and the API server refuses it",
                "set software.gateway.class_name, or upgrade.gateway_class of the service",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="kind-installed",
        title="Kinds of other software are there",
        why="An object of a kind without a CRD is refused when it is created, after everything before it has been made: 'no matches for kind'.",
        check=installed,
        sources=("pulumi-kubernetes#1671", "kubernetes: apiextensions"),
    ),
    Rule(
        id="kind-gateway-class",
        title="A Gateway names its class",
        why="gatewayClassName is required and has at least one character; no controller programs a Gateway of another's class.",
        check=gateway_class,
        sources=("https://gateway-api.sigs.k8s.io/api-types/gatewayclass/",),
    ),
)
