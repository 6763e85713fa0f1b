"""How many parameters a model has, by component and by how vLLM splits them over GPUs.

For: weight bytes per GPU (policies/fit) and the check of catalog rows against published sizes.
Not for: bytes (a component's width depends on quantisation) or anything about caches.
Norms are counted, q/k norms and small per-head vectors are not: together they are below 0.05 % of every model here.
"""

from dataclasses import dataclass
from functools import lru_cache

from policies.catalog.models.row import Mla, Model


@dataclass(frozen=True, slots=True)
class LayerParameters:
    """Parameters of one layer.

    attention: query, output and MLA up-projections: 1/tp on each GPU. kv: key and value projections: split over at most
    kv_heads GPUs, copied beyond. linear: projections of linear attention or Mamba: 1/tp. mlp, shared_experts: 1/tp.
    experts: routed experts: 1/tp each, or whole experts by expert parallelism. replicated: MLA down-projections and the
    sparse-attention indexer, on every GPU. unquantized: router and norms, on every GPU, never quantised.
    mla_copy: part of `attention` of which vLLM keeps a second copy in the model's dtype if it is quantised
    (W_UK and W_UV, vllm/model_executor/layers/attention/mla_attention.py).
    """

    attention: int = 0
    kv: int = 0
    linear: int = 0
    mlp: int = 0
    shared_experts: int = 0
    experts: int = 0
    replicated: int = 0
    unquantized: int = 0
    mla_copy: int = 0

    @property
    def total(self) -> int:
        """All parameters of the layer, copies not counted."""
        return (
            self.attention
            + self.kv
            + self.linear
            + self.mlp
            + self.shared_experts
            + self.experts
            + self.replicated
            + self.unquantized
        )


@lru_cache(maxsize=1024)
def layer_parameters(model: Model) -> tuple[LayerParameters, ...]:
    """Parameters of each layer of `model`, in order."""
    cached: dict[tuple[str, bool], LayerParameters] = {}
    out = []
    for layer in range(model.layers):
        key = (model.kind(layer), model.is_moe_layer(layer))
        if key not in cached:
            cached[key] = _layer(model, *key)
        out.append(cached[key])
    return tuple(out)


def embedding_parameters(model: Model) -> int:
    """Token and position embeddings."""
    return (model.vocab_size + model.position_embeddings) * model.hidden_size


def lm_head_parameters(model: Model) -> int:
    """The output projection, 0 where the token embedding serves as it or the model only embeds."""
    return 0 if model.tie_word_embeddings or model.encoder_only else model.vocab_size * model.hidden_size


def total_parameters(model: Model) -> int:
    """All parameters: embeddings, layers, output projection, vision tower and encoder."""
    return (
        embedding_parameters(model)
        + sum(layer.total for layer in layer_parameters(model))
        + lm_head_parameters(model)
        + model.vision_parameters
        + (model.encoder.parameters if model.encoder else 0)
        + model.hidden_size
    )


def _layer(model: Model, kind: str, is_moe: bool) -> LayerParameters:
    hidden = model.hidden_size
    attention = kv = linear = replicated = mla_copy = 0
    unquantized = hidden * (1 if model.single_mixer else 2)
    if kind == "linear" and model.linear_attention:
        la = model.linear_attention
        keys, values = la.key_heads * la.key_head_dim, la.value_heads * la.value_head_dim
        linear = hidden * (2 * keys + 2 * values + 2 * la.value_heads) + values * hidden
        unquantized += (2 * keys + values) * la.conv_kernel
    elif kind == "mamba" and model.mamba:
        mb = model.mamba
        inner = mb.heads * mb.head_dim
        conv = inner + 2 * mb.groups * mb.state_size
        linear = hidden * (inner + conv + mb.heads) + inner * hidden
        unquantized += conv * mb.conv_kernel + inner
    elif kind in ("full", "sliding", "chunked"):
        if model.mla:
            attention, replicated, mla_copy = _mla(model, model.mla)
        else:
            attention, kv = _attention(model, kind)
            if model.encoder:  # as much again for what it attends to in the encoder
                attention, kv, unquantized = 2 * attention, 2 * kv, unquantized + hidden
    if model.single_mixer and kind not in ("moe", "mlp"):
        return LayerParameters(attention, kv, linear, 0, 0, 0, replicated, unquantized, mla_copy)

    mlp = shared = experts = 0
    if is_moe and model.moe:
        width = model.moe.latent_size or hidden
        experts = model.moe.experts * model.mlp_matrices * width * model.moe.intermediate_size
        replicated += 2 * hidden * model.moe.latent_size
        shared = model.mlp_matrices * hidden * model.moe.shared_intermediate_size
        unquantized += hidden * model.moe.experts
    if not is_moe or (model.moe and model.moe.beside_dense):
        mlp = model.mlp_matrices * hidden * model.intermediate_size
    return LayerParameters(attention, kv, linear, mlp, shared, experts, replicated, unquantized, mla_copy)


def _attention(model: Model, kind: str) -> tuple[int, int]:
    full = kind == "full"
    heads = model.attention_heads
    kv_heads = (model.full_kv_heads if full else None) or model.kv_heads
    head_dim = (model.full_head_dim if full else None) or model.head_dim
    value_dim = model.head_dim_v or head_dim
    queries = heads * head_dim * (2 if model.attention_output_gate else 1)
    attention = model.hidden_size * (queries + heads * value_dim)
    kv = model.hidden_size * kv_heads * (head_dim + (0 if full and model.keys_as_values else value_dim))
    if model.attention_bias:
        attention += queries
        kv += kv_heads * (head_dim + value_dim)
    return attention, kv


def _mla(model: Model, mla: Mla) -> tuple[int, int, int]:
    hidden, heads = model.hidden_size, model.attention_heads
    query = heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    up = mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim)
    replicated = hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim)
    if mla.q_lora_rank:
        replicated += hidden * mla.q_lora_rank
        attention = mla.q_lora_rank * query
    else:
        attention = hidden * query
    if mla.indexer_heads:
        replicated += (mla.q_lora_rank or hidden) * mla.indexer_heads * mla.indexer_head_dim
        replicated += hidden * (mla.indexer_head_dim + mla.indexer_heads)
    return attention + up + heads * mla.v_head_dim * hidden, replicated, up
