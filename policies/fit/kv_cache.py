"""Cache bytes a token and a sequence, and how vLLM's block pool is laid out for models that mix kinds of layers.

For: estimate.py. Mirrors vllm/v1/core/kv_cache_utils.py (get_kv_cache_groups, get_max_concurrency_for_kv_cache_config) and
kv_cache_interface.py of 0.32: all blocks have one size in bytes; layers of one kind form groups of equal count; a request
takes blocks from every group.
Not for: how much memory the cache gets (estimate.py).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from policies.catalog.models.row import LayerKind, Model
from policies.fit.shape import EngineShape
from policies.fit.widths import dtype_bytes, kv_head_bytes, mla_token_bytes

_STATE_KINDS = ("linear", "mamba")


@dataclass(frozen=True, slots=True)
class LayerCache:
    """The cache of one kind of layer on one GPU.

    token_bytes: bytes a token (0 for a state). state_bytes: bytes a sequence (0 for attention). block_size: tokens in a
    block. layers: numbers of the layers of this kind. groups: how many groups they form. reach: tokens that are kept at
    most beside those in flight, None for all; of an encoder's output, all of it.
    """

    kind: LayerKind
    token_bytes: float
    state_bytes: int
    block_size: int
    layers: tuple[int, ...]
    groups: int
    reach: int | None


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """The block pool of one engine. page_bytes: bytes of one block in one layer, where one group has several kinds their mean."""

    page_bytes: float
    caches: tuple[LayerCache, ...]

    def block_bytes(self, first: int, last: int) -> int:
        """Bytes of one block id on a GPU that holds layers [first, last): the widest group's layers there."""
        widest = 0
        for cache in self.caches:
            for group in range(cache.groups):
                mine = sum(first <= layer < last for layer in cache.layers[group :: cache.groups])
                widest = max(widest, mine)
        return round(widest * self.page_bytes)

    def request_blocks(self, length: int, in_flight: int, states: int, batch: int = 0) -> int:
        """Block ids that one request of `length` tokens takes at most; of an encoder vLLM counts a whole batch (CrossAttentionSpec)."""
        total = 0
        for cache in self.caches:
            if cache.state_bytes:
                blocks = states
            elif cache.kind == "cross":
                blocks = ceil(max(batch, cache.reach or 0) / cache.block_size)
            elif cache.reach is None:
                blocks = ceil(length / cache.block_size)
            else:
                blocks = ceil(min(cache.reach + in_flight, length) / cache.block_size)
                blocks += cache.kind == "sliding"  # a window need not start at the beginning of a block
            total += blocks * cache.groups
        return total


def in_flight_tokens(shape: EngineShape, batch_tokens: int) -> int:
    """Tokens scheduled and not yet settled: two batches with asynchronous scheduling, one a stage with pipelines."""
    return batch_tokens * (2 if shape.pipeline_parallel_size == 1 else shape.pipeline_parallel_size)


def states_of_request(shape: EngineShape) -> int:
    """State blocks of one request in each state group: two with prefix caching (mamba_cache_mode "align"), else one."""
    return (2 if shape.enable_prefix_caching else 1) + shape.num_speculative_tokens


