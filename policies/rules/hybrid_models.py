"""Models with linear attention or Mamba beside attention: what else must be on, and connectors that carry their states.

Not for: how many requests' states fit (cuda_graphs.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import items, mapping, switch, whole
from policies.facts.vllm import words
from policies.finding import Problem, Rule, error, warning
from policies.fit.divisible import divisibility
from policies.fit.engine import connectors, one_kind
from policies.fit.kv_cache import cache_layout

from ._engines import Seat, seats
from .engine_values import as_read

_LMCACHE, _CHUNK = "LMCacheMPConnector", 256  # the server's --chunk-size by default
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
    without = one_kind(seat.engine.kv_transfer)
    if without:
        yield (
            f"{without} carries caches of one kind only",
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


def blocks(stack: Stack) -> Iterator[Problem]:
    """The block of a hybrid model is as long as its state is large: hundreds or thousands of tokens."""
    for seat in seats(stack):
        row = seat.row
        if row is None or not (row.mamba or row.linear_attention) or divisibility(row, seat.shape):
            continue
        layout = cache_layout(row, seat.shape)
        if layout is None or seat.args.get("mamba_cache_mode") == "all":
            continue
        size = max(cache.block_size for cache in layout.caches)
        length = whole(seat.args.get("max_model_len"))
        asked = switch(seat.args.get("enable_prefix_caching")) and not seat.args.get("prefix_match_unit")
        if asked and length is not None and 0 < length < size:
            yield warning(
                seat.engine.where,
                f"enable_prefix_caching keeps whole blocks, which {row.name} has of {size} tokens beside its states, and max_model_len is {length}: "
                "no prompt fills one and nothing is ever found again",
                f"raise max_model_len well above {size}, or leave enable_prefix_caching out",
            )
        if _LMCACHE in connectors(seat.engine.kv_transfer):
            chunk = _chunk(seat)
            if (chunk or _CHUNK) % size:
                yield warning(
                    seat.engine.where,
                    f"{_LMCACHE} takes chunks that are a multiple of vLLM's block, which {row.name} has of {size} tokens beside its states, and LMCache's are {chunk or f'{_CHUNK} by default'}: it refuses to start",
                    f"start LMCache's server with --chunk-size {size}, and one for each model whose blocks differ",
                )


def _chunk(seat: Seat) -> int | None:
    """The chunk that LMCache's server beside the engine is started with; None where none is seen, or nothing said."""
    pod = seat.group.pod if seat.group is not None else {}
    for container in map(mapping, items(pod.get("containers"))):
        given = words(container)
        for number, word in enumerate(given):
            name, _, value = word.partition("=")
            if name == "--chunk-size" and "lmcache" in " ".join(given):
                return whole(value or (given[number + 1] if number + 1 < len(given) else None))
    return None


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
    Rule(
        id="hybrid-blocks",
        title="Blocks of a hybrid model are shorter than prompts, and divide what caches them elsewhere",
        why=(
            "vLLM makes the attention block long enough to be as large as a state: 784 tokens for Qwen3.5-27B, 4160 for Nemotron 3 Super. Prefixes are found by whole "
            "blocks, and LMCache's server has one chunk size, 256 by default, of which the block must be a divisor."
        ),
        check=blocks,
        sources=("vllm#48401", "LMCache#4782", "vllm 0.29.0: platforms/interface.py _align_hybrid_block_size"),
    ),
)
