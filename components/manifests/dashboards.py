"""Grafana dashboards for Ray, Serve LLM with vLLM, and DCGM, as small generated JSON in ConfigMaps. Pure.

Metric names. Ray: ray_* of python/ray/_private/metrics_agent and ray-core-metrics (Ray 2.60). Serve: ray_serve_*. vLLM under
Ray Serve LLM: vLLM's own names with the prefix ray_ and ":" as "_" (log_engine_metrics, on by default); plain vLLM: vllm:*.
DCGM: DCGM_FI_* of dcgm-exporter's default-counters.csv (4.6.0-4.8.3).
Not for: who loads them (Grafana's sidecar finds the label grafana_dashboard).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

LABEL = "grafana_dashboard"
COLUMNS = 2
WIDTH, HEIGHT = 24 // COLUMNS, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: a question and the query that answers it. unit: Grafana's name (short, percentunit, s, bytes, watt, celsius)."""

    title: str
    query: str
    legend: str
    unit: str = "short"


def _rate(metric: str) -> str:
    return f"rate({metric}[5m])"


def _quantile(quantile: float, metric: str, by: str) -> str:
    return f"histogram_quantile({quantile}, sum by (le, {by}) (rate({metric}_bucket[5m])))"


RAY = (
    Panel("Nodes alive", "sum by (ray_io_cluster) (ray_cluster_active_nodes)", "{{ray_io_cluster}}"),
    Panel("Nodes pending", "sum by (ray_io_cluster) (ray_cluster_pending_nodes)", "{{ray_io_cluster}}"),
    Panel(
        "CPU use of nodes",
        "avg by (ray_io_cluster) (ray_node_cpu_utilization) / 100",
        "{{ray_io_cluster}}",
        "percentunit",
    ),
    Panel("Memory in use of nodes", "sum by (ray_io_cluster) (ray_node_mem_used)", "{{ray_io_cluster}}", "bytes"),
    Panel(
        "GPU use of nodes",
        "avg by (ray_io_cluster) (ray_node_gpus_utilization) / 100",
        "{{ray_io_cluster}}",
        "percentunit",
    ),
    Panel("Object store in use", "sum by (ray_io_cluster) (ray_object_store_memory)", "{{ray_io_cluster}}", "bytes"),
)
_VLLM = "model_name"
SERVE_LLM = (
    Panel(
        "Requests a second",
        f"sum by (application) ({_rate('ray_serve_num_http_requests_total')})",
        "{{application}}",
        "reqps",
    ),
    Panel(
        "Errors a second",
        f"sum by (application, error_code) ({_rate('ray_serve_num_http_error_requests_total')})",
        "{{application}} {{error_code}}",
        "reqps",
    ),
    Panel("Healthy replicas", "sum by (deployment) (ray_serve_deployment_replica_healthy)", "{{deployment}}"),
    Panel(
        "Requests in the queue of the router",
        "sum by (deployment) (ray_serve_deployment_queued_queries)",
        "{{deployment}}",
    ),
    Panel(
        "Time to first token, p95",
        _quantile(0.95, "ray_vllm_time_to_first_token_seconds", _VLLM),
        "{{model_name}}",
        "s",
    ),
    Panel(
        "Time between tokens, p95",
        _quantile(0.95, "ray_vllm_inter_token_latency_seconds", _VLLM),
        "{{model_name}}",
        "s",
    ),
    Panel("Request time, p95", _quantile(0.95, "ray_vllm_e2e_request_latency_seconds", _VLLM), "{{model_name}}", "s"),
    Panel(
        "Tokens generated a second",
        f"sum by (model_name) ({_rate('ray_vllm_generation_tokens_total')})",
        "{{model_name}}",
    ),
    Panel("KV cache in use", "max by (model_name) (ray_vllm_kv_cache_usage_perc)", "{{model_name}}", "percentunit"),
    Panel("Requests running", "sum by (model_name) (ray_vllm_num_requests_running)", "{{model_name}}"),
    Panel("Requests waiting", "sum by (model_name) (ray_vllm_num_requests_waiting)", "{{model_name}}"),
    Panel("Preemptions a second", f"sum by (model_name) ({_rate('ray_vllm_num_preemptions_total')})", "{{model_name}}"),
)
VLLM = tuple(
    Panel(p.title, p.query.replace("ray_vllm_", "vllm:"), p.legend, p.unit) for p in SERVE_LLM if "ray_vllm_" in p.query
)
_GPU = "{{Hostname}} GPU {{gpu}}"
DCGM = (
    Panel("GPU use", "avg by (Hostname, gpu) (DCGM_FI_DEV_GPU_UTIL) / 100", _GPU, "percentunit"),
    Panel("Tensor cores active", "avg by (Hostname, gpu) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)", _GPU, "percentunit"),
    Panel("GPU memory in use", "sum by (Hostname, gpu) (DCGM_FI_DEV_FB_USED) * 1048576", _GPU, "bytes"),
    Panel("GPU memory free", "sum by (Hostname, gpu) (DCGM_FI_DEV_FB_FREE) * 1048576", _GPU, "bytes"),
    Panel("Temperature", "max by (Hostname, gpu) (DCGM_FI_DEV_GPU_TEMP)", _GPU, "celsius"),
    Panel("Power", "sum by (Hostname, gpu) (DCGM_FI_DEV_POWER_USAGE)", _GPU, "watt"),
    Panel("XID errors (last code)", "max by (Hostname, gpu) (DCGM_FI_DEV_XID_ERRORS)", _GPU),
    Panel("NVLink traffic", f"sum by (Hostname, gpu) ({_rate('DCGM_FI_PROF_NVLINK_TX_BYTES')})", _GPU, "Bps"),
)

DASHBOARDS: dict[str, tuple[str, tuple[Panel, ...]]] = {
    "dcgm": ("GPUs (DCGM)", DCGM),
    "ray": ("Ray clusters", RAY),
    "serve-llm": ("Ray Serve LLM and vLLM", SERVE_LLM),
    "vllm": ("vLLM without Ray", VLLM),
}


def dashboard(uid: str, title: str, panels: tuple[Panel, ...]) -> dict[str, Any]:
    """Grafana's JSON model of one dashboard: graphs side by side, any Prometheus data source."""
    return {
        "uid": f"llm-serving-{uid}",
        "title": title,
        "tags": ["llm-serving"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": source,
        "gridPos": {"x": number % COLUMNS * WIDTH, "y": number // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": panel.query, "legendFormat": panel.legend}],
    }


def config_maps(namespace: str) -> list[dict[str, Any]]:
    """One ConfigMap a dashboard, with the label Grafana's sidecar looks for."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"llm-serving-dashboard-{uid}",
                "namespace": namespace,
                "labels": {LABEL: "1"},
            },
            "data": {f"{uid}.json": json.dumps(dashboard(uid, title, panels), indent=1, sort_keys=True)},
        }
        for uid, (title, panels) in sorted(DASHBOARDS.items())
    ]
