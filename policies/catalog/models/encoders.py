"""Hugging Face configs of encoder-decoder models in the words of a decoder, with the encoder beside it.

For: config_json.py. vLLM has Whisper itself; BART, Florence-2 and mBART come with a plugin (model_executor/models/registry.py, 0.29.0).
"""

from collections.abc import Mapping
from typing import Any


def encoder_decoder(config: Mapping[str, Any]) -> dict[str, Any]:
    """Whisper's: two convolutions over the sound, positions, and layers with biases everywhere but at the keys (transformers:
    models/whisper/modeling_whisper.py)."""
    width, ffn, positions = config["d_model"], config["encoder_ffn_dim"], config["max_source_positions"]
    layer = 4 * width * width + 3 * width + 2 * width * ffn + ffn + width + 4 * width
    sound = 3 * config["num_mel_bins"] * width + 3 * width * width + 2 * width
    return {
        **config,
        "hidden_size": width,
        "num_hidden_layers": config["decoder_layers"],
        "num_attention_heads": config["decoder_attention_heads"],
        "intermediate_size": config["decoder_ffn_dim"],
        "max_position_embeddings": config["max_target_positions"],
        "attention_bias": True,
        "tie_word_embeddings": config.get("tie_word_embeddings", True),
        "encoder": {
            "positions": positions,
            "parameters": sound + positions * width + config["encoder_layers"] * layer + 2 * width,
        },
    }
