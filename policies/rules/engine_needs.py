"""Engine arguments that need another one, another value of it, or another model.

Not for: parallel sizes against model and GPUs (parallelism.py), batch sizes and LoRA limits (engine_args.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from policies.catalog.engine_values import INTEGERS, SWITCHES
from policies.facts import Stack
from policies.facts.quantities import mapping, switch, whole
from policies.finding import Problem, Rule, error, warning

from ._argument_kinds import allowed
from ._engines import Seat, seats
from .engine_values import as_read

_STREAMERS = ("auto", "modelexpress", "runai_streamer", "runai_streamer_sharded")
_SHM_OBJECT_MB = 128  # default
_UBATCHING = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")


@dataclass(frozen=True, slots=True)
class Need:
    """`met` is asked of an engine that has `argument` on, not null and not zero."""

    argument: str
    needs: str
    mend: str
    met: Callable[[Seat], bool]


def _on(*names: str) -> Callable[[Seat], bool]:
    return lambda seat: any(_given(seat, name) for name in names)


def _given(seat: Seat, name: str) -> bool:
    value = seat.args.get(name)
    off = switch(value) is False if name in SWITCHES else value is False and name not in INTEGERS
    return value is not None and not off


def _int(seat: Seat, name: str, default: int = 1) -> int:
    number = whole(seat.args.get(name))
    return default if number is None else number


def _speculates(seat: Seat) -> bool:
    config = seat.args.get("speculative_config")
    if not isinstance(config, dict):
        return True
    method = config.get("method") or seat.args.get("spec_method")
    guessed = bool(config.get("model") or seat.args.get("spec_model")) or method not in (None, "ngram", "ngram_gpu")
    return guessed or config.get("num_speculative_tokens") is not None or _given(seat, "spec_tokens")


def _connects(seat: Seat) -> bool:
    config = seat.args.get("kv_transfer_config")
    return bool(config != {})  # disaggregation-connector judges what is in it


def _formats_output(seat: Seat) -> bool:
    config = mapping(seat.args.get("structured_outputs_config"))
    backend = config.get("backend", "auto")
    plain = not switch(config.get("disable_any_whitespace")) or backend in ("xgrammar", "guidance")
    return plain and (not switch(config.get("disable_additional_properties")) or backend == "guidance")


def _not_longer(seat: Seat) -> bool:
    length = whole(seat.args.get("max_model_len")) or (seat.row.max_position_embeddings if seat.row else None)
    return length is None or _int(seat, "long_prefill_token_threshold", 0) <= length


def _routes_whole(seat: Seat) -> bool:
    parts = (
        seat.engine.pipeline,
        _int(seat, "decode_context_parallel_size"),
        _int(seat, "prefill_context_parallel_size"),
    )
    return max(parts) <= 1 and not seat.engine.kv_transfer


def _streams(seat: Seat) -> bool:
    """Ray Serve LLM downloads what is in a bucket; vLLM alone streams it."""
    remote = not seat.ray and seat.engine.source.lower().startswith(("s3://", "gs://", "az://"))
    return not remote or seat.args.get("load_format") in _STREAMERS


NEEDS: tuple[Need, ...] = (
    Need(
        "collect_detailed_traces",
        "otlp_traces_endpoint",
        "set otlp_traces_endpoint, or leave it out",
        lambda seat: bool(seat.args.get("otlp_traces_endpoint")),
    ),
    Need(
        "data_parallel_external_lb",
        "data_parallel_rank",
        "leave it out: Ray, or the Service, spreads requests over the ranks",
        lambda seat: _given(seat, "data_parallel_rank") or _int(seat, "nnodes") > 1,
    ),
    Need(
        "data_parallel_hybrid_lb",
        "data_parallel_size_local",
        "leave it out, or say how many ranks this node has",
        _on("data_parallel_size_local"),
    ),
    Need(
        "data_parallel_multi_port_external_lb",
        "data_parallel_size over 1",
        "leave it out",
        lambda seat: seat.ray or _int(seat, "data_parallel_size") > 1,
    ),
    Need(
        "data_parallel_rank",
        "data_parallel_size over 1",
        "leave it out",
        lambda seat: _int(seat, "data_parallel_size") > 1,
    ),
    Need(
        "data_parallel_size_local",
        "a data_parallel_size that is not less",
        "leave it out, or lower it",
        lambda seat: _int(seat, "data_parallel_size_local") <= _int(seat, "data_parallel_size"),
    ),
    Need("default_mm_loras", "a multimodal model", "leave it out", lambda seat: not seat.row or _sees(seat)),
    Need(
        "enable_auto_tool_choice",
        "tool_call_parser",
        "name the model's parser (hermes, llama3_json, mistral, ...)",
        _on("tool_call_parser"),
    ),
    Need(
        "enable_dbo",
        f"all2all_backend {', '.join(_UBATCHING[:-1])} or {_UBATCHING[-1]}",
        "set all2all_backend, or leave it out",
        lambda seat: seat.args.get("all2all_backend") in _UBATCHING,
    ),
    Need("enable_elastic_ep", "enable_eplb", "set enable_eplb: true", _on("enable_eplb")),
    Need("enable_eplb", "enable_expert_parallel", "set parallel.expert: true", _on("enable_expert_parallel")),
    Need(
        "enable_fault_tolerance",
        "data_parallel_rank or data_parallel_external_lb",
        "leave it out",
        _on("data_parallel_external_lb", "data_parallel_rank"),
    ),
    Need(
        "fault_tolerance_config",
        "data_parallel_rank or data_parallel_external_lb",
        "leave it out",
        _on("data_parallel_external_lb", "data_parallel_rank"),
    ),
    Need(
        "enable_log_outputs",
        "enable_log_requests",
        "set enable_log_requests: true",
        lambda seat: seat.ray or _given(seat, "enable_log_requests"),
    ),
    Need(
        "enable_mamba_cache_stochastic_rounding",
        "mamba_ssm_cache_dtype float16",
        "set mamba_ssm_cache_dtype: float16, or leave it out",
        lambda seat: seat.args.get("mamba_ssm_cache_dtype") == "float16",
    ),
    Need(
        "enable_return_routed_experts",
        "one pipeline stage, no context parallel and no KV connector",
        "leave it out",
        _routes_whole,
    ),
    Need(
        "kv_transfer_config", "kv_connector in it", "name the connector, or use disaggregation of the model", _connects
    ),
    Need(
        "load_format",
        f"{', '.join(_STREAMERS[1:-1])} or {_STREAMERS[-1]} for weights in a bucket",
        "leave it out: weights are streamed",
        _streams,
    ),
    Need(
        "long_prefill_token_threshold",
        "a max_model_len that is not less",
        "lower it, or leave it out",
        _not_longer,
    ),
    Need(
        "mm_shm_cache_max_object_size_mb",
        "mm_processor_cache_type shm",
        "set mm_processor_cache_type: shm, or leave it out",
        lambda seat: (
            not _sees(seat)
            or seat.args.get("mm_processor_cache_type") == "shm"
            or _int(seat, "mm_shm_cache_max_object_size_mb") == _SHM_OBJECT_MB
        ),
    ),
    Need(
        "nnodes",
        "parallel sizes that it divides",
        "leave it out; an engine over several pods is a ray_service",
        lambda seat: seat.ray or _int(seat, "nnodes") <= 1 or seat.ranks % _int(seat, "nnodes") == 0,
    ),
    Need("numa_bind_cpus", "numa_bind", "set numa_bind: true", _on("numa_bind")),
    Need("numa_bind_nodes", "numa_bind", "set numa_bind: true", _on("numa_bind")),
    Need("ray_workers_use_nsight", "Ray", "leave it out", lambda seat: seat.ray),
    Need(
        "spec_tokens",
        "spec_model, spec_method or speculative_config",
        "use speculative_config: {method: ..., num_speculative_tokens: ...}",
        _on("spec_model", "spec_method", "speculative_config"),
    ),
    Need("speculative_config", "num_speculative_tokens in it", "say how many tokens to guess", _speculates),
    Need(
        "structured_outputs_config",
        "backend xgrammar or guidance for disable_any_whitespace, guidance for disable_additional_properties",
        "set its backend, or leave the switch out",
        _formats_output,
    ),
    Need(
        "ubatch_size",
        f"all2all_backend {', '.join(_UBATCHING[:-1])} or {_UBATCHING[-1]}",
        "set all2all_backend, or leave it out",
        lambda seat: _int(seat, "ubatch_size") <= 1 or seat.args.get("all2all_backend") in _UBATCHING,
    ),
    Need("use_replayssm", "a model with Mamba layers", "leave it out", lambda seat: not seat.row or _has_state(seat)),
)


def _sees(seat: Seat) -> bool:
    return seat.row is not None and seat.row.vision_parameters > 0


def _has_state(seat: Seat) -> bool:
    return seat.row is not None and (seat.row.mamba is not None or seat.row.linear_attention is not None)


def needs(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        say = error if as_read(stack, seat) else warning
        for need in NEEDS:
            value = seat.args.get(need.argument)
            if value is None or allowed(need.argument, value, seat) is not None:
                continue  # not there, or engine-argument-kinds says what is wrong with it
            if _given(seat, need.argument) and not need.met(seat):
                yield say(
                    seat.engine.where,
                    f"engine argument {need.argument} needs {need.needs}: vLLM refuses to start",
                    need.mend,
                )
        if "tensor_parallel_size" in mapping(seat.args.get("speculative_config")):
            yield say(
                seat.engine.where,
                "speculative_config.tensor_parallel_size is refused by vLLM",
                "use draft_tensor_parallel_size",
            )


RULES: tuple[Rule, ...] = (
    Rule(
        id="engine-argument-needs",
        title="Engine arguments have what they need",
        why=(
            "Some arguments mean something only with another one: automatic tool choice with a parser, load balancing of experts with expert parallel, speculation with "
            "a number of tokens. vLLM checks this when the engine starts, in the replica, on a GPU that is paid for."
        ),
        check=needs,
        sources=("vllm 0.29.0: engine/arg_utils.py, config/parallel.py, config/speculative.py, launchers/cli_args.py",),
    ),
)
