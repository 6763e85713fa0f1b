"""Objects around a service that somebody else wrote: each test breaks one thing, with a control beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.facts import Object, PodGroup, Stack, Workload, objects, stack
from policies.facts.wire import Resource

from .stacks import engine, found, l4, sentences, with_head, with_service, with_workers
from .stacks import stack as compliant

LABELS = {"app": "chat"}
OWN = {"from": [{"podSelector": {"matchLabels": LABELS}}]}
KUBERAY = {
    "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kuberay-system"}}}],
    "ports": [{"port": 8265}],
}
DNS = {"ports": [{"protocol": "UDP", "port": 53}]}
SERVE = {"ports": [{"port": 8000}]}


def thing(kind: str, spec: dict[str, Any], name: str = "extra", api: str = "v1", **metadata: Any) -> Object:
    return objects.read(
        {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default", **metadata}, "spec": spec}
    )


def policy(*ingress: dict[str, Any], egress: list[dict[str, Any]] | None = None, **selector: Any) -> Object:
    spec: dict[str, Any] = {"podSelector": selector or {"matchLabels": LABELS}, "ingress": list(ingress)}
    spec |= {"policyTypes": ["Ingress"]} if egress is None else {"policyTypes": ["Ingress", "Egress"], "egress": egress}
    return thing("NetworkPolicy", spec)


def labelled(*items: Object, **over: Any) -> Stack:
    """The compliant stack with pods labelled app: chat, and objects beside it."""
    given = with_workers(with_head(with_service(**over), labels=LABELS), labels=LABELS)
    return replace(given, objects=items)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (labelled(policy(OWN, KUBERAY, SERVE)), []),
        (labelled(policy({})), []),  # a rule without anything lets everything in
        (labelled(policy(OWN, SERVE)), [("network-policy-operator", "error")]),
        (labelled(policy(OWN, {"ports": [{"port": 8000, "endPort": 9000}]})), []),  # a range around the dashboard's
        (labelled(policy(KUBERAY)), []),  # other namespaces may hold its pods: not known
        (labelled(policy(SERVE, DNS)), [("network-policy-operator", "error"), ("network-policy-own-pods", "error")]),
        (labelled(policy(OWN, matchLabels={"app": "other"})), []),
        (labelled(policy(OWN), policy(KUBERAY)), []),  # policies add up
        (labelled(policy(OWN, KUBERAY, egress=[OWN | {"from": []}, DNS])), []),
        (
            labelled(policy(OWN, KUBERAY, egress=[{"to": OWN["from"], "ports": [{"port": 443}]}])),
            [("network-policy-egress", "error")],
        ),
        (
            labelled(policy(OWN, KUBERAY, egress=[{"to": OWN["from"]}, DNS]), autoscaling=True),
            [("network-policy-egress", "error")],
        ),
        (
            labelled(
                policy(OWN, KUBERAY, egress=[{"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}, DNS]), autoscaling=True
            ),
            [],
        ),
    ],
)
def test_policies_leave_what_a_cluster_needs(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert [each for each in found(given) if each[0].startswith("network-policy")] == expected


ALB_SPEC = {
    "ingressClassName": "alb",
    "rules": [
        {
            "http": {
                "paths": [{"path": "/v1", "backend": {"service": {"name": "chat-serve-svc", "port": {"number": 8000}}}}]
            }
        }
    ],
}
HTTPS = {"alb.ingress.kubernetes.io/listen-ports": '[{"HTTPS": 443}]'}


def test_a_load_balancer_is_a_client_by_address() -> None:
    front = thing("Ingress", ALB_SPEC, annotations=HTTPS)
    by_pods = {"from": [{"podSelector": {}}], "ports": [{"port": 8000}]}
    by_address = {"from": [{"ipBlock": {"cidr": "10.0.0.0/16"}}], "ports": [{"port": 8000}]}
    assert found(labelled(front, policy(OWN, KUBERAY, by_pods))) == [("network-policy-clients", "warning")]
    assert found(labelled(front, policy(OWN, KUBERAY, by_address))) == []
    assert found(labelled(front, policy(OWN, KUBERAY, SERVE))) == []


def budget(**spec: Any) -> Object:
    return thing("PodDisruptionBudget", {"selector": {"matchLabels": LABELS}, **spec})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (labelled(budget(minAvailable=1)), []),
        (labelled(budget(maxUnavailable=1)), [("disruption-ray-pods", "error")]),
        (labelled(budget(minAvailable="50%")), [("disruption-ray-pods", "error")]),
        (labelled(budget(minAvailable=3)), [("disruption-ends", "warning")]),
        (labelled(budget(maxUnavailable=0)), [("disruption-ends", "warning"), ("disruption-ray-pods", "error")]),
        (labelled(budget(maxUnavailable=1, selector={"matchLabels": {"app": "web"}})), []),
        (
            labelled(budget(maxUnavailable=1, selector={"matchLabels": {"ray.io/node-type": "worker"}})),
            [("disruption-ray-pods", "error")],
        ),
    ],
)
def test_a_budget_can_be_counted_and_lets_a_drain_end(given: Stack, expected: list[tuple[str, str]]) -> None:
    assert [each for each in found(given) if each[0].startswith("disruption")] == expected


def test_a_budget_of_a_deployment_may_be_a_part() -> None:
    given = Stack(workloads=(deployment(),), objects=(budget(maxUnavailable="25%"),))
    assert [each for each in found(given) if each[0].startswith("disruption")] == []


def deployment(replicas: int | None = 2, gpu: bool = True) -> Workload:
    """Plain vLLM as somebody else declares it."""
    limits = {"nvidia.com/gpu": "1"} if gpu else {}
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.29.0",
        "args": ["--model", "a/b"],
        "resources": {"limits": limits},
    }
    return objects.workload(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "chat", "namespace": "default"},
            "spec": {
                **({} if replicas is None else {"replicas": replicas}),
                "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}},
            },
        }
    )


def scaled(name: str = "scaler", low: int = 1, query: str = "sum(vllm:num_requests_waiting)", **spec: Any) -> Object:
    trigger = {"type": "prometheus", "metadata": {"serverAddress": "http://p:9090", "query": query, "threshold": "10"}}
    body = {
        "scaleTargetRef": {"name": "chat"},
        "minReplicaCount": low,
        "maxReplicaCount": 4,
        "triggers": [trigger],
        **spec,
    }
    return thing("ScaledObject", body, name, "keda.sh/v1alpha1")


def hpa(**spec: Any) -> Object:
    body = {"scaleTargetRef": {"kind": "Deployment", "name": "chat"}, "minReplicas": 1, "maxReplicas": 4, **spec}
    return thing("HorizontalPodAutoscaler", body, "hpa", "autoscaling/v2")


CPU = {"metrics": [{"type": "Resource", "resource": {"name": "cpu"}}]}
CRON = {"triggers": [{"type": "cron", "metadata": {"desiredReplicas": "1"}}]}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ((scaled(),), []),
        ((scaled(low=0),), [("scaler-zero", "error")]),
        ((scaled(low=0, query="sum(rate(envoy_http_downstream_rq_total[1m]))"),), []),
        ((scaled(low=0, query='sum(envoy_cluster_upstream_rq_active{cluster="vllm_chat"})'),), []),
        ((scaled(low=0, **CRON),), []),
        ((scaled(low=0, triggers=[{"type": "cpu"}]),), [("scaler-zero", "error")]),
        ((scaled(triggers=[{"type": "prometheus", "metadata": {"query": "x"}}]),), [("scaler-source", "error")]),
        ((scaled(maxReplicaCount=0),), [("scaler-bounds", "error")]),
        ((scaled(), hpa()), [("scaler-bounds", "error")]),
        ((hpa(),), []),
        ((hpa(minReplicas=0),), [("scaler-zero", "error")]),
        ((hpa(**CPU),), [("scaler-load", "warning")]),
    ],
)
def test_a_scaler_sees_the_load_and_comes_back(items: tuple[Object, ...], expected: list[tuple[str, str]]) -> None:
    given = Stack(workloads=(deployment(None),), objects=items)
    assert [each for each in found(given) if each[0].startswith("scaler")] == expected


def test_cpu_is_a_measure_of_an_engine_on_cpu() -> None:
    on_cpu = replace(deployment(None), engines=(engine(device="cpu"),))
    assert [each for each in found(Stack(workloads=(on_cpu,), objects=(hpa(**CPU),))) if each[0] == "scaler-load"] == []


def test_the_pack_reads_replicas_off_a_scaler() -> None:
    manifests = [deployment(None).manifest, scaled(low=2).manifest]
    given = [
        Resource(
            type=f"kubernetes:{m['apiVersion']}:{m['kind']}", name=m["kind"], urn=f"urn:{m['kind']}", props=dict(m)
        )
        for m in manifests
    ]
    (workload,) = stack.read(given).workloads
    assert (workload.groups[0].min, workload.groups[0].max, workload.engines[0].max_replicas) == (2, 4, 4)


def route(**over: Any) -> Object:
    spec = {
        "parentRefs": [{"name": "edge"}],
        "rules": [{"matches": [{"path": {"value": "/v1"}}], "backendRefs": [{"name": "chat-serve-svc", "port": 8000}]}],
    }
    return thing("HTTPRoute", {**spec, **over}, "route", "gateway.networking.k8s.io/v1")


def gateway(protocol: str) -> Object:
    spec = {
        "gatewayClassName": "envoy",
        "listeners": [{"name": "a", "port": 443, "protocol": protocol}],
        "infrastructure": {"parametersRef": {"kind": "EnvoyProxy", "name": "edge"}},
    }
    return thing("Gateway", spec, "edge", "gateway.networking.k8s.io/v1")


def proxy(scheme: str) -> Object:
    service_ = {"annotations": {"service.beta.kubernetes.io/aws-load-balancer-scheme": scheme}}
    spec = {"provider": {"kubernetes": {"envoyService": service_}}}
    return thing("EnvoyProxy", spec, "edge", "gateway.envoyproxy.io/v1alpha1")


def keys(kind: str, name: str) -> Object:
    spec = {"targetRefs": [{"kind": kind, "name": name}], "apiKeyAuth": {"credentialRefs": [{"name": "keys"}]}}
    return thing("SecurityPolicy", spec, "keys", "gateway.envoyproxy.io/v1alpha1")


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ((route(),), []),  # its Gateway is not seen
        ((route(), gateway("HTTPS")), []),
        ((route(), gateway("HTTP")), [("security-endpoint-tls", "warning")]),
        ((route(), gateway("HTTPS"), proxy("internal")), []),
        ((route(), gateway("HTTPS"), proxy("internet-facing")), [("security-endpoint-open", "warning")]),
        ((route(), gateway("HTTPS"), proxy("internet-facing"), keys("HTTPRoute", "route")), []),
        ((route(), gateway("HTTPS"), proxy("internet-facing"), keys("Gateway", "edge")), []),
        (
            (route(), gateway("HTTPS"), proxy("internet-facing"), keys("HTTPRoute", "other")),
            [("security-endpoint-open", "warning")],
        ),
        ((thing("Ingress", ALB_SPEC, annotations=HTTPS),), []),
        ((thing("Ingress", ALB_SPEC),), [("security-endpoint-tls", "warning")]),
        ((thing("Ingress", {**ALB_SPEC, "ingressClassName": "nginx", "tls": [{"secretName": "tls"}]}),), []),
        ((thing("Ingress", {**ALB_SPEC, "ingressClassName": "nginx"}),), [("security-endpoint-tls", "warning")]),
    ],
)
def test_a_published_endpoint_has_tls_and_asks_who_comes(
    items: tuple[Object, ...], expected: list[tuple[str, str]]
) -> None:
    assert found(replace(compliant(), objects=items, present=("gateway-helm",))) == expected


def test_a_load_balancer_before_vllm_with_a_key_is_open_beside_its_paths() -> None:
    work = deployment()
    group: PodGroup = replace(work.groups[0], env={"VLLM_API_KEY": "x"})
    spec = {"type": "LoadBalancer", "selector": {"app": "chat"}, "ports": [{"port": 8000}]}
    given = Stack(workloads=(replace(work, groups=(group,)),), objects=(thing("Service", spec),), pools=(l4(),))
    (sentence,) = sentences(given, "security-endpoint-public")
    assert "vLLM asks for its key only under /v1" in sentence
    bare = Stack(workloads=(work,), objects=(thing("Service", spec),), pools=(l4(),))
    (sentence,) = sentences(bare, "security-endpoint-public")
    assert "asks nobody for a key" in sentence


@pytest.mark.parametrize(("fresh", "severity"), [(True, "error"), (False, "warning")])
def test_a_kind_that_nothing_brings_is_found_before_the_api_server_says_so(fresh: bool, severity: str) -> None:
    monitor = thing("PodMonitor", {}, api="monitoring.coreos.com/v1")
    given = replace(compliant(), objects=(monitor,), fresh=fresh)
    assert found(given) == [("kind-installed", severity)]
    assert found(replace(given, present=("kube-prometheus-stack",))) == []
    assert found(replace(given, complete=False)) == []
