"""Hugging Face config.json, and the sizes in safetensors headers, to a model row.

For: the pin command and the tests. Not for: fetching (see local/pin_model.py).
A config that names an attention this reader does not know is refused rather than read as ordinary attention.
"""

from collections.abc import Mapping
from typing import Any

from policies.catalog.models.encoders import encoder_decoder
from policies.catalog.models.mapping import InvalidModel, from_mapping
from policies.catalog.models.parameters import total_parameters
from policies.catalog.models.quantization import read_quantization
from policies.catalog.models.row import Model

_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
}
_HYBRID_LETTERS = {"M": "mamba", "*": "full", "E": "moe", "-": "mlp"}  # Nemotron-H's hybrid_override_pattern
# Attention with a cache of its own kind, which would be sized wrong: better no row than a wrong one.
_UNKNOWN_CACHES = {
    "deepseek_v4": "compressed attention",
    "kimi_linear": "Kimi delta attention",
    "minimax_m3": "block-sparse attention",
    "gemma3n": "KV sharing across layers",
}


def from_config_json(
    config: Mapping[str, Any],
    *,
    name: str,
    source: str,
    checked_on: str,
    revision: str | None = None,
    gated: bool = False,
    aliases: tuple[str, ...] = (),
    bytes_by_dtype: Mapping[str, int] | None = None,
    parameters: int | None = None,
    vision_parameters: int = 0,
    quantization_config: Mapping[str, Any] | None = None,
) -> Model:
    """The row of a model from its config.json.

    bytes_by_dtype: bytes of the weights by safetensors dtype ("BF16", "F8_E4M3", ...), from the headers. parameters: as
    published; computed from the figures where not given. quantization_config: where it is not in config.json itself
    (NVIDIA's hf_quant_config.json). Raises InvalidModel for a config without the needed figures or with attention of a
    kind that is not known here.
    """
    text = encoder_decoder(config) if config.get("model_type") == "whisper" else _text_config(config)
    model_type = str(text.get("model_type", config.get("model_type", "")))
    for known, what in _UNKNOWN_CACHES.items():
        if model_type.startswith(known):
            raise InvalidModel(name, (f"model_type {model_type!r} has {what}, whose memory is not modelled",))
    row: dict[str, Any] = {
        "name": name,
        "revision": revision,
        "aliases": list(aliases),
        "source": source,
        "checked_on": checked_on,
        "gated": gated,
        "vision_parameters": vision_parameters,
        "architecture": (config.get("architectures") or text.get("architectures") or [model_type])[0],
        "dtype": str(text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype") or "bfloat16"),
        "parameters": parameters or 1,
    }
    row["task"] = _task(name, row["architecture"])
    row |= _shape(text, model_type)
    if "encoder" in text:
        row |= {"encoder": text["encoder"], "position_embeddings": row["max_position_embeddings"], "mlp_matrices": 2}
    row |= _attention(text, model_type, row)
    row |= _experts(text, model_type, row)
    if vision_parameters:
        tokens = config.get("mm_tokens_per_image") or config.get("vision_soft_tokens_per_image")
        # Qwen's towers take an image of any size, up to the encoder budget that vLLM profiles with.
        row["image_tokens"] = tokens or (16384 if "qwen" in str(config.get("model_type", "")) else 4096)
    row["tie_word_embeddings"] = bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
    quantization = quantization_config or config.get("quantization_config") or text.get("quantization_config")
    if quantization:
        row["quantization"] = read_quantization(quantization)
    if bytes_by_dtype:
        row["bytes_by_dtype"] = dict(bytes_by_dtype)
        row["checkpoint_bytes"] = sum(bytes_by_dtype.values())
    model = from_mapping({key: value for key, value in row.items() if value is not None}, name)
    if parameters is None:
        row["parameters"] = total_parameters(model)
        model = from_mapping({key: value for key, value in row.items() if value is not None}, name)
    return model


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("text_config", "llm_config", "thinker_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return _text_config(inner)
    return config


def _task(name: str, architecture: str) -> str:
    if architecture.startswith("Whisper"):
        return "transcribe"
    if "rerank" in name.casefold() or "ForSequenceClassification" in architecture:
        return "rerank"
    # A model without a head on top of it, or so named, gives vectors.
    return "embed" if "embed" in name.casefold() or architecture.endswith("Model") else "chat"


def _shape(text: Mapping[str, Any], model_type: str) -> dict[str, Any]:
    heads = text.get("num_attention_heads")
    hidden = text.get("hidden_size")
    encoder = model_type in ("bert", "xlm-roberta", "roberta", "nomic_bert", "modernbert")
    intermediate = (
        text.get("intermediate_size_mlp") or text.get("intermediate_size") or text.get("ffn_hidden_size") or 0
    )
    if model_type == "qwen":  # Qwen 1 states twice its size
        intermediate //= 2
    shape: dict[str, Any] = {
        "layers": text.get("num_hidden_layers"),
        "hidden_size": hidden,
        "vocab_size": text.get("vocab_size"),
        "attention_heads": heads,
        "kv_heads": text.get("num_key_value_heads") or text.get("num_kv_heads") or heads,
        "head_dim": text.get("head_dim") or (hidden // heads if heads and hidden else None),
        "intermediate_size": intermediate,
        "max_position_embeddings": text.get("max_position_embeddings") or text.get("seq_length") or 0,
        # The bias of these is in the code of the model, not in its config.
        "attention_bias": bool(
            text.get("attention_bias") or model_type in ("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl")
        ),
    }
    if model_type in ("nemotron_h", "nemotron", "starcoder2", "gpt_neox", "phi") or encoder:
        shape["mlp_matrices"] = 2
    if encoder:
        shape |= {"encoder_only": True, "attention_bias": True}
        rows = text.get("max_position_embeddings", 0) if text.get("position_embedding_type") != "rotary" else 0
        shape["position_embeddings"] = rows + (text.get("type_vocab_size") or 0)
    return shape


def _attention(text: Mapping[str, Any], model_type: str, row: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if text.get("kv_lora_rank"):
        out["mla"] = {
            "kv_lora_rank": text["kv_lora_rank"],
            "q_lora_rank": text.get("q_lora_rank"),
            "qk_nope_head_dim": text["qk_nope_head_dim"],
            "qk_rope_head_dim": text["qk_rope_head_dim"],
            "v_head_dim": text["v_head_dim"],
            "indexer_heads": text.get("index_n_heads") or 0,
            "indexer_head_dim": text.get("index_head_dim") or 0,
        }
        out["head_dim"] = text["qk_nope_head_dim"] + text["qk_rope_head_dim"]
    kinds = _layer_kinds(text, model_type, row["layers"])
    out["layer_kinds"] = kinds
    if "sliding" in kinds:
        out["sliding_window"] = text.get("sliding_window") or 0
    if "chunked" in kinds:
        out["attention_chunk_size"] = text.get("attention_chunk_size") or 0
    if text.get("hybrid_override_pattern"):
        out["single_mixer"] = True
    if "linear" in kinds:
        out["attention_output_gate"] = bool(text.get("attn_output_gate", True))
        out["linear_attention"] = {
            "key_heads": text["linear_num_key_heads"],
            "key_head_dim": text["linear_key_head_dim"],
            "value_heads": text["linear_num_value_heads"],
            "value_head_dim": text["linear_value_head_dim"],
            "conv_kernel": text["linear_conv_kernel_dim"],
            "state_dtype": str(text.get("mamba_ssm_dtype", "auto")),
        }
    if "mamba" in kinds:
        out["mamba"] = {
            "heads": text["mamba_num_heads"],
            "head_dim": text["mamba_head_dim"],
            "groups": text["n_groups"],
            "state_size": text["ssm_state_size"],
            "conv_kernel": text["conv_kernel"],
            "state_dtype": str(text.get("mamba_ssm_cache_dtype") or "float32"),
        }
    if text.get("global_head_dim"):
        out["full_head_dim"] = text["global_head_dim"]
        out["full_kv_heads"] = text.get("num_global_key_value_heads") or row["kv_heads"]
        out["keys_as_values"] = bool(text.get("attention_k_eq_v"))
    return out


def _layer_kinds(text: Mapping[str, Any], model_type: str, layers: int) -> list[str]:
    pattern = text.get("hybrid_override_pattern")
    if pattern:
        return [_HYBRID_LETTERS[letter] for letter in pattern]
    if text.get("layer_types"):
        try:
            kinds = [_KINDS[kind] for kind in text["layer_types"][:layers]]
        except KeyError as error:
            raise InvalidModel("layer_types", (f"{error.args[0]!r} is not known here",)) from None
    elif text.get("full_attention_interval"):
        kinds = ["linear"] * (text["full_attention_interval"] - 1) + ["full"]
    elif model_type in ("gemma3_text", "gemma3"):
        kinds = ["sliding"] * ((text.get("sliding_window_pattern") or 6) - 1) + ["full"]
    elif model_type == "gemma2":
        kinds = ["sliding", "full"]
    elif model_type == "llama4_text":
        # Every fourth layer has no rope and attends to everything (vllm/model_executor/models/llama4.py).
        kinds = ["chunked", "chunked", "chunked", "full"]
    elif text.get("sliding_window") and text.get("use_sliding_window", model_type in ("mistral", "mixtral", "phi3")):
        kinds = ["sliding"]
    else:
        kinds = []
    return _shortest_cycle([] if set(kinds) == {"full"} else kinds)


def _shortest_cycle(kinds: list[str]) -> list[str]:
    for size in range(1, len(kinds)):
        if all(kind == kinds[i % size] for i, kind in enumerate(kinds)):
            return kinds[:size]
    return kinds


def _experts(text: Mapping[str, Any], model_type: str, row: Mapping[str, Any]) -> dict[str, Any]:
    experts = text.get("n_routed_experts") or text.get("num_local_experts") or text.get("num_experts")
    if not experts:
        return {}
    size = int(text.get("moe_intermediate_size") or text.get("intermediate_size") or 0)
    shared = text.get("shared_expert_intermediate_size") or text.get("moe_shared_expert_intermediate_size")
    if shared is None:
        shared = (text.get("n_shared_experts") or 0) * size
    elif text.get("n_shared_experts"):
        shared *= text["n_shared_experts"]
    if model_type == "llama4_text":
        shared = size  # one shared expert of the routed experts' size in each MoE layer
    return {
        "moe": {
            "experts": experts,
            "active": text.get("num_experts_per_tok")
            or text.get("top_k_experts")
            or text.get("experts_per_token")
            or 1,
            "intermediate_size": size,
            "shared_intermediate_size": shared,
            "first_layer": text.get("first_k_dense_replace") or 0,
            "every": text.get("interleave_moe_layer_step") or text.get("decoder_sparse_step") or 1,
            "beside_dense": bool(text.get("enable_moe_block")),
            "latent_size": text.get("moe_latent_size") or 0,
        }
    }
