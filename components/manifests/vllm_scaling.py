"""How plain vLLM scales: a KEDA ScaledObject on requests in flight, or a HorizontalPodAutoscaler. Pure.

Sources: KEDA 2.20.2 (charts/keda, crd-scaledobjects.yaml; docs of the Prometheus scaler); autoscaling/v2; vLLM's metrics
vllm:num_requests_running and vllm:num_requests_waiting (docs/usage/metrics.md).
Not for Ray: Ray Serve scales replicas and Ray's autoscaler pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components import versions
from components.config import Environment
from components.derive import engines
from components.derive.spec import EngineSpec, ServiceSpec
from components.manifests import monitoring
from policies.facts import NodePool

POLL_SECONDS = 15
# An HPA looks back an hour at most (k8s.io/api/autoscaling/v2, stabilizationWindowSeconds).
LONGEST_WINDOW_SECONDS = 3600


def scales(spec: ServiceSpec) -> bool:
    """Whether the number of pods of a plain vLLM changes with its load; then nothing else may state it."""
    return (
        spec.config.kind == "vllm"
        and spec.autoscaling
        and any(e.min_replicas != e.max_replicas for e in spec.engines[:1])
    )


def keda_needed(env: Environment, pools: Sequence[NodePool]) -> bool:
    """Whether a service scales by KEDA."""
    return any(
        service.kind == "vllm"
        and service.scaling.by == "keda"
        and service.autoscaling.enabled is not False
        and any(model.replicas.min != model.replicas.max for model in service.models.values())
        for service in env.services.values()
    )


def keda_values(env: Environment, pools: Sequence[NodePool]) -> dict[str, Any]:
    """Helm values: the chart's own, with metrics of the operator where something scrapes them."""
    scraped = monitoring.installed(env)
    return {"prometheus": {"operator": {"enabled": scraped, "podMonitor": {"enabled": scraped}}}} if scraped else {}


def objects(spec: ServiceSpec) -> list[dict[str, Any]]:
    """The scaler of the Deployment; none for a fixed number of pods."""
    if not scales(spec):
        return []
    engine = spec.engines[0]
    config = engine.config
    scaled = engines.scaling(config.replicas, engine.engine_args, config.device, engine.cold_seconds)
    options = scaled["autoscaling_config"]
    metadata = {"name": spec.name, "namespace": spec.config.namespace, "labels": {"app.kubernetes.io/name": spec.name}}
    if spec.config.scaling.by == "hpa":
        return [_hpa(spec, engine, options, metadata)]
    return [_scaled_object(spec, engine, options, metadata)]


def _hpa(spec: ServiceSpec, engine: EngineSpec, options: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    scaling = spec.config.scaling
    metric: dict[str, Any]
    if scaling.metric == "cpu":
        target = {"type": "Utilization", "averageUtilization": scaling.cpu_percent}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    else:
        target = {"type": "AverageValue", "averageValue": _amount(options["target_ongoing_requests"])}
        metric = {"type": "Pods", "pods": {"metric": {"name": scaling.metric}, "target": target}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": spec.name},
            "minReplicas": engine.min_replicas,
            "maxReplicas": engine.max_replicas,
            "metrics": [metric],
            "behavior": _behavior(options),
        },
    }


def _scaled_object(
    spec: ServiceSpec, engine: EngineSpec, options: dict[str, Any], metadata: dict[str, Any]
) -> dict[str, Any]:
    target = _amount(options["target_ongoing_requests"])
    queries = [_in_flight(spec)]
    if engine.min_replicas == 0 and spec.config.scaling.wake_query is not None:
        queries.append(spec.config.scaling.wake_query)
    trigger = {"serverAddress": _prometheus(spec), "threshold": target}
    triggers = [
        {"type": "prometheus", "metricType": "AverageValue", "metadata": {**trigger, "query": query}}
        for query in queries
    ]
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": metadata,
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": spec.name},
            "minReplicaCount": engine.min_replicas,
            "maxReplicaCount": engine.max_replicas,
            "pollingInterval": POLL_SECONDS,
            "cooldownPeriod": round(options.get("downscale_to_zero_delay_s", options["downscale_delay_s"])),
            # Without Prometheus nothing is known of the load: pods stay, and never fewer than serve at rest.
            "fallback": {
                "behavior": "currentReplicasIfHigher",
                "failureThreshold": 4,
                "replicas": max(1, engine.min_replicas),
            },
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(options)}},
            "triggers": triggers,
        },
    }


def _in_flight(spec: ServiceSpec) -> str:
    """Requests that run and wait in the pods of the service. Names of pods: <Deployment>-<hash>-<suffix>."""
    pods = f'namespace="{spec.config.namespace}",pod=~"{spec.name}-[a-z0-9]+-[a-z0-9]+"'
    return " + ".join(f"sum(vllm:num_requests_{state}{{{pods}}})" for state in ("running", "waiting"))


def _prometheus(spec: ServiceSpec) -> str:
    """Stated, else the stack's own (its chart names the Service after the release); empty where there is none: a rule says so."""
    stated = spec.config.scaling.prometheus
    if stated is not None or not monitoring.installed(spec.environment):
        return stated or ""
    chart = versions.MONITORING
    return f"http://{chart.name}-prometheus.{chart.namespace}.svc:9090"


def _behavior(options: dict[str, Any]) -> dict[str, Any]:
    """Up at once by one pod or by half, down one pod at a time after calm: a new pod loads its model for minutes."""

    def window(key: str) -> int:
        return min(LONGEST_WINDOW_SECONDS, round(float(options[key])))

    return {
        "scaleUp": {
            "stabilizationWindowSeconds": window("upscale_delay_s"),
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 1, "periodSeconds": 60},
                {"type": "Percent", "value": 50, "periodSeconds": 60},
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": window("downscale_delay_s"),
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
        },
    }


def _amount(number: float) -> str:
    return f"{number:g}"
