"""Turn a GGUF file into the folder that vLLM serves: config, tokenizer with its chat template, safetensors in bfloat16.

Runs inside the engine environment, with gguf and accelerate beside it: `python convert.py MODEL.gguf FOLDER`.
Not for models that are published as safetensors: vLLM reads those as they are.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def convert(gguf: Path, folder: Path) -> None:
    """Dequantize `gguf` and write it to `folder`. Raises ValueError when the file has no chat template."""
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    if not tokenizer.chat_template:
        raise ValueError(f"{gguf.name}: no chat template, so a chat request could not be answered")
    model = AutoModelForCausalLM.from_pretrained(
        **source, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    # A GGUF carries token ids but no generation config; without one vLLM would not stop at the end of a turn.
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.bos_token_id = tokenizer.bos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors writes 0600, and the image's user is not who converts


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
