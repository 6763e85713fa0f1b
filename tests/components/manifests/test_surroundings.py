"""What a service has beside its workload: as golden files, and what must hold of each kind of object."""

from __future__ import annotations

import json
import logging.config
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from components.config import ConfigError, deep_merge, parse
from components.manifests.pod_labels import SERVICE_LABEL
from components.plan import Planned, assemble
from tests.components.environments import WHOLE_GPU
from tests.components.shapes import SHAPES

PLAIN = {"kind": "vllm"}
MONITORING = {"monitoring": {"install": True}}


def planned(service: dict[str, Any], replicas: tuple[int, int] | None = None, **base: Any) -> Planned:
    """One L4 service with changes; `base` changes the environment."""
    if replicas is not None:
        low, high = replicas
        service = deep_merge(service, {"models": {"qwen": {"replicas": {"min": low, "max": high}}}})
    return assemble(parse(deep_merge(WHOLE_GPU, {"services": {"chat": service}, **base})))


def objects(of: Planned, kind: str) -> list[dict[str, Any]]:
    return [each for each in of.manifests["chat"] if each["kind"] == kind]


def said(of: Planned) -> set[tuple[str, str]]:
    return {(f.rule, f.severity) for f in of.plan.findings}


@pytest.mark.parametrize(
    "shape", ["plain_vllm_scaled_behind_an_ingress", "published_by_a_gateway_with_keys", "two_nodes"]
)
def test_the_surroundings_of_a_shape_are_as_reviewed(shape: str, snapshot: SnapshotAssertion) -> None:
    (made,) = assemble(parse(SHAPES[shape]), shape).manifests.values()
    assert "---\n".join(yaml.safe_dump(each, sort_keys=True, width=120) for each in made[1:]) == snapshot


def test_a_deployment_that_scales_states_no_number_of_pods() -> None:
    scaled, fixed = planned(PLAIN, (1, 3), software=MONITORING), planned(PLAIN, (2, 2))
    assert "replicas" not in scaled.manifests["chat"][0]["spec"]
    assert objects(scaled, "ScaledObject")[0]["spec"]["maxReplicaCount"] == 3
    assert fixed.manifests["chat"][0]["spec"]["replicas"] == 2
    assert objects(fixed, "ScaledObject") == []


def test_rules_and_plan_see_the_replicas_of_the_scaler() -> None:
    scaled = planned(PLAIN, (1, 3), software=MONITORING)
    (workload,) = scaled.stack.workloads
    assert (workload.groups[0].min, workload.groups[0].max) == (1, 3)
    assert (workload.engines[0].min_replicas, workload.engines[0].max_replicas) == (1, 3)
    assert (scaled.plan.totals.gpus.min, scaled.plan.totals.gpus.max) == (1, 3)
    assert said(planned(PLAIN, (1, 9), software=MONITORING)) == {("capacity-pool", "warning")}  # the pool has 4 nodes


def test_keda_comes_with_the_first_service_that_scales_by_it() -> None:
    assert "keda" in {release.name for release in planned(PLAIN, (1, 3), software=MONITORING).stack.releases}
    assert "keda" not in {
        release.name for release in planned({**PLAIN, "scaling": {"by": "hpa", "metric": "m"}}, (1, 3)).stack.releases
    }
    assert "keda" not in {release.name for release in planned({}, (1, 3)).stack.releases}  # Ray scales by itself


def test_an_hpa_aims_at_requests_in_flight_of_a_pod() -> None:
    made = planned({**PLAIN, "scaling": {"by": "hpa", "metric": "vllm_requests_in_flight"}}, (1, 3))
    (hpa,) = objects(made, "HorizontalPodAutoscaler")
    assert hpa["spec"]["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    assert hpa["spec"]["metrics"] == [
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": "vllm_requests_in_flight"},
                "target": {"type": "AverageValue", "averageValue": "48"},
            },
        }
    ]
    assert said(made) == set()


