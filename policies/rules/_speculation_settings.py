"""Keys of speculative_config that need each other, a method or a value, as vLLM checks them when it builds its config.

Not for: the draft against its target, or methods against the engine (speculation.py); names and kinds of keys (engine_values.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts.quantities import items, real, switch, whole

_RATES, _LENGTH = "synthetic_acceptance_rates", "synthetic_acceptance_length"
_DYNAMIC = "num_speculative_tokens_per_batch_size"
# (key, the one method that has it)
_OF_ONE = (
    ("dspark_draft_topk", "dspark"),
    ("index_share_for_mtp_iteration", "mtp"),
    ("use_heterogeneous_vocab", "draft_model"),
)


def settings(config: Mapping[str, Any], method: str, length: int | None) -> Iterator[tuple[str, str]]:
    """(message, mend) of what vLLM 0.29 refuses (config/speculative.py). length: max_model_len of the target, where it is known."""
    guesses, drafted = whole(config.get("num_speculative_tokens")), method not in ("ngram", "ngram_gpu", "suffix")
    for key, only in _OF_ONE:
        read = drafted or key != _OF_ONE[0][0]  # what guesses from the text has no draft to ask for it
        if read and config.get(key) not in (None, False) and method != only:
            yield f"{key} and speculation by {method}: vLLM has it for {only} only and refuses to start", "leave it out"
    if switch(config.get("use_heterogeneous_vocab")) and config.get("draft_sample_method") not in (None, "greedy"):
        yield (
            f"use_heterogeneous_vocab and draft_sample_method {config['draft_sample_method']}: vLLM has it for greedy drafts only and refuses to start",
            "leave draft_sample_method out",
        )
    if method == "custom_class" and not config.get("model"):
        yield (
            "speculative method custom_class names no class: vLLM refuses to start",
            "give its import path as speculative_config.model",
        )
    if method == "draft_model" and config.get("model") and config.get("num_speculative_tokens") is None:
        yield (
            f"speculation by the draft {config['model']} without num_speculative_tokens: vLLM refuses to start",
            "say how many tokens to guess, 3 to 5 for a start",
        )
    own = whole(config.get("max_model_len"))
    if drafted and own is not None and length is not None and own > length:
        yield (
            f"speculative_config.max_model_len is {own} and the engine's max_model_len {length}: vLLM refuses to start",
            "leave it out",
        )
    yield from _synthetic(config, guesses)
    if config.get(_DYNAMIC) is not None:
        yield from _schedule(items(config[_DYNAMIC]))


def _synthetic(config: Mapping[str, Any], guesses: int | None) -> Iterator[tuple[str, str]]:
    stated = [key for key in (_RATES, _LENGTH) if config.get(key) is not None]
    if config.get("rejection_sample_method") != "synthetic":
        if stated:
            yield (
                f"{stated[0]} without rejection_sample_method synthetic: vLLM refuses to start",
                "leave it out: it is for measuring, and makes answers up",
            )
        return
    length = real(config.get(_LENGTH))
    if len(stated) != 1:
        yield (
            f"rejection_sample_method synthetic has {' and '.join(stated) or 'no rate'}: vLLM wants one of {_RATES} and {_LENGTH} and refuses to start",
            "give one of the two",
        )
    elif length is not None and guesses is not None and not 1 <= length <= guesses + 1:
        yield f"{_LENGTH} is {length:g}; allowed: 1 to {guesses + 1}", "give a length in that range"


def _schedule(ranges: list[Any]) -> Iterator[tuple[str, str]]:
    """Inclusive ranges of batch sizes from 1 up, without overlaps (v1/spec_decode/dynamic/utils.py)."""
    mend = "give [first, last, tokens] for batch sizes from 1 up: [[1, 16, 4], [17, 256, 2]]"
    rows = [tuple(whole(number) for number in items(each)) for each in ranges]
    if not rows or any(len(row) != 3 or None in row for row in rows):
        yield f"{_DYNAMIC} is no list of [first, last, tokens]: vLLM refuses to start", mend
        return
    end = 0
    for first, last, tokens in sorted(tuple(number or 0 for number in row) for row in rows):
        if first <= end or last < first or tokens < 0 or (end == 0 and first != 1):
            yield f"{_DYNAMIC} has [{first}, {last}, {tokens}] after batch size {end}: vLLM refuses to start", mend
            return
        end = last
