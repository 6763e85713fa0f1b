"""What logs and traces of a service come to in its engines: arguments and environment.

Sources: vllm 0.29.0, tracing/otel.py and envs.py. Not for Serve's own logs (manifests/serve_config.py).
"""

from __future__ import annotations

from typing import Any

from components.config import Service


def arguments(config: Service) -> dict[str, Any]:
    """Engine arguments."""
    args: dict[str, Any] = {}
    if config.tracing.otlp_endpoint is not None:
        args["otlp_traces_endpoint"] = config.tracing.otlp_endpoint
    if config.kind == "vllm" and not config.logs.access:
        args["disable_uvicorn_access_log"] = True  # under Ray, Serve's proxy writes that log
    return args


def environment(config: Service, model: str) -> dict[str, str]:
    """Environment of an engine; traces carry the name of its model."""
    env: dict[str, str] = {}
    if config.logs.level != "INFO":
        env["VLLM_LOGGING_LEVEL"] = config.logs.level
    if config.tracing.otlp_endpoint is not None:
        env["OTEL_SERVICE_NAME"] = model
        if config.tracing.protocol != "grpc":
            env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = config.tracing.protocol
    return env
