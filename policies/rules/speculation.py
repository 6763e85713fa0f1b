"""Speculative decoding: methods that have what they need, drafts that speak the target's language, parallel sizes of both.

Not for: names of keys in speculative_config (engine_values.py), or the memory of a draft (policies/fit).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.catalog.models.row import Model
from policies.facts import Stack
from policies.facts.quantities import mapping, switch, whole
from policies.finding import Problem, Rule, error, warning
from policies.fit.engine import find
from policies.fit.shape import resolved_batch

from ._engines import Seat, seats, vllm_version
from ._speculation_settings import settings
from ._values import before
from .engine_values import as_read

# vllm 0.29.0: config/speculative.py. Methods that guess with a model of their own.
_WITH_MODEL = ("dflash", "draft_model", "eagle", "eagle3", "medusa", "mlp_speculator")
WITH_LAYERS = ("dflash", "dspark", "eagle", "eagle3", "mtp")
"""Methods that read the target's hidden states, whose draft has layers in its cache (SpeculativeConfig.use_eagle)."""
_LOOKUP = ("ngram", "ngram_gpu", "[ngram]")
# Architectures whose checkpoints carry no multi-token prediction that vLLM could use (SpeculativeConfig.hf_config_override).
_NO_MTP = frozenset(
    (
        "BaichuanForCausalLM",
        "DeepseekV2ForCausalLM",
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma3ForConditionalGeneration",
        "Glm4ForCausalLM",
        "GptOssForCausalLM",
        "Llama4ForConditionalGeneration",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "Phi3ForCausalLM",
        "QWenLMHeadModel",
        "Qwen2ForCausalLM",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
    )
)
# Architectures whose draft class for multi-token prediction has no SupportsPP; those of Qwen3-Next, Qwen3.5 and Nemotron H have.
_WHOLE_MTP = frozenset(
    (
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Glm4MoeForCausalLM",
        "GlmMoeDsaForCausalLM",
    )
)
# Drafts whose classes take no tensors of an earlier stage (models/*eagle*.py, *dflash*.py, *dspark*.py); after 0.29 vLLM loads them on
# the last stage only (vllm PR#50514).
_WHOLE = ("dflash", "dspark", "eagle", "eagle3", "medusa")
_STAGES_SINCE = "0.30"
_SLOTS_EACH = "0.27"  # until then each of max_num_seqs requests kept slots for its draft at any time (vllm#50708)
# Speculation of which each step's tokens are on the GPU, so that steps can be scheduled ahead.
_ASYNC = ("dflash", "draft_model", "dspark", "eagle", "eagle3", "extract_hidden_states", "mtp", "ngram_gpu")


