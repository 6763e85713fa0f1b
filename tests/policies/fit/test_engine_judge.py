"""The block pool against vLLM itself: its own grouping of layers, run in the engine environment, for every model."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from policies.catalog import models
from policies.catalog.models.row import Model
from policies.fit import kv_cache
from policies.fit.shape import GIB, EngineShape

_MEMORY = 40 * GIB
_TOKENS = 2048
_SCRIPT = "/opt/judge/cache_groups.py"


def _layers(model: Model, shape: EngineShape, layout: kv_cache.CacheLayout) -> list[dict[str, Any]]:
    caches = {cache.kind: cache for cache in layout.caches}
    attention = [cache.block_size for cache in layout.caches if cache.token_bytes]
    block = min(attention) if any(cache.state_bytes for cache in layout.caches) and attention else shape.block_size
    out = []
    kinds = [model.kind(number) for number in range(model.layers)]
    if model.encoder:
        kinds = [kind for each in kinds for kind in (each, "cross")]
    for kind in kinds:
        if kind not in caches:
            continue
        layer: dict[str, Any] = {"kind": kind, "block_size": block, "window": None, "state_mode": _mode(shape)}
        if caches[kind].state_bytes:
            layer |= {"size": caches[kind].state_bytes, "page": layout.page_bytes}
        elif model.mla:
            layer |= {
                "kind": "mla",
                "heads": 1,
                "size": model.mla.kv_lora_rank + model.mla.qk_rope_head_dim,
                "bytes": 2,
            }
        else:
            full = kind == "full"
            heads = (model.full_kv_heads if full else None) or model.kv_heads
            layer |= {
                "heads": max(1, heads // shape.tensor_parallel_size),
                "size": (model.full_head_dim if full else None) or model.head_dim,
                "bytes": 1 if shape.kv_cache_dtype == "fp8" else 2,
                "window": model.sliding_window if kind == "sliding" else model.attention_chunk_size,
            }
        out.append(layer)
    return out


def _mode(shape: EngineShape) -> str:
    return "align" if shape.enable_prefix_caching else "none"


def _cases() -> list[tuple[str, dict[str, Any], float]]:
    """(name, request to vLLM, our concurrency) for each model and a few shapes."""
    cases = []
    for name in models.names():
        model = models.get(name)
        # The indexer's cache is a layer of its own in vLLM; here it is part of its layer's bytes.
        if model.mla and model.mla.indexer_heads:
            continue
        for tp in (1, 2, 8):
            for kv_cache_dtype in ("auto",) if model.mla else ("auto", "fp8"):
                shape = EngineShape(tensor_parallel_size=tp, kv_cache_dtype=kv_cache_dtype)
                layout = kv_cache.cache_layout(model, shape)
                if layout is None:
                    continue
                layers, named = _layers(model, shape, layout), f"{name} tp {tp} {kv_cache_dtype}"
                cases.append((named, *_case(model, shape, layout, layers)))
                whole = replace(shape, hybrid_cache=False)
                together = kv_cache.cache_layout(model, whole)
                if together is not None and together != layout:
                    cases.append((f"{named} whole", *_case(model, whole, together, layers)))
    return cases


def _case(
    model: Model, shape: EngineShape, layout: kv_cache.CacheLayout, layers: list[dict[str, Any]]
) -> tuple[dict[str, Any], float]:
    length = min(model.max_position_embeddings, 32768)
    in_flight = kv_cache.in_flight_tokens(shape, _TOKENS)
    blocks = _MEMORY // layout.block_bytes(0, model.layers)
    ours = blocks / layout.request_blocks(length, in_flight, kv_cache.states_of_request(shape), _TOKENS)
    request = {
        "layers": layers,
        "length": length,
        "in_flight": in_flight,
        "batch": _TOKENS,
        "memory": _MEMORY,
        "state_mode": _mode(shape),
        "whole": not shape.hybrid_cache,
    }
    return request, ours


@pytest.mark.engine
def test_concurrency_of_every_model_is_what_vllm_computes() -> None:
    from local.engine.python import engine_command

    cases = _cases()
    script = Path(__file__).parent / "engine_side" / "cache_groups.py"
    command = engine_command(["python", _SCRIPT], read_only={_SCRIPT: script})
    run = subprocess.run(
        command,
        input=json.dumps([request for _, request, _ in cases]),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    answers = json.loads(run.stdout.splitlines()[-1])
    assert len(answers) == len(cases) > 300
    wrong = {
        name: (ours, theirs)
        for (name, _, ours), (_, theirs) in zip(cases, answers, strict=True)
        if ours != pytest.approx(theirs)
    }
    assert not wrong
