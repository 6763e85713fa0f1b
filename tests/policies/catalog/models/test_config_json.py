"""Published config.json forms to rows: each kind of attention, experts and quantisation, and refusal of unknown ones."""

from typing import Any

import pytest

from policies.catalog.models.config_json import from_config_json
from policies.catalog.models.mapping import InvalidModel
from policies.catalog.models.row import Encoder, LinearAttention, Mla, Model, Moe, Quantization

_LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def _row(name: str = "org/model", **change: Any) -> Model:
    config = {key: value for key, value in {**_LLAMA, **change}.items() if value is not ...}
    return from_config_json(config, name=name, source="a test", checked_on="2026-11-30")


def test_a_plain_decoder_gets_its_exact_parameters() -> None:
    assert _row().parameters == 8_030_261_248
    assert _row().head_dim == 128


def test_nested_text_config_is_where_the_figures_are() -> None:
    row = _row(
        architectures=["Llama4ForConditionalGeneration"], model_type="llama4", hidden_size=..., text_config=_LLAMA
    )
    assert row.hidden_size == 4096
    assert row.architecture == "Llama4ForConditionalGeneration"


def test_qwen2_has_biases_that_its_config_does_not_mention() -> None:
    assert _row(model_type="qwen2").attention_bias
    assert not _row(model_type="qwen3").attention_bias


def test_layer_types_become_their_shortest_cycle() -> None:
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    row = _row(model_type="gemma3_text", layer_types=(kinds * 6)[:32], sliding_window=1024)
    assert row.layer_kinds == ("sliding",) * 5 + ("full",)
    assert row.sliding_window == 1024


def test_a_window_that_is_switched_off_is_none() -> None:
    row = _row(model_type="qwen2", sliding_window=131072, use_sliding_window=False)
    assert (row.layer_kinds, row.sliding_window) == ((), None)


def test_gated_delta_net_layers_keep_a_state() -> None:
    row = _row(
        model_type="qwen3_next",
        full_attention_interval=4,
        linear_num_key_heads=16,
        linear_key_head_dim=128,
        linear_num_value_heads=32,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    )
    assert row.layer_kinds == ("linear", "linear", "linear", "full")
    assert row.linear_attention == LinearAttention(16, 128, 32, 128, 4, "auto")
    assert row.attention_output_gate


def test_latent_attention_and_its_indexer_are_read() -> None:
    row = _row(
        model_type="deepseek_v32",
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        index_n_heads=64,
        index_head_dim=128,
    )
    assert row.mla == Mla(512, 128, 64, 128, 1536, 64, 128)
    assert row.head_dim == 192


def test_experts_by_the_names_that_families_use() -> None:
    deepseek = _row(
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
        moe_intermediate_size=2048,
        first_k_dense_replace=3,
    )
    assert deepseek.moe == Moe(256, 8, 2048, 2048, 3)
    assert [deepseek.is_moe_layer(layer) for layer in (0, 2, 3)] == [False, False, True]
    qwen = _row(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, shared_expert_intermediate_size=512)
    assert qwen.moe == Moe(128, 8, 768, 512)
    maverick = _row(
        model_type="llama4_text",
        num_local_experts=128,
        num_experts_per_tok=1,
        interleave_moe_layer_step=2,
        attention_chunk_size=8192,
    )
    assert [maverick.is_moe_layer(layer) for layer in range(4)] == [False, True, False, True]


def test_single_mixer_layers_of_nemotron() -> None:
    row = _row(
        model_type="nemotron_h",
        num_hidden_layers=4,
        hybrid_override_pattern="M*E-",
        mamba_num_heads=64,
        mamba_head_dim=64,
        n_groups=8,
        ssm_state_size=128,
        conv_kernel=4,
        n_routed_experts=128,
        num_experts_per_tok=6,
        moe_intermediate_size=1856,
        moe_shared_expert_intermediate_size=3712,
    )
    assert row.layer_kinds == ("mamba", "full", "moe", "mlp")
    assert row.single_mixer
    assert row.mlp_matrices == 2
    assert row.is_moe_layer(2)


def test_encoders_have_no_cache_and_learned_positions() -> None:
    row = _row(
        "BAAI/bge-m3",
        model_type="xlm-roberta",
        architectures=["XLMRobertaModel"],
        type_vocab_size=1,
        max_position_embeddings=8194,
    )
    assert row.encoder_only
    assert row.task == "embed"
    assert row.position_embeddings == 8195


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, Quantization("awq", 4, 128)),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, Quantization("gptq", 4, None)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Quantization("fp8", 8, 128)),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
            Quantization("mxfp4", 4, 32, ("attention", "embedding", "lm_head")),
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32}}},
                "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"],
            },
            Quantization("compressed-tensors", 4, 32, ("attention", "embedding", "lm_head", "mlp", "shared_experts")),
        ),
        (
            {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}},
            Quantization("modelopt_fp4", 4, 16),
        ),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, Quantization("modelopt", 8, None)),
    ],
    ids=lambda value: value.method if isinstance(value, Quantization) else "",
)
def test_quantization_configs(config: dict[str, Any], expected: Quantization) -> None:
    assert _row(quantization_config=config).quantization == expected


def test_norms_and_routers_that_stay_whole_do_not_make_a_component_unquantized() -> None:
    kept = [
        f"model.layers.{layer}.{part}"
        for layer in range(48)
        for part in ("input_layernorm", "post_attention_layernorm", "mlp.gate")
    ]
    row = _row(quantization_config={"quant_method": "fp8", "modules_to_not_convert": ["lm_head", *kept]})
    assert row.quantization is not None
    assert row.quantization.unquantized == ("embedding", "lm_head")


@pytest.mark.parametrize("model_type", ["deepseek_v4", "kimi_linear", "gemma3n_text"])
def test_attention_that_is_not_modelled_is_refused(model_type: str) -> None:
    with pytest.raises(InvalidModel, match="whose memory is not modelled"):
        _row(model_type=model_type)


def test_a_config_without_the_figures_says_which_are_missing() -> None:
    with pytest.raises(InvalidModel) as caught:
        _row(num_hidden_layers=..., vocab_size=...)
    assert str(caught.value) == "org/model: layers is missing; vocab_size is missing"


def test_whisper_is_a_decoder_with_an_encoder_beside_it() -> None:
    row = from_config_json(
        {
            "architectures": ["WhisperForConditionalGeneration"],
            "model_type": "whisper",
            "d_model": 384,
            "decoder_attention_heads": 6,
            "decoder_ffn_dim": 1536,
            "decoder_layers": 4,
            "encoder_attention_heads": 6,
            "encoder_ffn_dim": 1536,
            "encoder_layers": 4,
            "max_source_positions": 1500,
            "max_target_positions": 448,
            "num_mel_bins": 80,
            "vocab_size": 51865,
        },
        name="openai/whisper-tiny",
        source="a test",
        checked_on="2026-11-30",
    )
    assert (row.task, row.layers, row.max_position_embeddings, row.kv_heads, row.head_dim) == (
        "transcribe",
        4,
        448,
        6,
        64,
    )
    assert row.encoder == Encoder(positions=1500, parameters=8_208_384)
    assert row.parameters == pytest.approx(37_760_640, rel=0.0015)  # transformers' own count
