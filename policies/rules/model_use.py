"""What an engine does with its model: generate or embed, read files of this format, see images.

Not for: tool calls (model_tools.py), adapters (model_adapters.py), names and kinds of single arguments (engine_args.py, engine_values.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.models.row import Model
from policies.facts import Stack
from policies.facts.quantities import mapping, switch, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, on_gpus, seats, vllm_version
from ._values import a, before
from .engine_values import as_read

# Rerankers that are published as models which write text; docs/models/pooling_models/scoring of 0.29.0.
_WRITING_RERANKER = re.compile(
    r"/(qwen3-(vl-)?reranker-[\d.]+b|mxbai-rerank-(base|large)-v2|bge-reranker-v2-gemma)$", re.IGNORECASE
)
_DEFAULT_BLOCK = 16
# Image tokens see each other both ways, so that vLLM never splits an image over steps (ModelConfig.is_mm_prefix_lm).
# Frames of a video, and tokens of a frame with what stands between two (models/gemma4_mm.py).
_FRAMES = {"Gemma4ForConditionalGeneration": (32, 78)}
# Attention heads of vision towers that are cut over all of tensor parallel: no fallback in their classes (models/vision.py
# is_vit_use_data_parallel without num_heads), and the same heads in every size (transformers 5: vision configs of these families).
_TOWER_HEADS = {
    "Qwen2_5_VLForConditionalGeneration": 16,
    "Qwen3VLForConditionalGeneration": 16,
    "Qwen3VLMoeForConditionalGeneration": 16,
    "Qwen3_5ForConditionalGeneration": 16,
    "Qwen3_5MoeForConditionalGeneration": 16,
}
_WHOLE_IMAGES = ("Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration")


def runner(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        row = seat.row
        if _WRITING_RERANKER.search(seat.engine.source) and not mapping(seat.args.get("hf_overrides")).get(
            "architectures"
        ):
            yield warning(
                seat.engine.where,
                f"{seat.engine.source} is published as a model that writes text, and served as one: requests to rerank or score are refused",
                "set hf_overrides: {architectures: [Qwen3ForSequenceClassification], classifier_from_token: ['no', 'yes'], is_original_qwen3_reranker: true}"
                if "qwen" in seat.engine.source.lower()
                else "set hf_overrides with the architectures that vLLM's page on scoring names for it",
            )
        if row is None:
            continue
        say = error if as_read(stack, seat) else warning
        if seat.args.get("runner") == "generate" and row.encoder_only:
            yield say(
                seat.engine.where,
                f"runner generate and {row.name}, an encoder that writes no tokens: vLLM refuses to start",
                "set runner: pooling, or leave it out",
            )
        elif row.encoder_only and switch(seat.args.get("enable_prefix_caching")):
            yield warning(
                seat.engine.where,
                f"enable_prefix_caching and {row.name}, an encoder, which keeps no cache: vLLM warns that it may crash, and versions before 0.21 do when they start",
                "leave it out",
            )
        elif seat.args.get("runner") == "pooling" and seat.args.get("convert") == "none" and row.task == "chat":
            yield say(
                seat.engine.where,
                f"runner pooling with convert none and {row.name}, a model that writes text: vLLM refuses to start",
                "set convert: embed or classify, or leave it out",
            )


def gguf(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        source = seat.engine.source
        if "gguf" not in source.lower() or before(vllm_version(stack, seat.workload), "0.29"):
            continue
        say = error if as_read(stack, seat) else warning
        yield say(
            seat.engine.where,
            f"the weights '{source}' are GGUF files, which vLLM 0.29 and newer read only with a plugin",
            "give the checkpoint in safetensors (16 bit, AWQ, GPTQ, FP8), or install the plugin in the image (and switch this rule off)",
        )


def blocks(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        count = whole(seat.args.get("num_gpu_blocks_override"))
        if count is None or seat.row is None or not _plain(seat.row):
            continue
        size = whole(seat.args.get("block_size")) or _DEFAULT_BLOCK
        length = _length(seat, seat.row)
        if length is not None and (count - 1) * size < length:
            needed = -(-length // size) + 1
            yield (error if as_read(stack, seat) else warning)(
                seat.engine.where,
                f"num_gpu_blocks_override {count} is a cache of {(count - 1) * size} tokens and max_model_len is {length}: vLLM refuses to start",
                f"leave it out, raise it to {needed}, or lower max_model_len",
            )


def _plain(row: Model) -> bool:
    """Whether every layer keeps every token, so that a block is block_size tokens."""
    return row.mamba is None and row.linear_attention is None and not row.encoder_only and not row.layer_kinds


def _length(seat: Seat, row: Model) -> int | None:
    given = seat.args.get("max_model_len")
    number = whole(given)
    return row.max_position_embeddings if given is None else number if number and number > 0 else None


def pictures(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        row, tokens = seat.row, whole(seat.args.get("max_num_batched_tokens"))
        if row is None or not row.image_tokens or tokens is None or seat.args.get("language_model_only"):
            continue
        whole_ones = row.architecture in _WHOLE_IMAGES or switch(seat.args.get("disable_chunked_mm_input"))
        largest, kind = _largest(row, mapping(seat.args.get("limit_mm_per_prompt")))
        if whole_ones and largest > tokens:
            yield (error if as_read(stack, seat) else warning)(
                seat.engine.where,
                f"max_num_batched_tokens {tokens} is less than the {largest} tokens of {a(kind)}, which {row.name} takes in one piece: vLLM refuses to start",
                f"set max_num_batched_tokens to {largest} or more, or limit_mm_per_prompt: {{{kind}: 0}}",
            )


def _largest(row: Model, limits: Mapping[str, Any]) -> tuple[int, str]:
    """(tokens, kind) of the largest item that a prompt may hold."""
    frames, each = _FRAMES.get(row.architecture, (0, 0))
    asked = whole(mapping(limits.get("video")).get("num_frames"))
    sizes = {"image": row.image_tokens, "video": min(frames, asked or frames) * each}
    return max((0 if _count(limits.get(kind)) == 0 else size, kind) for kind, size in sizes.items())


def _count(limit: Any) -> int | None:
    return whole(limit.get("count")) if isinstance(limit, Mapping) else whole(limit)


def towers(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        heads = _TOWER_HEADS.get(seat.row.architecture) if seat.row is not None else None
        tensor, limits = seat.engine.tensor, mapping(seat.args.get("limit_mm_per_prompt"))
        unused = switch(seat.args.get("language_model_only")) or all(
            _count(limits.get(k)) == 0 for k in ("image", "video")
        )
        if heads is None or not heads % tensor or unused or seat.args.get("mm_encoder_tp_mode") == "data":
            continue
        yield (error if as_read(stack, seat) else warning)(
            seat.engine.where,
            f"tensor parallel {tensor} cuts the vision tower as well, whose {heads} attention heads it does not divide: vLLM ends while it loads the model",
            "set mm_encoder_tp_mode: data, which gives every GPU the whole tower, or language_model_only: true",
        )


def text_only(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        row, limits = seat.row, mapping(seat.args.get("limit_mm_per_prompt"))
        if row is None or not limits or row.name in stack.models or row.vision_parameters or row.encoder:
            continue
        kinds = [kind for kind in limits if _count(limits[kind]) != 0]
        if kinds:
            yield warning(
                seat.engine.where,
                f"limit_mm_per_prompt allows {', '.join(map(str, kinds))} and {row.name} reads text alone: requests with any are refused",
                "leave it out, or serve a model that sees",
            )


def transfer(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        if not (seat.engine.kv_transfer or {}).get("kv_connector"):
            continue
        for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            given = (literal_env(seat, name) or "").replace(" ", "").lower()
            if "expandable_segments:true" not in given or switch(seat.args.get("enable_sleep_mode")):
                continue
            say = error if as_read(stack, seat) and name == "PYTORCH_CUDA_ALLOC_CONF" else warning
            yield say(
                seat.engine.where,
                f"{name} has expandable_segments:True beside a KV connector: pages that the connector registered move, and transfers fail or corrupt the cache",
                "take expandable_segments out",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="model-runner",
        title="The runner is one the model has",
        why="An encoder writes no tokens and a chat model embeds only after a conversion; vLLM refuses the other way round when it reads the model's config.",
        check=runner,
        sources=("vllm 0.29.0: config/model.py", "vllm#40682"),
    ),
    Rule(
        id="model-file-format",
        title="Weights are in a format that this vLLM reads",
        why="GGUF left vLLM's own formats; the hub's GGUF repositories often have no config.json either, so the engine fails after the node is up.",
        check=gguf,
        sources=("vllm 0.29.0: model_executor/model_loader, layers/quantization",),
    ),
    Rule(
        id="model-cache-blocks",
        title="A stated number of cache blocks holds one longest request",
        why="num_gpu_blocks_override replaces what vLLM measured, for the check of max_model_len as well.",
        check=blocks,
        sources=("vllm 0.29.0: v1/core/kv_cache_utils.py",),
    ),
    Rule(
        id="model-images",
        title="A batch holds an image, and a video",
        why="Where images are not split over steps, the largest one must fit in max_num_batched_tokens; vLLM checks it at start.",
        check=pictures,
        sources=("vllm#7996", "vllm 0.29.0: v1/core/encoder_cache_manager.py, models/gemma4_mm.py"),
    ),
    Rule(
        id="model-vision-tower",
        title="The vision tower is cut like the model, or not at all",
        why="Tensor parallel cuts a vision tower by its own attention heads, which are fewer than the language model's.",
        check=towers,
        sources=("vllm#55517", "vllm 0.29.0: models/qwen2_5_vl.py, qwen3_vl.py, vision.py"),
    ),
    Rule(
        id="model-text-only",
        title="Limits of images are for models that see",
        why="vLLM reads limit_mm_per_prompt for models with an encoder of images, video or audio; for others it does nothing, and who wrote it expects a model that sees.",
        check=text_only,
        sources=("zai-org/GLM-V#15", "vllm 0.29.0: config/model.py"),
    ),
    Rule(
        id="model-cache-transfer",
        title="Memory that a KV connector registers stays where it is",
        why=(
            "NIXL and Mooncake pin the cache once. PyTorch's expandable segments later put other pages behind the same addresses; vLLM refuses the pair, older ones "
            "transfer wrong bytes."
        ),
        check=transfer,
        sources=("vllm PR#41237", "nixl#1754", "vllm 0.29.0: config/vllm.py _verify_kv_transfer_compat"),
    ),
)
