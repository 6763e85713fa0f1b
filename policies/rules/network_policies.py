"""NetworkPolicies that a service can live with: KubeRay reaches the head, pods reach each other, clients reach the endpoint.

Not for who may not (exposure.py), or for security groups (network.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Object, Stack
from policies.facts.quantities import items, mapping
from policies.finding import Problem, Rule, error, warning

from ._policies import closed, on_port, peers
from ._selectors import labels, matches
from .serve_ports import listening

DASHBOARD, DNS = 8265, 53


def operator(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        head = workload.head
        if head is None or workload.kind not in ("RayService", "RayJob"):
            continue
        closing, rules = closed(stack, workload, head, "ingress")
        open_to = [
            peer
            for rule in rules
            if on_port(rule, DASHBOARD)
            for peer in (peers(rule, "from") or [{"namespaceSelector": {}}])
        ]
        if closing and not any("namespaceSelector" in peer or "ipBlock" in peer for peer in open_to):
            yield error(
                closing[0],
                f"it closes the head's dashboard port {DASHBOARD} to every other namespace, KubeRay's too: {workload.where} is never ready, "
                "since the operator deploys and watches Serve through it",
                "let pods with label app.kubernetes.io/component: kuberay-operator in (network.enabled writes that rule)",
            )


def own_pods(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        head = workload.head
        if head is None or not workload.groups:
            continue
        for group, other in ((head, workload.groups[0]), (workload.groups[0], head)):
            closing, rules = closed(stack, workload, group, "ingress")
            # a selector of either half is meant for the cluster: labels may be unknown until they are made
            either = (labels(workload, group), labels(workload, other))
            let_in = any(not rule.get("ports") and _lets(rule, "from", each) for rule in rules for each in either)
            if closing and not let_in and not any(_partly_unknown(rule) for rule in rules):
                which = "head" if group is head else "workers"
                yield error(
                    closing[0],
                    f"it closes ports of the {which} of {workload.where} to the other pods of the cluster: raylets, object stores and NCCL "
                    "talk on ports that are chosen at start",
                    "let the cluster's own pods in on every port (network.enabled writes that rule)",
                )
                break


def _lets(rule: Mapping[str, Any], key: str, known: Mapping[str, str]) -> bool:
    ends = peers(rule, key)
    if not ends:
        return True
    return any("podSelector" in p and "ipBlock" not in p and matches(p.get("podSelector"), known) for p in ends)


def _partly_unknown(rule: Mapping[str, Any]) -> bool:
    """Peers by labels that KubeRay gives at run time (the cluster's name), by expressions, by namespaces or by addresses."""
    for peer in peers(rule, "from"):
        selector = mapping(peer.get("podSelector"))
        if "namespaceSelector" in peer or "ipBlock" in peer or selector.get("matchExpressions"):
            return True
        if "ray.io/cluster" in mapping(selector.get("matchLabels")):
            return True
    return False


def egress(stack: Stack) -> Iterator[Problem]:
    for workload in stack.workloads:
        pods = workload.head or (workload.groups[0] if workload.groups else None)
        if pods is None:
            continue
        closing, rules = closed(stack, workload, pods, "egress")
        if not closing:
            continue
        if not any(on_port(rule, DNS) for rule in rules):
            yield error(
                closing[0],
                f"pods of {workload.where} may not ask DNS: workers find the head, and every pod its model, by name",
                "allow ports 53 UDP and TCP (network.egress does)",
            )
        # addresses, or everything but the DNS port: what NetworkPolicy can say of an API server, which is no pod
        reaches = any("ipBlock" in peer for rule in rules for peer in peers(rule, "to"))
        reaches = reaches or any(not rule.get("to") and on_port(rule, 443) for rule in rules)
        if workload.autoscaling and workload.head is not None and not reaches:
            yield error(
                closing[0],
                f"the Ray autoscaler in the head of {workload.where} may not reach the API server, so no worker is ever added",
                "add its address to network.egress: {cidr: <address>/32} of `kubectl get endpointslices -n default`",
            )


def ports(stack: Stack) -> Iterator[Problem]:
    """Plain engines that are closed, and opened on other ports than the one that they listen on."""
    for workload in stack.workloads:
        if workload.by_kuberay or not workload.engines or not workload.groups:
            continue
        group = workload.groups[0]
        port = listening(group)
        closing, rules = closed(stack, workload, group, "ingress")
        if port is None or not closing or not rules or any(on_port(rule, port) for rule in rules):
            continue
        named = {str(mapping(p).get("port")) for rule in rules for p in items(rule.get("ports"))}
        if all(name.isdigit() for name in named):
            yield error(
                closing[0],
                f"it lets connections in on {', '.join(sorted(named))}, and {workload.where} listens on {port}: no request arrives",
                f"allow port {port}, the pods' own and not the Service's",
            )


def clients(stack: Stack) -> Iterator[Problem]:
    """An endpoint behind a load balancer: its connections come from addresses and from no pod."""
    balanced = {(o.namespace, _backend(o)): o for o in stack.objects if _by_addresses(o)}
    for workload in stack.workloads:
        service = mapping(workload.serve_service)
        behind = mapping(service.get("spec")).get("type") == "LoadBalancer" or (
            (workload.namespace, f"{workload.name}-serve-svc") in balanced
        )
        if not behind or not workload.groups:
            continue
        closing, rules = closed(stack, workload, workload.groups[0], "ingress")
        serving = [rule for rule in rules if rule.get("ports") and on_port(rule, 8000)]
        if (
            closing
            and serving
            and not any(not peers(r, "from") or any("ipBlock" in p for p in peers(r, "from")) for r in serving)
        ):
            yield warning(
                closing[0],
                f"{workload.where} is behind a load balancer, whose connections come from addresses, and only pods are let in: its targets "
                "are never healthy",
                "add the load balancer's subnets to network.clients: {cidr: ...}",
            )


def _by_addresses(item: Object) -> bool:
    spec = item.spec
    if item.kind == "Service":
        return spec.get("type") == "LoadBalancer"
    return item.kind == "Ingress" and spec.get("ingressClassName") == "alb"


def _backend(item: Object) -> str:
    """Name of the Service that an Ingress leads to; of a Service itself."""
    if item.kind == "Service":
        return item.name
    rule = mapping(next(iter(items(item.spec.get("rules"))), {}))
    path = mapping(next(iter(items(mapping(rule.get("http")).get("paths"))), {}))
    return str(mapping(mapping(path.get("backend")).get("service")).get("name", ""))


RULES: tuple[Rule, ...] = (
    Rule(
        id="network-policy-port",
        title="A policy opens the port on which the engine listens",
        why="Ports of a NetworkPolicy are those of pods. One that opens the Service's port, or another server's, closes the engine.",
        check=ports,
        sources=("https://kubernetes.io/docs/concepts/services-networking/network-policies/",),
    ),
    Rule(
        id="network-policy-operator",
        title="KubeRay reaches the head",
        why=(
            "The operator submits Serve's config to the dashboard and asks it for the state of every application and job. A policy for the head that forgets its namespace leaves the "
            "service waiting without an error of its own."
        ),
        check=operator,
        sources=("kuberay: controllers/ray/rayservice_controller.go", "kuberay#4638"),
    ),
    Rule(
        id="network-policy-own-pods",
        title="Pods of one cluster reach each other",
        why="GCS, raylet, object manager, worker and NCCL ports are many and partly random, so a policy by ports between the pods of a cluster cuts some of them.",
        check=own_pods,
        sources=(
            "https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations",
            "kuberay: config/samples/ray-cluster.network-policy-deny-all.yaml",
        ),
    ),
    Rule(
        id="network-policy-egress",
        title="Closed egress leaves DNS and the API server",
        why=(
            "Workers find the head by its Service's name and the autoscaler's sidecar writes to the API server. Neither is allowed by a policy that lists model stores alone, and the "
            "API server is no pod that a label could select."
        ),
        check=egress,
        sources=("kuberay: config/samples/ray-cluster.network-policy-deny-all.yaml", "kuberay#4638"),
    ),
    Rule(
        id="network-policy-clients",
        title="A load balancer's addresses are clients",
        why="Load balancers with target type ip connect from their own addresses in the VPC's subnets, which no pod or namespace selector matches.",
        check=clients,
        sources=("https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/service/nlb/",),
    ),
)
