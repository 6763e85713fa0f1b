"""Adapters: models that take them, ranks that their kernels take, and settings that come with them.

Not for: memory of adapters (policies/fit), or where Ray Serve LLM finds them (engine_args.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.catalog.architectures import NO_LORA
from policies.facts import Stack
from policies.facts.quantities import mapping, switch, whole
from policies.finding import Problem, Rule, error, warning
from policies.fit.shape import resolved_batch

from ._engines import Seat, seats, vllm_version
from ._values import before
from .engine_values import as_read

_LORA = ("fully_sharded_loras", "lora_dtype", "max_cpu_loras", "max_lora_rank", "max_loras")
_DEFAULT_RANK = 16
_MOE_RANK = 128  # lora/ops/triton_ops/fused_moe_lora_op.py
_PLAIN_EXCHANGE = "allgather_reducescatter"


def adapters(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        asked = switch(seat.args.get("enable_lora")) or seat.engine.lora is not None
        if asked and seat.row is not None and seat.row.architecture in NO_LORA:
            yield (error if as_read(stack, seat) else warning)(
                seat.engine.where,
                f"{seat.row.name} is a {seat.row.architecture}, which takes no LoRA adapters: vLLM refuses to start",
                "serve it without adapters, or merge the adapter into the weights",
            )
        say = error if as_read(stack, seat) else warning
        if asked and seat.engine.expert and seat.row is not None and seat.row.moe is not None:
            for message, mend in _spread_adapters(seat):
                yield say(seat.engine.where, message, mend)
        if seat.args.get("lora_modules") and not asked:
            yield say(
                seat.engine.where,
                "lora_modules without enable_lora: vLLM loads them when it starts, has no place for them, and ends",
                "set enable_lora: true, with max_lora_rank of the largest adapter",
            )
        rank = whole(seat.args.get("max_lora_rank"))
        if asked and rank is not None and rank > _MOE_RANK and seat.row is not None and seat.row.moe is not None:
            sure = as_read(stack, seat) and not before(vllm_version(stack, seat.workload), "0.28")
            yield (error if sure else warning)(
                seat.engine.where,
                f"max_lora_rank {rank} and {seat.row.name}, whose experts' kernel takes adapters up to rank {_MOE_RANK}: the first request with an adapter ends the engine",
                f"set max_lora_rank to {_MOE_RANK} or less",
            )
        if asked:
            for message, mend in _guessed(seat):
                yield say(seat.engine.where, message, mend)
        size, tensor = _DEFAULT_RANK if rank is None else rank, seat.engine.tensor
        if asked and switch(seat.args.get("fully_sharded_loras")) and size % tensor:
            yield say(
                seat.engine.where,
                f"fully_sharded_loras cuts max_lora_rank {size} over tensor parallel {tensor}, which does not divide it: vLLM ends while it loads the model",
                "leave fully_sharded_loras out, or raise max_lora_rank to a multiple",
            )
        if switch(seat.args.get("enable_lora")):
            continue
        given = [name for name in _LORA if seat.args.get(name) is not None]
        if given and seat.engine.lora is None:
            yield warning(
                seat.engine.where,
                f"{', '.join(given)} without enable_lora: no adapter is ever served",
                "set enable_lora: true, or take them out",
            )


def _guessed(seat: Seat) -> Iterator[tuple[str, str]]:
    """With adapters a step must hold the guesses of all requests (EngineArgs.create_engine_config)."""
    guesses = whole(mapping(seat.args.get("speculative_config")).get("num_speculative_tokens"))
    tokens, requests = (whole(seat.args.get(name)) for name in ("max_num_batched_tokens", "max_num_seqs"))
    if seat.row is not None and seat.device is not None:
        tokens, requests = resolved_batch(seat.row, seat.shape, seat.device.memory_mib, seat.device.gpu)
    if guesses and tokens and requests and tokens < requests * (guesses + 1):
        yield (
            f"speculation of {guesses} tokens for each of {requests} requests and adapters: a step of {tokens} tokens (max_num_batched_tokens) is less than "
            f"the {requests * (guesses + 1)} that vLLM wants, and it refuses to start",
            f"set max_num_seqs to {tokens // (guesses + 1)} or less, or max_num_batched_tokens to {requests * (guesses + 1)}",
        )


def _spread_adapters(seat: Seat) -> Iterator[tuple[str, str]]:
    """(message, mend) of what adapters and expert parallel do not do together (lora/layers/fused_moe.py _ep_check, _verify_ep_fs)."""
    if switch(seat.args.get("fully_sharded_loras")):
        yield (
            "fully_sharded_loras and expert parallel both cut adapters of experts: vLLM ends while it loads the model",
            "leave one of the two out",
        )
    exchange = seat.args.get("all2all_backend")
    if exchange is not None and exchange != _PLAIN_EXCHANGE and seat.engine.data > 1:
        yield (
            f"all2all_backend {exchange} and adapters of experts, which vLLM has for {_PLAIN_EXCHANGE} only: it ends while it loads the model",
            "leave all2all_backend out",
        )


RULES: tuple[Rule, ...] = (
    Rule(
        id="model-adapters",
        title="Adapters are for models that take them, and their settings come with adapters",
        why=(
            "Limits of LoRA are read only where LoRA is on: the service then starts, and the first request for an adapter is refused. Some architectures take no "
            "adapters; vLLM finds that after it has loaded the weights."
        ),
        check=adapters,
        sources=(
            "vllm#55158",
            "vllm PR#40867",
            "vllm#20944",
            "vllm PR#21068",
            "vllm 0.29.0: engine/arg_utils.py, v1/worker/lora_model_runner_mixin.py, lora/layers/fused_moe.py, lora/layers/base_linear.py",
        ),
    ),
)
