"""A LoRA adapter for the local model, in PEFT's format: small random matrices, so that answers differ from the model's own.

Not for: good answers. It shows that the adapter is fetched, loaded and applied.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save

RANK = 8


def files(model: Path, seed: int, scale: float = 0.2) -> dict[str, bytes]:
    """The adapter's files by name, for a model's folder; `scale` is the standard deviation of both matrices."""
    config = json.loads((model / "config.json").read_text())
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    width = hidden // heads
    outs = {"q_proj": hidden, "v_proj": config["num_key_value_heads"] * width}
    random = np.random.default_rng(seed)
    tensors: dict[str, np.ndarray] = {}
    for layer in range(config["num_hidden_layers"]):
        for name, out in outs.items():
            place = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{place}.lora_A.weight"] = random.normal(0, scale, (RANK, hidden)).astype(np.float32)
            tensors[f"{place}.lora_B.weight"] = random.normal(0, scale, (out, RANK)).astype(np.float32)
    adapter = {
        "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "bias": "none",
        "lora_alpha": 4 * RANK,
        "peft_type": "LORA",
        "r": RANK,
        "target_modules": sorted(outs),
        "task_type": "CAUSAL_LM",
    }
    return {"adapter_config.json": json.dumps(adapter).encode(), "adapter_model.safetensors": save(tensors)}
