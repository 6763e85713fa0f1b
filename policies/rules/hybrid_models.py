"""Models with linear attention or Mamba beside attention: what else must be on, and connectors that carry their states.

Not for: how many requests' states fit (cuda_graphs.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping, switch, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, seats
from .engine_values import as_read

# Classes of 0.29.0 without SupportsHMA. LMCacheMPConnector comes from the installed LMCache, which may have it.
_ONE_KIND = ("ExampleConnector", "FlexKVConnectorV1", "HF3FSKVConnector", "LMCacheConnectorV1", "MoRIIOConnector")
_MANAGER = "disable_hybrid_kv_cache_manager"


def hybrid(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        row = seat.row
        if row is None or (row.mamba is None and row.linear_attention is None):
            continue
        kind = "Mamba layers" if row.mamba is not None else "linear attention"
        for message, mend in _wrong(seat):
            yield (error if as_read(stack, seat) else warning)(
                seat.engine.where, f"{row.name} has {kind} and {message}: vLLM refuses to start", mend
            )


def _wrong(seat: Seat) -> Iterator[tuple[str, str]]:
    args = seat.args
    without = [name for name in _connectors(seat) if name in _ONE_KIND]
    if without:
        yield (
            f"{without[0]} carries caches of one kind only",
            "use NixlConnector, MooncakeConnector or OffloadingConnector, or leave kv_transfer_config out",
        )
    if switch(args.get(_MANAGER)):
        yield f"{_MANAGER} turns off what keeps two kinds of cache", f"leave {_MANAGER} out"
    if switch(args.get("enable_prefix_caching")) is False:
        size = whole(args.get("mamba_block_size"))
        if size is not None and size != whole(args.get("max_model_len")):
            yield "mamba_block_size is for prefix caching, which is off", "leave mamba_block_size out"
        return
    if args.get("mamba_cache_mode") == "all":
        return
    if switch(args.get("enable_chunked_prefill")) is False:
        yield (
            "prefix caching, on by default, needs chunked prefill",
            "leave enable_chunked_prefill out, or set enable_prefix_caching: false",
        )
    if switch(args.get("disable_chunked_mm_input")) and seat.row is not None and seat.row.vision_parameters:
        yield (
            "prefix caching, on by default, needs images in parts",
            "leave disable_chunked_mm_input out, or set enable_prefix_caching: false",
        )


def _connectors(seat: Seat) -> list[str]:
    config = mapping(seat.engine.kv_transfer)
    inner = items(mapping(config.get("kv_connector_extra_config")).get("connectors"))
    return [str(part.get("kv_connector") or "") for part in (config, *map(mapping, inner))]


RULES: tuple[Rule, ...] = (
    Rule(
        id="hybrid-models",
        title="Hybrid models keep two kinds of cache, and what touches the cache must know both",
        why=(
            "States of linear attention and Mamba layers lie in the same cache as keys and values. Connectors and settings made for one kind of cache make vLLM stop "
            "when the cache is laid out; prefix caching of states works in whole blocks, for which prefills must be cut."
        ),
        check=hybrid,
        sources=("LMCache PR#1436", "vllm 0.29.0: config/vllm.py, model_executor/models/config.py MambaModelConfig"),
    ),
)