def token_bytes(model: Model, shape: EngineShape, kind: LayerKind) -> float:
    """Bytes a token in one layer of `kind` on one GPU; 0 for layers without a growing cache."""
    if kind not in ("full", "sliding", "chunked", "cross") or model.encoder_only:
        return 0
    plain = dtype_bytes(model, shape)
    if model.mla:
        return mla_token_bytes(model.mla, shape.kv_cache_dtype, plain)
    full = kind == "full"
    heads = max(1, ((model.full_kv_heads if full else None) or model.kv_heads) // shape.tensor_parallel_size)
    key = (model.full_head_dim if full else None) or model.head_dim
    value = model.head_dim_v or key
    return heads * (kv_head_bytes(key, shape.kv_cache_dtype, plain) + kv_head_bytes(value, shape.kv_cache_dtype, plain))


def state_bytes(model: Model, shape: EngineShape, kind: LayerKind) -> int:
    """Bytes a sequence in one layer of `kind` on one GPU (vllm/model_executor/layers/mamba/mamba_utils.py)."""
    tp = shape.tensor_parallel_size
    plain = dtype_bytes(model, shape)
    speculative = shape.num_speculative_tokens
    if kind == "linear" and model.linear_attention:
        la = model.linear_attention
        wide = 4 if la.state_dtype == "float32" else plain
        conv = (2 * la.key_heads * la.key_head_dim + la.value_heads * la.value_head_dim) // tp
        recurrent = la.value_heads // tp * la.value_head_dim * la.key_head_dim
        return (la.conv_kernel - 1 + speculative) * conv * plain + recurrent * wide
    if kind == "mamba" and model.mamba:
        mb = model.mamba
        wide = 4 if mb.state_dtype == "float32" else plain
        groups = mb.groups if mb.groups % tp == 0 else mb.groups + tp - mb.groups
        conv = (mb.heads * mb.head_dim + 2 * groups * mb.state_size) // tp
        recurrent = mb.heads // tp * mb.head_dim * mb.state_size
        return (mb.conv_kernel - 1 + speculative) * conv * plain + recurrent * wide
    return 0


def cache_layout(model: Model, shape: EngineShape) -> CacheLayout | None:
    """The block pool of `model` under `shape`, None for a model without cache."""
    return _layout(model, relevant(shape))


@lru_cache(maxsize=4096)
def stage_bytes(model: Model, shape: EngineShape, first: int, last: int) -> tuple[int, float, int]:
    """Of one GPU that holds layers [first, last): bytes of a block id, of a token, and of one sequence's states or encoded input.

    A token counts in all layers, as long as nothing has left a window yet.
    """
    layout = _layout(model, shape)
    encoded = model.encoder.positions * token_bytes(model, shape, "cross") * (last - first) if model.encoder else 0
    counts: dict[LayerKind, int] = {}
    for layer in range(first, last):
        kind = model.kind(layer)
        counts[kind] = counts.get(kind, 0) + 1
    return (
        layout.block_bytes(first, last) if layout else 0,
        sum(token_bytes(model, shape, kind) * count for kind, count in counts.items()),
        int(encoded) + sum(state_bytes(model, shape, kind) * count for kind, count in counts.items()),
    )


@lru_cache(maxsize=4096)
def relevant(shape: EngineShape) -> EngineShape:
    """`shape` with only the fields that decide the cache of a layer, so that others do not miss the cache of answers."""
    return EngineShape(
        tensor_parallel_size=shape.tensor_parallel_size,
        dtype=shape.dtype,
        kv_cache_dtype=shape.kv_cache_dtype,
        block_size=shape.block_size,
        num_speculative_tokens=shape.num_speculative_tokens,
        hybrid_cache=shape.hybrid_cache,
    )


@lru_cache(maxsize=4096)
def _layout(model: Model, shape: EngineShape) -> CacheLayout | None:
    by_kind: dict[LayerKind, list[int]] = {}
    for layer in range(model.layers):
        kind = model.kind(layer)
        if token_bytes(model, shape, kind) or state_bytes(model, shape, kind):
            by_kind.setdefault(kind, []).append(layer)
    if model.encoder:
        by_kind["cross"] = list(range(model.layers))
    if not by_kind:
        return None
    tokens = {kind: token_bytes(model, shape, kind) for kind in by_kind}
    states = {kind: state_bytes(model, shape, kind) for kind in by_kind}
    block = shape.block_size
    attention = [kind for kind in by_kind if kind not in _STATE_KINDS]
    if any(states.values()) and attention:
        # The attention block grows until its page holds a state, then the state is padded to it (platforms/interface.py).
        step = max(block, 128) if model.mla else block
        block = step * ceil(max(states.values()) / (step * min(tokens[kind] for kind in attention)))
    pages = {kind: ceil(block * tokens[kind]) for kind in attention}
    if not shape.hybrid_cache and len(attention) > 1 and set(attention) <= {"full", "sliding", "chunked"}:
        # One group that keeps every token, whatever the windows (unify_hybrid_kv_cache_specs); a page is the layers' mean.
        mean = sum(pages[kind] * len(by_kind[kind]) for kind in attention) / model.layers
        return CacheLayout(mean, (LayerCache("full", mean / block, 0, block, tuple(range(model.layers)), 1, None),))
    page = max(pages.values(), default=max(states.values()))
    sizes = _group_counts({kind: len(layers) for kind, layers in by_kind.items()})
    caches = []
    for kind, layers in by_kind.items():
        # A smaller page is filled with more tokens if it divides the page, and padded otherwise.
        factor = page // pages[kind] if kind in pages and page % pages[kind] == 0 else 1
        reach = _reach(model, kind)
        caches.append(LayerCache(kind, tokens[kind], states[kind], block * factor, tuple(layers), sizes[kind], reach))
    return CacheLayout(page, tuple(caches))


def _reach(model: Model, kind: LayerKind) -> int | None:
    if kind == "sliding":
        return (model.sliding_window or 1) - 1
    if kind == "cross":
        return model.encoder.positions if model.encoder else 0
    return model.attention_chunk_size if kind == "chunked" else None


def _group_counts(layers: dict[LayerKind, int]) -> dict[LayerKind, int]:
    """Groups of each kind: all of the size of the smallest kind, or of the largest where that is close (padding)."""
    smallest, largest = min(layers.values()), max(layers.values())
    size = largest if largest < smallest * 1.5 else smallest
    return {kind: ceil(count / size) for kind, count in layers.items()}


def largest_length(layout: CacheLayout, blocks: int, in_flight: int, states: int, limit: int, batch: int = 0) -> int:
    """The longest request, up to `limit` tokens, that `blocks` block ids hold; 0 if not even one token fits."""
    if layout.request_blocks(1, in_flight, states, batch) > blocks:
        return 0
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if layout.request_blocks(middle, in_flight, states, batch) <= blocks:
            low = middle
        else:
            high = middle - 1
    return low
