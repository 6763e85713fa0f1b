"""Memory of an engine for the plan: policies.fit's estimate in the plan's own words.

Not the estimate itself: that is policies/fit, which rules use as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.plan.result import MemoryPlan
from policies.facts import Engine, NodePool, PodGroup
from policies.fit import engine as fit_engine
from policies.fit import estimate


def plan(engine: Engine, pool: NodePool | None, group: PodGroup | None, models: Mapping[str, Any]) -> MemoryPlan | None:
    """Memory of one GPU of the engine; None on CPU, for an unknown model or GPU, or sizes that vLLM refuses anyway."""
    row = fit_engine.model_of(engine, models)
    device = fit_engine.device_of(pool, group)
    if engine.device == "cpu" or row is None or device is None:
        return None
    shape = fit_engine.shape_of(engine, models)
    if shape.pipeline_parallel_size > row.layers:
        return None
    found = estimate(row, device.memory_mib, shape, device.gpu, device.capability)
    return MemoryPlan(
        device_bytes=found.total,
        budget_bytes=found.budget,
        weights_bytes=found.weights + found.lora,
        activation_bytes=found.activation,
        graph_bytes=found.cuda_graphs,
        overhead_bytes=found.runtime,
        kv_bytes=found.available_kv,
        kv_bytes_per_token=found.kv_per_token,
        state_bytes_per_sequence=found.state_per_sequence,
        kv_tokens=found.kv_tokens,
        max_model_len=found.max_model_len,
        largest_max_model_len=found.largest_max_model_len,
        concurrency=round(found.max_concurrency, 2),
        verdict={"does_not_fit": "too_big"}.get(found.verdict, found.verdict),
        error_band_bytes=found.error_band,
    )
