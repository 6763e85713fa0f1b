"""Logs and traces of a service. Not for metrics (access.py, Metrics)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from .base import Strict


class Logs(Strict):
    """Logs of Ray Serve and of the engines."""

    format: Literal["text", "json"] = "text"
    """json: one object a line."""
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Least severity that is written."""
    access: bool = True
    """One line for each request."""


class Tracing(Strict):
    """Traces of requests in the engines, by OTLP. A client's traceparent header is carried on."""

    otlp_endpoint: str | None = Field(default=None, pattern="^https?://")
    """Collector, e.g. http://otel-collector.observability:4317 (grpc) or http://.../v1/traces (http/protobuf); none: no traces."""
    protocol: Literal["grpc", "http/protobuf"] = "grpc"
    """OTLP over gRPC or HTTP."""

    @model_validator(mode="after")
    def _what_vllms_exporters_reach(self) -> Tracing:
        endpoint = self.otlp_endpoint
        if endpoint is None:
            return self
        if self.protocol == "grpc" and endpoint.startswith("https://"):
            raise ValueError(
                "vLLM's gRPC exporter never uses TLS (insecure=True in vllm/tracing/otel.py), and the endpoint is https; "
                "give protocol: http/protobuf with the path /v1/traces, or an http endpoint"
            )
        if self.protocol == "http/protobuf" and "/" not in endpoint.split("://", 1)[1].rstrip("/"):
            raise ValueError(
                f"otlp_endpoint '{endpoint}' has no path, and vLLM sends to exactly this address; OTLP collectors take traces at /v1/traces"
            )
        return self
