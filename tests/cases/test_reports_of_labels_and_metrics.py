"""Public reports about labels that no pool gives, metrics that no adapter serves, and gateways that know no pools: each broken, and mended."""

from __future__ import annotations

from typing import Any

import pytest

from policies.facts.wire import Resource

from .resources import case, objects, said, twins
from .test_reports_of_aws import POOL
from .test_reports_of_objects import ENGINE, HPA
from .test_reports_of_plugins_and_names import PICKED, release

_POD = "      enableServiceLinks: false\n"
PODS = ENGINE.replace(
    _POD,
    _POD + "      nodeSelector: {team: chat}\n      tolerations: [{key: nvidia.com/gpu, operator: Exists}]\n",
)
SELECTS = POOL.replace("  template:\n", "  template:\n    metadata: {labels: {team: chat}}\n", 1) + "---\n" + PODS
LABELS = (
    case("aws/karpenter-provider-aws#5073", "karpenter-words", SELECTS, ("nodeSelector: {team: chat}", "nodeSelector: {name: chat}"), severity="warning"),
    case("a label that the pool lost", "karpenter-words", SELECTS, ("    metadata: {labels: {team: chat}}\n    spec:\n      nodeC", "    spec:\n      nodeC"), severity="warning"),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "severity", "broken", "mended"), LABELS)
def test_gpu_pods_ask_for_labels_that_a_pool_gives(rule: str, severity: str, broken: str, mended: str) -> None:
    twins(rule, severity, objects(broken), objects(mended))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SELECTS.replace("nodeSelector: {team: chat}", "nodeSelector: {topology.kubernetes.io/zone: us-east-1a}"), id="a label of Kubernetes"),
        pytest.param(PODS, id="no pool is seen"),
    ],
)  # fmt: skip
def test_labels_that_others_may_give_are_fine(text: str) -> None:
    assert "karpenter-words" not in {rule for rule, _ in said(*objects(text))}


def adapter(name: dict[str, str], series: str = '{__name__=~"^vllm:num_requests_waiting$"}', **rules: Any) -> Resource:
    rule = {
        "seriesQuery": series,
        "name": name,
        "metricsQuery": "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
    }
    return release(
        "prometheus-adapter", "5.2.0", "monitoring", {"rules": {"default": False, "custom": [rule], **rules}}
    )


WAITING = objects(ENGINE + HPA.replace("name: vllm_requests", "name: vllm_num_requests_waiting"))
RIGHT = adapter({"matches": "", "as": "vllm_num_requests_waiting"})


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        pytest.param(adapter({"matches": "", "as": "vllm_requests_waiting"}), RIGHT, id="kubernetes-sigs/prometheus-adapter#673"),
        pytest.param(adapter({}), adapter({"matches": "^vllm:(.*)$", "as": "vllm_${1}"}), id="the name of the series itself"),
        pytest.param(adapter({"matches": "^vllm:(.*)$"}), adapter({"matches": "^vllm:(.*)$", "as": "vllm_$1"}), id="a part of it"),
    ],
)  # fmt: skip
def test_an_autoscaler_asks_for_what_the_adapter_serves(broken: Resource, mended: Resource) -> None:
    twins("metric-served", "warning", [broken, *WAITING], [mended, *WAITING])


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(adapter({}, default=True), id="the default rules serve every series"),
        pytest.param(adapter({}, '{__name__=~"^vllm:.*"}'), id="series that Prometheus knows"),
        pytest.param(adapter({}, 'vllm_num_requests_waiting{namespace!=""}'), id="a recording rule"),
    ],
)
def test_adapters_that_may_serve_it_are_fine(given: Resource) -> None:
    assert "metric-served" not in {rule for rule, _ in said(given, *WAITING)}


def gateway(chart: str, name: str, values: dict[str, Any]) -> list[Resource]:
    text = PICKED.replace("gatewayClassName: envoy", f"gatewayClassName: {name}")
    return [release(chart, "1.29.2", "gateways", values), *objects(text)]


@pytest.mark.parametrize(
    ("chart", "name", "values"),
    [
        ("istiod", "istio", {"pilot": {"env": {"ENABLE_GATEWAY_API_INFERENCE_EXTENSION": "true"}}}),
        ("kgateway", "kgateway", {"inferenceExtension": {"enabled": True}}),
        ("nginx-gateway-fabric", "nginx", {"nginxGateway": {"gwAPIInferenceExtension": {"enable": True}}}),
    ],
)
def test_a_gateway_in_front_of_a_pool_knows_pools(chart: str, name: str, values: dict[str, Any]) -> None:
    """kubernetes-sigs/gateway-api-inference-extension#1344."""
    twins("inference-gateway", "warning", gateway(chart, name, {}), gateway(chart, name, values))
    assert "inference-gateway" not in {rule for rule, _ in said(*gateway(chart, "other", {}))}
