"""How long a service takes from nothing to Ready, and how long the deployment waits for it. Estimates, with their rates stated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.derive.spec import ServiceSpec
from policies.catalog.models.row import Model
from policies.fit import engine as fit_engine

# Rates that hold on common cloud nodes; they are for budgets and the plan's figure, not for promises.
NODE_SECONDS = 180  # an EC2 GPU node from request to Ready, with driver and device plugin (Karpenter and EKS guides: 2 to 4 minutes)
PULL_MIB_S = 150  # image pull and unpack from a registry in the region
DOWNLOAD_MIB_S = 200  # weights from a bucket or hub over a 10 Gbit/s card
LOAD_MIB_S = 1000  # local NVMe to GPU
ENGINE_SECONDS = 90  # process start, torch.compile and CUDA graphs
CLUSTER_SECONDS = 45  # Ray head, worker join, Serve deploy


def download_gib(spec: ServiceSpec, models: Mapping[str, Any]) -> float | None:
    """Weights of all models of the service (GiB); None where a model is unknown."""
    total = 0.0
    for engine in spec.engines:
        size = _weights_bytes(fit_engine.find(engine.catalog_id, models))
        if size is None:
            return None
        if engine.role != "prefill":
            total += size / 2**30
    return round(total, 2)


def ready_seconds(spec: ServiceSpec, models: Mapping[str, Any]) -> int | None:
    """Seconds from a cold node to Ready. None where a model is unknown."""
    weights = download_gib(spec, models)
    if weights is None:
        return None
    local = all(engine.source.startswith("/") for engine in spec.engines)
    on_gpu = any(group.device == "gpu" for group in spec.groups)
    return round(CLUSTER_SECONDS + _engine_seconds(weights, local, on_gpu, spec.config.image.size_gib))


def cold_seconds(model: Model | None, *, source: str, on_gpu: bool, image_gib: float) -> int | None:
    """Seconds until a further replica answers on a node that has to come first. None for an unknown model."""
    size = _weights_bytes(model)
    return None if size is None else round(_engine_seconds(size / 2**30, source.startswith("/"), on_gpu, image_gib))


def _engine_seconds(weights_gib: float, local: bool, on_gpu: bool, image_gib: float) -> float:
    seconds = ENGINE_SECONDS + weights_gib * 1024 / LOAD_MIB_S
    if not local:
        seconds += weights_gib * 1024 / DOWNLOAD_MIB_S
    return seconds + (NODE_SECONDS + image_gib * 1024 / PULL_MIB_S if on_gpu else 0)


def ready_timeout(spec: ServiceSpec) -> int:
    """How long the deployment waits: what was stated, or three times the estimate, at least 15 minutes."""
    if spec.config.ready_timeout_seconds is not None:
        return spec.config.ready_timeout_seconds
    estimate = ready_seconds(spec, spec.environment.models)
    return max(900, 3 * estimate) if estimate is not None else 3600


def _weights_bytes(row: Model | None) -> int | None:
    """Bytes of the checkpoint's weight files: as published, else two for each parameter."""
    return None if row is None else row.checkpoint_bytes or row.parameters * 2
