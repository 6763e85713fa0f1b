"""Encoder-decoder models (Whisper): a batch that holds what the encoder reads in one piece, and what vLLM has for decoders alone.

Not for: memory (policies/fit), or max_model_len above the decoder's positions (fit.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policies.catalog.models.row import Model
from policies.facts import Stack
from policies.facts.quantities import real, switch, whole
from policies.facts.vllm import words
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, seats
from .engine_values import as_read

_UPSTREAM = re.compile(r"(^|/)vllm/vllm-openai(-cpu)?([:@]|$)")
Found = tuple[str, str]  # message, mend


def encoder_decoder(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        row = seat.row
        if row is None or row.encoder is None:
            continue
        for message, mend in (*_batch(seat, row, row.encoder.positions), *_for_decoders(seat, row)):
            yield (error if as_read(stack, seat) else warning)(seat.engine.where, message, mend)


def _batch(seat: Seat, row: Model, positions: int) -> Iterator[Found]:
    given, sequences = whole(seat.args.get("max_num_batched_tokens")), whole(seat.args.get("max_num_seqs"))
    length = whole(seat.args.get("max_model_len")) or row.max_position_embeddings
    reads = f"the encoder of {row.name} reads {positions} tokens in one step"
    if given is not None and given < positions:
        yield (
            f"max_num_batched_tokens {given} is less, and {reads}: vLLM refuses to start",
            f"set max_num_batched_tokens to {positions} or more, or leave it out",
        )
    elif given is None and sequences is not None and sequences >= 1 and sequences * length < positions:
        # The default is no more than max_num_seqs x max_model_len (EngineArgs._set_default_max_num_seqs_and_batched_tokens_args).
        yield (
            f"max_num_seqs {sequences} x max_model_len {length} bounds a batch to {sequences * length} tokens, and {reads}: vLLM refuses to start",
            f"set max_num_batched_tokens: {max(positions, 2048)}, or max_num_seqs to {-(-positions // length)} or more",
        )


def _for_decoders(seat: Seat, row: Model) -> Iterator[Found]:
    args = seat.args
    if seat.engine.kv_transfer or real(args.get("kv_offloading_size")):
        yield (
            f"a KV connector and {row.name}, an encoder-decoder model: vLLM's scheduler ends with an assertion",
            "take kv_transfer_config (disaggregation, kv_offloading_size) out",
        )
    if switch(args.get("enable_prefix_caching")):
        yield (
            f"enable_prefix_caching and {row.name}: caches of what an encoder read are not shared, and the first request ends the engine",
            "leave enable_prefix_caching out: vLLM turns it off",
        )
    if switch(args.get("enable_prompt_embeds")):
        yield (
            f"enable_prompt_embeds and {row.name}, whose decoder embeds its own tokens: vLLM refuses to start",
            "leave it out",
        )


def sound(stack: Stack) -> Iterator[Problem]:
    """Images of vLLM have no libraries that read sound; those of Ray (ray-llm) have."""
    for seat in seats(stack):
        group = seat.group
        if seat.row is None or seat.row.task != "transcribe" or group is None or not _UPSTREAM.search(group.image):
            continue
        if not any("audio" in word for word in words(group.main_container)):  # installed before it starts
            yield warning(
                seat.engine.where,
                f"image {group.image} has no libraries that read sound: every request of {seat.row.name} is answered with 400 ('Invalid or unsupported audio file')",
                "build an image from it with vllm[audio] of the same version",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="model-sound",
        title="A model that hears has an image that reads sound",
        why="vLLM's own images leave the extra `audio` (soundfile, av) out. The engine starts and is ready, and no request is ever answered.",
        check=sound,
        sources=("vllm#13675", "vllm#15087", "ls1intum/edutelligence#925", "vllm 0.29.0: multimodal/media/audio.py"),
    ),
    Rule(
        id="model-encoder-decoder",
        title="An encoder-decoder model has a batch for its encoder, and nothing that is for decoders",
        why=(
            "Whisper's encoder reads 30 seconds of sound, 1500 tokens, in one step, and its decoder writes 448. A batch below the first, which few max_num_seqs make as "
            "well, and connectors or caches made for decoders stop the engine when it starts or with its first request."
        ),
        check=encoder_decoder,
        sources=(
            "vllm#17797",
            "vllm-rbln PR#527",
            "vllm 0.29.0: v1/core/sched/scheduler.py, v1/core/encoder_cache_manager.py, engine/arg_utils.py, v1/core/single_type_kv_cache_manager.py",
        ),
    ),
)
