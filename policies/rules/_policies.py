"""What NetworkPolicies leave open for pods: of objects that are seen, and of KubeRay's own field. Not for: judging (network_policies.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.facts import PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, whole

from ._kept import per_stack
from ._selectors import Selectors, labels, matches
from .kuberay_cluster import cluster_spec

Rules = list[Mapping[str, Any]]
_WAYS = {"ingress": ("DenyAll", "DenyAllIngress"), "egress": ("DenyAll", "DenyAllEgress")}


@per_stack
def _objects(stack: Stack) -> Selectors:
    return Selectors(stack.of_kind("NetworkPolicy"), lambda spec: spec.get("podSelector"))


def closed(stack: Stack, workload: Workload, group: PodGroup, way: str) -> tuple[list[str], Rules]:
    """(places of the policies that close this way for the pods, all rules that open it again). way: ingress or egress."""
    known = labels(workload, group)
    closing: list[str] = []
    rules: Rules = []
    for item in _objects(stack).of(workload.namespace, known):
        types = items(item.spec.get("policyTypes")) or ["Ingress", *(["Egress"] if "egress" in item.spec else [])]
        if way.capitalize() in types and matches(item.spec.get("podSelector"), known):
            closing.append(item.where)
            rules += map(mapping, items(item.spec.get(way)))
    own = mapping(cluster_spec(workload).get("networkPolicy")) if workload.by_kuberay else {}
    if own and own.get("mode", "DenyAll") in _WAYS[way]:
        closing.append(f"{workload.where}: networkPolicy")
        rules += _of_kuberay(workload, way)
        given = mapping(own.get("head" if group.head else "worker"))
        rules += map(mapping, items(given.get(f"{way}Rules")))
    return closing, rules


def _of_kuberay(workload: Workload, way: str) -> Rules:
    """What KubeRay opens by itself: the cluster's own pods, and the dashboard of a job for who submits it
    (docs.ray.io: cluster/kubernetes/user-guides/network-policy)."""
    own = [{"podSelector": {"matchLabels": {"ray.io/cluster": workload.name}}}]
    if way == "egress":
        return [{"to": own}]
    submits = [{"from": [{"namespaceSelector": {}}], "ports": [{"port": 8265}]}] if workload.kind == "RayJob" else []
    return [{"from": own}, *submits]


def on_port(rule: Mapping[str, Any], port: int) -> bool:
    """Whether a rule covers a port (named ports are taken to)."""
    ports = items(rule.get("ports"))
    if not ports:
        return True
    for each in map(mapping, ports):
        low, high = whole(each.get("port")), whole(each.get("endPort"))
        if low is None or low == port or (high is not None and low <= port <= high):
            return True
    return False


def peers(rule: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The other ends of a rule's `from` or `to`; none stands for everybody."""
    return list(map(mapping, items(rule.get(key))))
