"""The two model runners of vLLM: what is asked of an engine is in the one that it takes, or is told to take.

Not for: runner generate and pooling (model_use.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.facts import Stack
from policies.facts.quantities import mapping, switch, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, literal_env, on_gpus
from .engine_values import as_read
from .speculation import method_of

_CHOICE = "VLLM_USE_V2_MODEL_RUNNER"
# vllm 0.29.0: config/vllm.py _get_v2_model_runner_unsupported_features. Methods of speculation that the second runner has.
_DRAFTS = ("eagle", "eagle3", "mtp", "dflash", "dspark", "extract_hidden_states")
_STOCK_COMPILE = (1, "STOCK_TORCH_COMPILE")


def runners(stack: Stack) -> Iterator[Problem]:
    for seat in on_gpus(stack):
        first, second = tuple(_only_first(seat)), tuple(_only_second(seat))
        say = error if as_read(stack, seat) else warning
        told = switch(literal_env(seat, _CHOICE))
        if told is True and first:
            yield say(
                seat.engine.where,
                f"{_CHOICE} asks for the second model runner, which has no {' and '.join(first)}: vLLM refuses to start",
                f"leave {_CHOICE} out: vLLM then takes the runner that has it",
            )
        elif told is False and second:
            yield say(
                seat.engine.where,
                f"{_CHOICE} asks for the first model runner, which has no {' and '.join(second)}: vLLM refuses to start",
                f"leave {_CHOICE} out",
            )
        elif told is None and first and second:
            yield say(
                seat.engine.where,
                f"{' and '.join(first)} {'is' if len(first) == 1 else 'are'} in vLLM's first model runner only and {' and '.join(second)} in the second only: vLLM refuses to start",
                "leave one of them out",
            )


def _only_first(seat: Seat) -> Iterator[str]:
    args = seat.args
    speculative = mapping(args.get("speculative_config"))
    compilation = mapping(args.get("compilation_config"))
    if speculative:
        method = method_of(speculative)
        if method not in _DRAFTS and not method.endswith("_mtp"):
            yield f"speculation by {method}"
        elif switch(speculative.get("parallel_drafting")) and method not in ("dflash", "dspark"):
            yield "parallel_drafting"
        elif method == "eagle3" and seat.engine.pipeline > 1:
            yield "eagle3 with pipeline parallel"
    for name in ("enable_dbo", "enable_elastic_ep", "kv_sharing_fast_prefill"):
        if switch(args.get(name)):
            yield name
    if args.get("logits_processors"):
        yield "logits_processors"
    if compilation.get("mode") in _STOCK_COMPILE:
        yield "compilation by torch alone"
    if switch(mapping(compilation.get("pass_config")).get("enable_sp")) and seat.engine.tensor > 1:
        yield "sequence parallel"


def _only_second(seat: Seat) -> Iterator[str]:
    speculative = mapping(seat.args.get("speculative_config"))
    if (whole(seat.args.get("prefill_context_parallel_size")) or 1) > 1:
        yield "prefill context parallel"
    if speculative.get("method") == "dspark":
        yield "speculation by dspark"
    if switch(speculative.get("enable_adaptive_verification")):
        yield "enable_adaptive_verification"
    if switch(seat.args.get("enable_batch_sharded_sampling")):
        yield "enable_batch_sharded_sampling"


RULES: tuple[Rule, ...] = (
    Rule(
        id="engine-model-runner",
        title="What is asked of an engine is in one of vLLM's two model runners",
        why=(
            "vLLM takes its second model runner and falls back to the first where that lacks something. Told to take one by VLLM_USE_V2_MODEL_RUNNER, or asked for things of which each "
            "runner has only some, it refuses to start, in the replica, on a GPU that is paid for."
        ),
        check=runners,
        sources=("intel/intel-xpu-backend-for-triton#7322", "vllm#54591", "vllm 0.29.0: config/vllm.py"),
    ),
)
