"""Who is left outside by NetworkPolicies without wanting it: clients of Ray Serve, and Prometheus with its monitors.

Not for: KubeRay and the cluster's own pods (network_policies.py), or who should be outside (exposure.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Object, PodGroup, Stack, Workload
from policies.facts.quantities import items, mapping, whole
from policies.finding import Problem, Rule, warning

from ._policies import closed, on_port, peers
from ._selectors import asked, labels
from ._values import releases
from .pod_resources import containers

_SERVE = 8000
_NAME = "kubernetes.io/metadata.name"


def endpoints(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        if workload.kind != "RayService" or not workload.groups:
            continue
        closing, rules = closed(stack, workload, workload.groups[0], "ingress")
        if closing and not any(on_port(rule, _SERVE) and not _own(rule) for rule in rules):
            yield warning(
                closing[0],
                f"nobody but the cluster's own pods reaches port {_SERVE} of {workload.where}, where Serve answers: clients, and KubeRay's look at the proxy, are cut off",
                f"let clients and the operator's namespace in on port {_SERVE} of head and workers",
            )


def _own(rule: Mapping[str, Any]) -> bool:
    """Whether a rule is for the pods of a Ray cluster alone."""
    ends = peers(rule, "from")
    return bool(ends) and all(
        "namespaceSelector" not in end and any(str(key).startswith("ray.io/") for key in asked(end.get("podSelector")))
        for end in ends
    )


def monitors(stack: Stack) -> Iterator[Problem]:
    found = stack.of_kind("PodMonitor", "ServiceMonitor", group="monitoring.coreos.com/")
    spaces = {item.namespace for item in stack.of_kind("Prometheus", group="monitoring.coreos.com/")}
    spaces |= {release.namespace for release in releases(stack, "kube-prometheus-stack") if release.namespace}
    if not found or not spaces:
        return
    services = stack.of_kind("Service", group="v1")
    for workload in stack.workloads:
        for group in workload.pod_groups:
            closing, rules = closed(stack, workload, group, "ingress")
            for item in found if closing else ():
                ports = _scraped(item, workload, group, services)
                shut = sorted(
                    port for port in ports if not any(_reaches(rule, port, workload, spaces) for rule in rules)
                )
                if shut:
                    yield warning(
                        closing[0],
                        f"Prometheus is in namespace {' or '.join(sorted(spaces))} and is not let in on port {shut[0]} of {group.where}, which {item.where} scrapes: its targets are down",
                        f"let that namespace in on port {shut[0]}",
                    )
                    break


def _scraped(item: Object, workload: Workload, group: PodGroup, services: tuple[Object, ...]) -> set[int]:
    """Numbers of the ports of these pods that a monitor scrapes."""
    known = labels(workload, group)
    chosen, wanted = mapping(item.spec.get("namespaceSelector")), asked(item.spec.get("selector"))
    spaces = items(chosen.get("matchNames")) or [item.namespace]
    if not wanted or (workload.namespace not in spaces and chosen.get("any") is not True):
        return set()
    named = {
        str(mapping(port).get("name")): whole(mapping(port).get("containerPort"))
        for _, container in containers(mapping(group.pod))
        for port in items(container.get("ports"))
    }
    if item.kind == "PodMonitor":
        given = [mapping(each).get("port") for each in items(item.spec.get("podMetricsEndpoints"))]
        targets = given if wanted.items() <= known.items() else []
    else:
        asks = {str(mapping(each).get("port")) for each in items(item.spec.get("endpoints"))}
        targets = [
            mapping(port).get("targetPort", mapping(port).get("port"))
            for service in services
            if service.namespace == workload.namespace
            and wanted.items() <= service.labels.items()
            and mapping(service.spec.get("selector"))
            and {str(k): str(v) for k, v in mapping(service.spec.get("selector")).items()}.items() <= known.items()
            for port in items(service.spec.get("ports"))
            if str(mapping(port).get("name")) in asks
        ]
    numbers = (whole(target) if whole(target) is not None else named.get(str(target)) for target in targets)
    return {number for number in numbers if number is not None}


def _reaches(rule: Mapping[str, Any], port: int, workload: Workload, spaces: set[str]) -> bool:
    if not on_port(rule, port):
        return False
    ends = peers(rule, "from")
    return not ends or any(_is_in(end, workload.namespace, spaces) for end in ends)


def _is_in(end: Mapping[str, Any], here: str, spaces: set[str]) -> bool:
    """Whether pods of one of the namespaces are meant; what cannot be told is taken to."""
    if "ipBlock" in end:
        return True
    if "namespaceSelector" not in end:
        return here in spaces
    selector = mapping(end.get("namespaceSelector"))
    wanted = asked(selector)
    return bool(selector.get("matchExpressions")) or set(wanted) != {_NAME} or wanted[_NAME] in spaces


RULES: tuple[Rule, ...] = (
    Rule(
        id="network-policy-serve",
        title="Somebody reaches the endpoint",
        why=(
            "KubeRay's networkPolicy, and policies like it, let in the cluster's own pods and nobody else. Requests come from elsewhere, to port 8000 of every pod that has a proxy, and "
            "KubeRay asks the head's proxy there whether it may have traffic."
        ),
        check=endpoints,
        sources=(
            "kuberay PR#5051",
            "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/network-policy.html",
        ),
    ),
    Rule(
        id="network-policy-monitor",
        title="Prometheus reaches what its monitors select",
        why="A monitor only tells Prometheus where to ask. Where a policy lets in the namespace's own pods alone, every target is down, and scalers and alerts see nothing.",
        check=monitors,
        sources=("linagora/openrag PR#979",),
    ),
)
