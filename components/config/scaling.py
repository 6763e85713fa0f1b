"""How plain vLLM scales between the replicas of its model. Not for Ray: Ray Serve scales by itself (models.py, Replicas)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from .base import Strict


class Scaling(Strict):
    """Scaling of kind vllm between replicas.min and replicas.max on requests in flight."""

    by: Literal["keda", "hpa"] = "keda"
    """keda asks Prometheus; hpa: a HorizontalPodAutoscaler on a metric that the cluster's metrics API has."""
    prometheus: str | None = Field(default=None, pattern="^https?://")
    """keda: address of Prometheus; derived: the one that this stack installs."""
    wake_query: str | None = None
    """keda, replicas.min 0: PromQL of requests ahead of the pods, at a gateway, say. Pods that are not there have no metric, and a
    Service without pods refuses the connection."""
    metric: str | None = None
    """hpa: metric of the pods (requests in flight of one pod) in the custom metrics API; or cpu, for engines on CPU."""
    cpu_percent: int = Field(default=70, ge=1, le=100)
    """hpa with metric cpu: part of the requested CPU that is aimed at."""

    @model_validator(mode="after")
    def _each_has_what_it_reads(self) -> Scaling:
        if self.by == "hpa" and self.metric is None:
            raise ValueError(
                "by: hpa needs metric, the name of a pod metric in the custom metrics API (prometheus-adapter), or cpu for an "
                "engine on CPU; by: keda needs no adapter"
            )
        for name in ("prometheus", "wake_query") if self.by == "hpa" else ("metric",):
            if getattr(self, name) is not None:
                other = "keda" if self.by == "hpa" else "hpa"
                raise ValueError(f"{name} is read with by: {other} only; set that, or leave {name} out")
        return self
