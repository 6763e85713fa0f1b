"""Weight bytes on one GPU: how tensor, pipeline, data and expert parallelism split a model's parameters.

For: estimate.py. Not for: parameter counts (policies/catalog/models/parameters.py).
"""

from functools import lru_cache
from math import ceil

from policies.catalog.models.parameters import (
    LayerParameters,
    embedding_parameters,
    layer_parameters,
    lm_head_parameters,
)
from policies.catalog.models.row import Model, Quantization
from policies.fit.shape import EngineShape
from policies.fit.widths import dtype_bytes, quantization_of, weight_bytes

_VOCABULARY_PADDING = 64  # vllm/model_executor/layers/vocab_parallel_embedding.py


@lru_cache(maxsize=1024)
def layer_groups(model: Model) -> tuple[tuple[LayerParameters, tuple[int, ...]], ...]:
    """Distinct kinds of layers, each with how many of them lie before layer 0, 1, ..., n (so a range is one subtraction)."""
    layers = layer_parameters(model)
    out = []
    for kind in dict.fromkeys(layers):
        counts, total = [0], 0
        for layer in layers:
            total += layer is kind or layer == kind
            counts.append(total)
        out.append((kind, tuple(counts)))
    return tuple(out)


def stage_weight_bytes(model: Model, shape: EngineShape, first: int, last: int) -> int:
    """Bytes of weights on one GPU that holds layers [first, last), embeddings and output projection where they lie."""
    tp = shape.tensor_parallel_size
    plain = dtype_bytes(model, shape)
    quantization = quantization_of(model, shape)
    per_layer = 0.0
    for layer, counts in layer_groups(model):
        count = counts[last] - counts[first]
        if count:
            per_layer += count * _layer_bytes(model, shape, layer, quantization, plain)
    total = per_layer
    rows = ceil(model.vocab_size / _VOCABULARY_PADDING) * _VOCABULARY_PADDING / model.vocab_size
    if first == 0:
        # The vision tower is split like the rest (mm_encoder_tp_mode "weights"); FP8 and 4 bits mostly leave it whole.
        total += embedding_parameters(model) * plain * rows / tp
        total += (model.vision_parameters + (model.encoder.parameters if model.encoder else 0)) * plain / tp
    if last == model.layers:
        head = lm_head_parameters(model) * weight_bytes("lm_head", quantization, plain)
        if model.tie_word_embeddings and first > 0:  # the last stage needs its own copy of a tied embedding
            head = model.vocab_size * model.hidden_size * plain
        total += head * rows / tp
    return int(total)


def _layer_bytes(
    model: Model, shape: EngineShape, layer: LayerParameters, quantization: Quantization, plain: int
) -> float:
    tp = shape.tensor_parallel_size
    attention = weight_bytes("attention", quantization, plain)
    kv_share = min(tp, model.full_kv_heads or model.kv_heads)
    out = (layer.attention / tp + layer.kv / kv_share + layer.replicated) * attention
    out += layer.linear / tp * weight_bytes("linear", quantization, plain)
    out += layer.mlp / tp * weight_bytes("mlp", quantization, plain)
    out += layer.shared_experts / tp * weight_bytes("shared_experts", quantization, plain)
    if layer.experts:
        experts = _expert_share(model, shape) * layer.experts * weight_bytes("experts", quantization, plain)
        out += experts * _mxfp4_padding(model, shape) if quantization.method == "mxfp4" else experts
    out += layer.unquantized * plain
    if attention < plain:
        out += layer.mla_copy / tp * plain
    return out


def _expert_share(model: Model, shape: EngineShape) -> float:
    """Part of the routed experts on one GPU. vLLM spreads them over tensor and data parallel ranks together, by whole
    experts with expert parallelism, by slices of every expert without it (fused_moe FusedMoEParallelConfig)."""
    ranks = shape.tensor_parallel_size * shape.data_parallel_size
    if model.moe is None or not shape.enable_expert_parallel:
        return 1 / ranks
    return ceil(model.moe.experts / ranks) / model.moe.experts


def _mxfp4_padding(model: Model, shape: EngineShape) -> float:
    """Growth of MXFP4 experts: vLLM rounds the hidden size up to 256 and each GPU's intermediate size to 128.

    gpt-oss (2880 both) grows by 9 % on one GPU and by 14 % on eight; newer GPUs' kernels pad up to twice as much.
    """
    if model.moe is None:
        return 1.0
    split = 1 if shape.enable_expert_parallel else shape.tensor_parallel_size * shape.data_parallel_size
    inner = model.moe.intermediate_size / split
    return ceil(model.hidden_size / 256) * 256 / model.hidden_size * ceil(inner / 128) * 128 / inner


def lora_bytes(model: Model, shape: EngineShape, first: int, last: int) -> int:
    """Bytes of LoRA slots on one GPU: two 16-bit matrices a linear layer, reserved for `lora_slots` adapters.

    Routed experts are not counted: adapters for them are rare.
    """
    if not shape.lora_slots:
        return 0
    tp = shape.tensor_parallel_size
    hidden = model.hidden_size
    queries = model.attention_heads * model.head_dim / tp
    keys = 2 * max(1, model.kv_heads // tp) * model.head_dim
    # Inputs of q, k, v and o, then their outputs; the same for gate, up and down.
    width = 3 * hidden + queries + queries + keys + hidden
    if model.moe is None or model.moe.beside_dense:
        inner = model.intermediate_size / tp
        width += (model.mlp_matrices - 1) * (hidden + inner) + inner + hidden
    return int(shape.lora_slots * shape.lora_rank * width * (last - first) * 2)