@pytest.mark.parametrize(
    ("service", "replicas", "software", "expected"),
    [
        (PLAIN, (1, 3), {}, {("scaler-source", "error")}),
        ({**PLAIN, "scaling": {"prometheus": "http://prometheus:9090"}}, (1, 3), {}, set()),
        (PLAIN, (0, 3), MONITORING, {("scaler-zero", "error")}),
        ({**PLAIN, "scaling": {"wake_query": "sum(envoy_cluster_upstream_rq_active)"}}, (0, 3), MONITORING, set()),
        ({**PLAIN, "scaling": {"by": "hpa", "metric": "m"}}, (0, 3), {}, {("scaler-zero", "error")}),
        ({**PLAIN, "scaling": {"by": "hpa", "metric": "cpu"}}, (1, 3), {}, {("scaler-load", "warning")}),
    ],
)
def test_what_scaling_needs(
    service: dict[str, Any], replicas: tuple[int, int], software: dict[str, Any], expected: set[tuple[str, str]]
) -> None:
    assert said(planned(service, replicas, software=software)) == expected


def test_the_services_policy_opens_the_endpoint_and_the_heads_opens_kuberay_alone() -> None:
    every, head = objects(planned({}), "NetworkPolicy")
    own = {"podSelector": {"matchLabels": {SERVICE_LABEL: "chat"}}}
    assert every["spec"]["ingress"][0] == {"from": [own]}
    assert every["spec"]["ingress"][1] == {"ports": [{"protocol": "TCP", "port": 8000}]}
    (rule,) = head["spec"]["ingress"]
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kuberay-system"}
    open_ports = {
        port["port"] for policy in (every, head) for r in policy["spec"]["ingress"] for port in r.get("ports", ())
    }
    assert not open_ports & {6379, 10001}
    assert every["spec"]["policyTypes"] == ["Ingress"]