def speculation(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        config = mapping(seat.args.get("speculative_config"))
        if not config:
            continue
        say = error if as_read(stack, seat) else warning
        method, pipeline = method_of(config), seat.engine.pipeline
        stated = settings(config, family(config), _length(seat))
        for message, mend in (*_method(seat, config), *_draft(seat, config, stack), *stated):
            yield say(seat.engine.where, message, mend)
        yield from _slots(stack, seat, config)
        if method in _WHOLE and pipeline > 1 and before(vllm_version(stack, seat.workload), _STAGES_SINCE):
            yield error(
                seat.engine.where,
                f"speculative method {method} and pipeline parallel {pipeline}: vLLM cuts the draft like its target, which that draft cannot be, and refuses to start",
                "set parallel.pipeline: 1 with more tensor parallel, or leave speculative_config out",
            )
        if config.get("method") == "suffix":
            yield warning(
                seat.engine.where,
                "speculation by suffix needs the package arctic-inference, which vLLM's images do not have",
                "install arctic-inference in the image, or use method ngram",
            )


def _length(seat: Seat) -> int | None:
    given = seat.args.get("max_model_len")
    return seat.row.max_position_embeddings if given is None and seat.row is not None else whole(given)


def method_of(config: Mapping[str, Any]) -> str:
    """The method as vLLM takes it when none is given."""
    given, model = config.get("method"), config.get("model")
    if given is not None:
        return str(given)
    if model in _LOOKUP:
        return "ngram"
    text = str(model).lower()
    for part, method in (("eagle3", "eagle3"), ("eagle-", "eagle"), ("dflash", "dflash"), ("medusa", "medusa")):
        if part in text:
            return method
    return "draft_model"


def family(config: Mapping[str, Any]) -> str:
    """The method, with those of multi-token prediction under their one name of today."""
    method = method_of(config)
    return "mtp" if method.endswith("_mtp") else method


def _method(seat: Seat, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    method, tokens = method_of(config), whole(config.get("num_speculative_tokens"))
    if tokens is not None and tokens < 1:
        yield (
            f"num_speculative_tokens is {tokens}: vLLM refuses to start",
            "give 1 or more, or leave speculative_config out",
        )
    if method in _WITH_MODEL and not config.get("model") and tokens is not None:
        yield (
            f"speculative method {method} guesses with a model of its own and names none: vLLM refuses to start",
            "give speculative_config.model, or use method ngram",
        )
    own = family(config) == "mtp" and not config.get("model")
    if own and seat.row is not None and seat.row.architecture in _NO_MTP:
        yield (
            f"speculative method {method} uses layers of the checkpoint that predict several tokens, and {seat.row.name} has none",
            "use method eagle3 with a model made for it, a smaller model as draft, or ngram",
        )
    if (
        family(config) == "mtp"
        and seat.engine.pipeline > 1
        and seat.row is not None
        and seat.row.architecture in _WHOLE_MTP
    ):
        yield (
            f"speculative method {method} and pipeline parallel {seat.engine.pipeline}: vLLM cuts the draft of {seat.row.name} like its target, "
            "which that draft cannot be, and refuses to start",
            "set parallel.pipeline: 1 with more tensor parallel, or leave speculative_config out",
        )
    if seat.args.get("logits_processors"):
        yield (
            "logits_processors and speculative_config: vLLM takes processors of one's own only without speculation and refuses to start",
            "leave one of the two out",
        )
    least, most = whole(config.get("prompt_lookup_min")), whole(config.get("prompt_lookup_max"))
    if method in _LOOKUP and least is not None and most is not None and least > most:
        yield (
            f"prompt_lookup_min {least} is more than prompt_lookup_max {most}: vLLM refuses to start",
            f"set prompt_lookup_max to {least} or more",
        )
    if switch(seat.args.get("async_scheduling")) and family(config) not in _ASYNC:
        yield (
            f"async_scheduling and speculation by {method} do not go together: vLLM refuses to start",
            "leave async_scheduling out: vLLM turns it on where it can be",
        )
    elif switch(seat.args.get("async_scheduling")) and switch(config.get("disable_padded_drafter_batch")):
        yield (
            "async_scheduling and disable_padded_drafter_batch do not go together: vLLM refuses to start",
            "leave one of the two out",
        )


def _slots(stack: Stack, seat: Seat, config: Mapping[str, Any]) -> Iterator[Problem]:
    """Tokens of a step that drafts of several tokens at once take (SpeculativeConfig.max_num_new_slots_for_drafting)."""
    method, guesses = method_of(config), whole(config.get("num_speculative_tokens")) or 0
    parallel = method in ("dflash", "dspark") or switch(config.get("parallel_drafting"))
    slots = (guesses if method in ("dflash", "draft_model") else guesses - 1) if parallel else 0
    tokens, requests = whole(seat.args.get("max_num_batched_tokens")), 1
    if before(vllm_version(stack, seat.workload), _SLOTS_EACH) and seat.row is not None and seat.device is not None:
        tokens, requests = resolved_batch(seat.row, seat.shape, seat.device.memory_mib, seat.device.gpu)
    if slots > 0 and tokens is not None and tokens <= slots * requests:
        yield (error if as_read(stack, seat) or requests > 1 else warning)(
            seat.engine.where,
            f"speculation by {method} of {guesses} tokens keeps {slots * requests} tokens of a step for drafts and max_num_batched_tokens is {tokens}: vLLM refuses to start",
            f"set max_num_batched_tokens well over {slots * requests}, or lower num_speculative_tokens{' or max_num_seqs' if requests > 1 else ''}",
        )


def _draft(seat: Seat, config: Mapping[str, Any], stack: Stack) -> Iterator[tuple[str, str]]:
    method, size = method_of(config), whole(config.get("draft_tensor_parallel_size"))
    if method in _LOOKUP or method == "suffix":
        return
    target = seat.engine.tensor
    if size is not None and (size != target if method == "draft_model" else size not in (1, target)):
        allowed = f"{target}" if method == "draft_model" or target == 1 else f"1 or {target}"
        yield (
            f"draft_tensor_parallel_size is {size}; allowed beside tensor parallel {target}: {allowed}",
            "leave it out: the draft is cut like the target",
        )
        size = None
    draft = find(str(config["model"]), stack.models) if config.get("model") else None
    if draft is None or seat.row is None:
        return
    if (
        method == "draft_model"
        and draft.vocab_size != seat.row.vocab_size
        and not switch(config.get("use_heterogeneous_vocab"))
    ):
        yield (
            f"draft {draft.name} has a vocabulary of {draft.vocab_size} tokens and {seat.row.name} one of {seat.row.vocab_size}: vLLM refuses to start",
            "take a draft of the same family and vocabulary, or set use_heterogeneous_vocab: true (slower)",
        )
    yield from _cut(draft, size or target)


def _cut(draft: Model, size: int) -> Iterator[tuple[str, str]]:
    if size > 1 and draft.attention_heads % size:
        heads = f"{draft.attention_heads} attention heads"
        valid = [n for n in range(1, draft.attention_heads + 1) if not draft.attention_heads % n]
        yield (
            f"draft {draft.name} is cut like its target, and {heads} are not a multiple of {size}: vLLM refuses to start",
            f"take another draft, or tensor parallel of {', '.join(map(str, valid[:8]))}",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="speculative-decoding",
        title="Speculation has its draft, and the draft suits the target",
        why=(
            "A draft writes tokens that the target checks, so both need one vocabulary; it is loaded on the same GPUs and cut like the target. Methods with a model of "
            "their own need one named, and multi-token prediction needs a checkpoint that has it. vLLM checks all of this at start, after the download."
        ),
        check=speculation,
        sources=(
            "vllm#5203",
            "vllm#10483",
            "vllm#10913",
            "vllm PR#24322",
            "vllm#49355",
            "vllm PR#19482",
            "vllm#50851",
            "vllm PR#31998",
            "vllm#50708",
            "vllm 0.29.0: config/speculative.py, v1/spec_decode/draft_model.py",
        ),
    ),
)
