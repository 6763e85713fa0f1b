"""What the catalog says of one model: the figures that decide memory, divisibility and download size.

For: the fit of an engine on a GPU. Not for: reading files (see __init__.py), Hugging Face configs (see config_json.py) or
any arithmetic (see parameters.py and policies/fit).
Field names follow Hugging Face's config.json where it has one.
"""

from dataclasses import dataclass
from typing import Literal

Task = Literal["chat", "embed", "rerank", "transcribe"]
LayerKind = Literal["full", "sliding", "chunked", "linear", "mamba", "moe", "mlp", "cross"]
Component = Literal["attention", "mlp", "experts", "shared_experts", "lm_head", "embedding", "linear", "vision"]


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention (DeepSeek V2/V3, Kimi K2, GLM-5): one latent vector a token instead of keys and values.

    indexer_heads, indexer_head_dim: the sparse-attention indexer of DeepSeek V3.2 and GLM-5, 0 for none.
    """

    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None
    indexer_heads: int = 0
    indexer_head_dim: int = 0


@dataclass(frozen=True, slots=True)
class Moe:
    """Mixture of experts.

    intermediate_size: of one routed expert. shared_intermediate_size: of all shared experts together, 0 for none.
    first_layer: layers before it have a dense MLP. every: one MoE layer each `every` layers (the last of each run).
    beside_dense: each MoE layer has the dense MLP as well (Gemma 4). latent_size: width that the routed experts work at,
    0 for the model's own (Nemotron 3 Super).
    """

    experts: int
    active: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    first_layer: int = 0
    every: int = 1
    beside_dense: bool = False
    latent_size: int = 0


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Gated delta net layers (Qwen3-Next, Qwen3.5): a state of fixed size per sequence instead of a growing cache."""

    key_heads: int
    key_head_dim: int
    value_heads: int
    value_head_dim: int
    conv_kernel: int
    state_dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class Mamba:
    """Mamba-2 layers (Nemotron-H, Nemotron 3): a state of fixed size per sequence."""

    heads: int
    head_dim: int
    groups: int
    state_size: int
    conv_kernel: int
    state_dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class Encoder:
    """An encoder that every decoder layer attends to beside itself (Whisper).

    positions: tokens of its output, of which each decoder layer keeps keys and values for a request. parameters: its own.
    """

    positions: int
    parameters: int


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a checkpoint stores its weights.

    method: vLLM's name of it. weight_bits: bits of one weight without scales. group_size: weights per scale along the
    input dimension (128 for most AWQ and GPTQ, 32 for MXFP4, 16 for NVFP4; for block FP8 the block's side), None for one
    scale a channel or tensor. unquantized: components that stay in the model's dtype.
    """

    method: str
    weight_bits: int
    group_size: int | None = None
    unquantized: tuple[Component, ...] = ("embedding", "lm_head")


@dataclass(frozen=True, slots=True)
class Model:
    """One model at a revision.

    name: Hugging Face id. revision: commit, None where the figures were not read at a commit. aliases: other ids with the
        same figures (fine-tunes of the same size) and common short names; case does not matter.
    layers: decoder layers. layer_kinds: cycled over the layers ("sliding" x5, "full" makes 5:1); full attention if empty.
    single_mixer: a layer is an attention, a Mamba, an MLP or a MoE alone (Nemotron-H), not a pair.
    attention_heads, kv_heads, head_dim, head_dim_v: of attention layers. full_kv_heads, full_head_dim: of "full" layers
        where they differ from the rest (Gemma 4). keys_as_values: "full" layers store keys only (Gemma 4).
    attention_bias: q, k and v have biases. attention_output_gate: q_proj also makes a gate (Qwen3-Next).
    intermediate_size: of the dense MLP. mlp_matrices: 3 with a gate, 2 without.
    sliding_window: tokens that "sliding" layers keep. attention_chunk_size: tokens that "chunked" layers keep (Llama 4).
    position_embeddings: rows of learned position (and token type) embeddings. encoder_only: no KV cache at all.
    encoder: of an encoder-decoder model; the other figures are the decoder's.
    vision_parameters: vision tower and projector, 0 for text models. image_tokens: most tokens of one image.
    gated: the download needs an accepted licence and a token. parameters: as published, without multi-token prediction.
    checkpoint_bytes: size of the weight files. bytes_by_dtype: the same, by safetensors dtype (pinned models only).
    """

    name: str
    architecture: str
    layers: int
    hidden_size: int
    vocab_size: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    max_position_embeddings: int
    parameters: int
    source: str
    checked_on: str
    revision: str | None = None
    aliases: tuple[str, ...] = ()
    task: Task = "chat"
    dtype: str = "bfloat16"
    head_dim_v: int | None = None
    full_kv_heads: int | None = None
    full_head_dim: int | None = None
    keys_as_values: bool = False
    attention_bias: bool = False
    attention_output_gate: bool = False
    mlp_matrices: int = 3
    tie_word_embeddings: bool = False
    layer_kinds: tuple[LayerKind, ...] = ()
    single_mixer: bool = False
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    mla: Mla | None = None
    moe: Moe | None = None
    linear_attention: LinearAttention | None = None
    mamba: Mamba | None = None
    quantization: Quantization | None = None
    position_embeddings: int = 0
    encoder_only: bool = False
    encoder: Encoder | None = None
    vision_parameters: int = 0
    image_tokens: int = 0
    gated: bool = False
    checkpoint_bytes: int | None = None
    bytes_by_dtype: tuple[tuple[str, int], ...] = ()

    def __hash__(self) -> int:
        # Rows are keys of the caches of policies/fit; fifty fields hashed each time would cost more than the answer.
        return hash((self.name, self.revision, self.parameters))

    def kind(self, layer: int) -> LayerKind:
        """What layer number `layer` (from 0) is."""
        return self.layer_kinds[layer % len(self.layer_kinds)] if self.layer_kinds else "full"

    def is_moe_layer(self, layer: int) -> bool:
        """Whether layer number `layer` has routed experts."""
        if self.moe is None:
            return False
        if self.single_mixer:
            return self.kind(layer) == "moe"
        return layer >= self.moe.first_layer and (layer + 1) % self.moe.every == 0
