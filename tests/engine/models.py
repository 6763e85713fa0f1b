"""Rows of the catalog as folders that vLLM reads: a config.json with the row's figures, as far as vLLM's argument checks go.

Not for: layers or weights (a row does not say everything that a checkpoint's own config says).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policies.catalog import models
from policies.catalog.models.row import Model

FOLDER = "/opt/rows"
"""Where the judge sees them."""
NAMES = (
    "Qwen/Qwen2.5-1.5B-Instruct",  # 12 heads, 2 KV heads
    "Qwen/Qwen2.5-7B-Instruct",  # 28 heads, 4 KV heads
    "meta-llama/Llama-3.3-70B-Instruct",  # 64 heads, 80 layers
    "Qwen/Qwen3-30B-A3B",  # experts
    "google/gemma-3-1b-it",  # sliding windows, one KV head, no float16
)
_TYPES = {
    "Gemma3ForCausalLM": "gemma3_text",
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3MoeForCausalLM": "qwen3_moe",
}


def folder(name: str) -> str:
    """The folder of a model, as the judge sees it."""
    return f"{FOLDER}/{name.replace('/', '--')}"


def write(root: Path) -> None:
    """Write a folder for each model."""
    for name in NAMES:
        row = models.get(name)
        place = root / name.replace("/", "--")
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps(config(row), sort_keys=True, indent=1))


def config(row: Model) -> dict[str, Any]:
    """config.json of a row."""
    values: dict[str, Any] = {
        "architectures": [row.architecture],
        "model_type": _TYPES[row.architecture],
        "dtype": row.dtype,
        "head_dim": row.head_dim,
        "hidden_size": row.hidden_size,
        "intermediate_size": row.intermediate_size,
        "max_position_embeddings": row.max_position_embeddings,
        "num_attention_heads": row.attention_heads,
        "num_hidden_layers": row.layers,
        "num_key_value_heads": row.kv_heads,
        "tie_word_embeddings": row.tie_word_embeddings,
        "vocab_size": row.vocab_size,
    }
    if row.moe:
        values |= {
            "moe_intermediate_size": row.moe.intermediate_size,
            "num_experts": row.moe.experts,
            "num_experts_per_tok": row.moe.active,
        }
    if row.sliding_window:
        values |= {"sliding_window": row.sliding_window, "sliding_window_pattern": len(row.layer_kinds)}
    return values