def test_every_pod_carries_the_label_that_policies_select() -> None:
    cluster = planned({}).manifests["chat"][0]["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["template"]["metadata"]["labels"][SERVICE_LABEL] == "chat"
    pods = planned(PLAIN).manifests["chat"][0]["spec"]["template"]
    assert pods["metadata"]["labels"][SERVICE_LABEL] == "chat"


def test_kuberay_of_another_team_is_let_in_from_any_namespace() -> None:
    (_, head) = objects(planned({}, software={"kuberay": {"install": False}}), "NetworkPolicy")
    assert head["spec"]["ingress"][0]["from"][0]["namespaceSelector"] == {}


def test_no_policy_is_made_where_none_is_wanted() -> None:
    assert objects(planned({"network": {"enabled": False}}), "NetworkPolicy") == []


def test_budgets_of_ray_pods_are_numbers_and_leave_room_for_one_replica() -> None:
    (budget,) = objects(planned({}, (3, 3)), "PodDisruptionBudget")
    assert budget["spec"]["minAvailable"] == 2
    assert objects(planned({}, (1, 1)), "PodDisruptionBudget") == []
    assert objects(planned({"disruption_budget": False}, (3, 3)), "PodDisruptionBudget") == []
    assert said(planned({}, (2, 2))) == set()


def test_a_multi_host_replica_goes_as_a_whole() -> None:
    shape = deep_merge(
        SHAPES["two_nodes"], {"services": {"huge": {"models": {"llama": {"replicas": {"min": 2, "max": 2}}}}}}
    )
    made = assemble(parse(shape)).manifests["huge"]
    (budget,) = [each for each in made if each["kind"] == "PodDisruptionBudget"]
    assert budget["spec"]["minAvailable"] == 2  # of four pods, two a replica


def test_the_key_of_the_engine_is_a_reference_in_the_environment() -> None:
    container = planned({**PLAIN, "api_keys": {"engine": {"secret": "keys", "key": "chat"}}}).manifests["chat"][0][
        "spec"
    ]["template"]["spec"]["containers"][0]
    assert {"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "chat"}}} in container["env"]
    assert not any("api-key" in word for word in container["args"])


def test_a_load_balancer_of_plain_vllm_is_internal_as_that_of_ray_is() -> None:
    scheme = "service.beta.kubernetes.io/aws-load-balancer-scheme"
    internal = planned({**PLAIN, "expose": {"type": "LoadBalancer"}})
    public = planned({**PLAIN, "expose": {"type": "LoadBalancer", "internal": False}})
    assert objects(internal, "Service")[0]["metadata"]["annotations"][scheme] == "internal"
    assert said(internal) == set()
    assert said(public) == {("security-endpoint-public", "warning")}


@pytest.mark.parametrize(
    ("expose", "keys", "expected"),
    [
        ({"ingress": {"host": "a.example.com", "tls_secret": "tls"}}, {}, set()),
        ({"ingress": {"host": "a.example.com"}}, {}, {("security-endpoint-tls", "warning")}),
        ({"ingress": {"host": "a.example.com", "class_name": "alb"}}, {}, set()),
        (
            {"ingress": {"host": "a.example.com", "class_name": "alb", "internal": False}},
            {},
            {("security-endpoint-open", "warning")},
        ),
        (
            {
                "ingress": {
                    "host": "a.example.com",
                    "class_name": "alb",
                    "internal": False,
                    "source_ranges": ["192.0.2.0/24"],
                }
            },
            {},
            set(),
        ),
        (
            {"ingress": {"host": "a.example.com", "class_name": "alb", "internal": False}},
            {"engine": {"secret": "a", "key": "b"}},
            set(),
        ),
        (
            {"ingress": {"host": "a.example.com", "class_name": "alb", "paths": ["/"]}},
            {"engine": {"secret": "a", "key": "b"}},
            {("security-endpoint-paths", "warning")},
        ),
        (
            {
                "ingress": {
                    "host": "a.example.com",
                    "class_name": "alb",
                    "internal": False,
                    "annotations": {"alb.ingress.kubernetes.io/auth-type": "oidc"},
                }
            },
            {},
            set(),
        ),
        ({"gateway": {"host": "a.example.com", "tls_secret": "tls"}}, {}, set()),
        ({"gateway": {"host": "a.example.com", "gateway": "edge/public"}}, {}, set()),
        (
            {"gateway": {"host": "a.example.com", "tls_secret": "tls", "load_balancer": "internet"}},
            {},
            {("security-endpoint-open", "warning")},
        ),
        (
            {"gateway": {"host": "a.example.com", "tls_secret": "tls", "load_balancer": "internet"}},
            {"teams": ["keys"]},
            set(),
        ),
    ],
)
def test_a_published_endpoint_is_encrypted_and_asks_who_comes(
    expose: dict[str, Any], keys: dict[str, Any], expected: set[tuple[str, str]]
) -> None:
    service = {**PLAIN, "expose": expose, "api_keys": keys}
    assert said(planned(service, software={"gateway": {"class_name": "envoy"}})) == expected


@pytest.mark.parametrize(
    ("service", "software", "expected"),
    [
        ({"metrics": {"pod_monitor": True}}, {}, {("kind-installed", "warning")}),
        ({"metrics": {"pod_monitor": True}}, {"monitoring": {"install": False}}, set()),
        ({"metrics": {"pod_monitor": True}}, MONITORING, set()),
        (
            {"expose": {"gateway": {"host": "a.example.com", "tls_secret": "tls"}}},
            {},
            {("kind-installed", "warning"), ("kind-gateway-class", "error")},
        ),
    ],
)
def test_kinds_of_other_software_are_said_to_be_there(
    service: dict[str, Any], software: dict[str, Any], expected: set[tuple[str, str]]
) -> None:
    assert said(planned(service, software=software)) == expected


def test_on_a_cluster_that_is_made_here_nothing_else_brings_a_kind() -> None:
    service = deep_merge(WHOLE_GPU["services"]["chat"], {"pool": "gpu", "metrics": {"pod_monitor": True}})
    core = {"instance_types": ["m7i.2xlarge"], "min": 2, "max": 4}
    made = assemble(
        parse(
            {
                "cluster": {"kind": "aws", "region": "us-east-1"},
                "image": "registry.example.com/llm-serve",
                "node_pools": {"core": core, "gpu": {"instance_types": ["g6.2xlarge"], "max": 3}},
                "services": {"chat": service},
            }
        )
    )
    (finding,) = [f for f in made.plan.findings if f.rule == "kind-installed"]
    assert finding.severity == "error"
    assert finding.sentence() == (
        "service 'chat': PodMonitor chat: PodMonitor is a kind of the Prometheus Operator, which this stack does not install and which "
        "is not said to be there; set software.monitoring.install: true, or false where another team has installed it [kind-installed]"
    )


def test_the_stacks_own_prometheus_scrapes_a_service_once() -> None:
    assert objects(planned({"metrics": {"pod_monitor": True}}, software=MONITORING), "PodMonitor") == []


@pytest.mark.parametrize("kind", ["ray_service", "vllm"])
def test_json_logs_and_traces_reach_every_engine(kind: str) -> None:
    made = planned({"kind": kind, "logs": {"format": "json"}, "tracing": {"otlp_endpoint": "http://otel:4317"}})
    workload = made.manifests["chat"][0]["spec"]
    ray = kind == "ray_service"
    template = workload["rayClusterConfig"]["workerGroupSpecs"][0]["template"] if ray else workload["template"]
    container = template["spec"]["containers"][0]
    (path,) = [each["value"] for each in container["env"] if each["name"] == "VLLM_LOGGING_CONFIG_PATH"]
    (mount,) = [each for each in container["volumeMounts"] if path.startswith(each["mountPath"] + "/")]
    (volume,) = [each for each in template["spec"]["volumes"] if each["name"] == mount["name"]]
    (config,) = objects(made, "ConfigMap")
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    logging.config.dictConfig(json.loads(config["data"][path.rsplit("/", 1)[1]]) | {"formatters": {"json": {}}})
    assert made.stack.workloads[0].engines[0].engine_args["otlp_traces_endpoint"] == "http://otel:4317"
    assert said(made) == set()


@pytest.mark.parametrize(
    ("service", "message"),
    [
        (
            {"tracing": {"otlp_endpoint": "https://otel:4317"}},
            "service 'chat': tracing: vLLM's gRPC exporter never uses TLS (insecure=True in vllm/tracing/otel.py), and the endpoint is "
            "https; give protocol: http/protobuf with the path /v1/traces, or an http endpoint",
        ),
        (
            {"tracing": {"otlp_endpoint": "http://otel:4318", "protocol": "http/protobuf"}},
            "service 'chat': tracing: otlp_endpoint 'http://otel:4318' has no path, and vLLM sends to exactly this address; OTLP "
            "collectors take traces at /v1/traces",
        ),
        (
            {"api_keys": {"engine": {"secret": "a", "key": "b"}}},
            "service 'chat': api_keys.engine is for kind vllm and kind is ray_service: Ray Serve LLM asks nobody for a key; "
            "give api_keys.teams with expose.gateway, which checks them in front of it",
        ),
        (
            {"api_keys": {"teams": ["keys"]}},
            "service 'chat': api_keys.teams are checked by a Gateway and there is none; give expose.gateway",
        ),
        (
            {**PLAIN, "scaling": {"by": "hpa"}},
            "service 'chat': scaling: by: hpa needs metric, the name of a pod metric in the custom metrics API (prometheus-adapter), "
            "or cpu for an engine on CPU; by: keda needs no adapter",
        ),
        (
            {"network": {"clients": [{}]}},
            "service 'chat': network.clients.0: an empty entry is everybody; give namespace, pods or cidr, or leave the list out",
        ),
        (
            {"expose": {"gateway": {"host": "a.example.com"}}},
            "service 'chat': expose.gateway: the Gateway that is made needs tls_secret; or give gateway, one that is there",
        ),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_read(service: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(service)
    assert caught.value.problems == [message]
