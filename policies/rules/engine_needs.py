"""Engine arguments that need another one, another value of it, or another model.

Not for: parallel sizes against model and GPUs (parallelism.py), batch sizes and LoRA limits (engine_args.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policies.facts import Stack
from policies.facts.quantities import mapping, real, switch, whole
from policies.finding import Problem, Rule, error, warning

from ._argument_kinds import allowed
from ._engines import Seat, literal_env, seats
from ._needs import Need, given, number, on
from ._rank_needs import RANKS
from .engine_values import as_read
from .speculation import WITH_LAYERS, family

_STREAMERS = ("auto", "modelexpress", "runai_streamer", "runai_streamer_sharded")
_SHM_OBJECT_MB = 128  # default
# (argument, key of a mapping): two ways to say one thing, of which vLLM takes one (engine/arg_utils.py create_engine_config).
_TWICE = (
    ("attention_backend", "attention_config", "backend"),
    ("cudagraph_capture_sizes", "compilation_config", "cudagraph_capture_sizes"),
    ("enable_flashinfer_autotune", "kernel_config", "enable_flashinfer_autotune"),
    ("max_cudagraph_capture_size", "compilation_config", "max_cudagraph_capture_size"),
    ("spec_method", "speculative_config", "method"),
    ("spec_model", "speculative_config", "model"),
    ("spec_tokens", "speculative_config", "num_speculative_tokens"),
)


def _speculates(seat: Seat) -> bool:
    config = seat.args.get("speculative_config")
    if not isinstance(config, dict):
        return True
    method = config.get("method") or seat.args.get("spec_method")
    guessed = bool(config.get("model") or seat.args.get("spec_model")) or method not in (None, "ngram", "ngram_gpu")
    return guessed or config.get("num_speculative_tokens") is not None or given(seat, "spec_tokens")


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
    return length is None or number(seat, "long_prefill_token_threshold", 0) <= length


def _routes_whole(seat: Seat) -> bool:
    parts = (
        seat.engine.pipeline,
        number(seat, "decode_context_parallel_size"),
        number(seat, "prefill_context_parallel_size"),
    )
    return max(parts) <= 1 and not seat.engine.kv_transfer


def _streams(seat: Seat) -> bool:
    """Ray Serve LLM downloads what is in a bucket; vLLM alone streams it."""
    remote = not seat.ray and seat.engine.source.lower().startswith(("s3://", "gs://", "az://"))
    return not remote or seat.args.get("load_format") in _STREAMERS


NEEDS: tuple[Need, ...] = (
    *RANKS,
    Need(
        "collect_detailed_traces",
        "otlp_traces_endpoint",
        "set otlp_traces_endpoint, or leave it out",
        lambda seat: bool(seat.args.get("otlp_traces_endpoint")),
    ),
    Need("default_mm_loras", "a multimodal model", "leave it out", lambda seat: not seat.row or _sees(seat)),
    Need(
        "enable_auto_tool_choice",
        "tool_call_parser",
        "name the model's parser (hermes, llama3_json, mistral, ...)",
        on("tool_call_parser"),
    ),
    Need(
        "enable_log_outputs",
        "enable_log_requests",
        "set enable_log_requests: true",
        lambda seat: seat.ray or given(seat, "enable_log_requests"),
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
        "kv_sharing_fast_prefill",
        "no draft that reads the model's hidden states",
        "leave one of the two out",
        lambda seat: family(mapping(seat.args.get("speculative_config"))) not in WITH_LAYERS,
    ),
    Need(
        "kv_transfer_config", "kv_connector in it", "name the connector, or use disaggregation of the model", _connects
    ),
    Need(
        "language_model_only",
        "no CUDA graphs of the encoder that it leaves out",
        "leave compilation_config.cudagraph_mm_encoder out",
        lambda seat: (
            not _sees(seat) or not switch(mapping(seat.args.get("compilation_config")).get("cudagraph_mm_encoder"))
        ),
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
            or number(seat, "mm_shm_cache_max_object_size_mb") == _SHM_OBJECT_MB
        ),
    ),
    Need(
        "mm_tensor_ipc",
        "one GPU, and VLLM_WORKER_MULTIPROC_METHOD spawn, beside torch_shm",
        'set VLLM_WORKER_MULTIPROC_METHOD: "spawn" in the environment of an engine on one GPU, or leave it out',
        lambda seat: seat.args.get("mm_tensor_ipc") != "torch_shm" or not _sees(seat) or _hands_over(seat),
    ),
    Need(
        "pooler_config",
        "pooling_type alone, or the types of sequences and tokens without it",
        "leave pooling_type out of it",
        lambda seat: _one_way(mapping(seat.args.get("pooler_config"))),
    ),
    Need(
        "profiler_config",
        "profiler torch and torch_profiler_dir together",
        "give both, or leave both out of it",
        lambda seat: _writes_traces(mapping(seat.args.get("profiler_config"))),
    ),
    Need(
        "renderer_num_workers",
        "mm_processor_cache_gb 0 for a model that sees and embeds",
        "leave it out, or set mm_processor_cache_gb: 0",
        lambda seat: (
            number(seat, "renderer_num_workers") <= 1
            or seat.args.get("runner") != "pooling"
            or not _sees(seat)
            or real(seat.args.get("mm_processor_cache_gb")) == 0
        ),
    ),
    Need(
        "spec_tokens",
        "spec_model, spec_method or speculative_config",
        "use speculative_config: {method: ..., num_speculative_tokens: ...}",
        on("spec_model", "spec_method", "speculative_config"),
    ),
    Need("speculative_config", "num_speculative_tokens in it", "say how many tokens to guess", _speculates),
    Need(
        "structured_outputs_config",
        "backend xgrammar or guidance for disable_any_whitespace, guidance for disable_additional_properties",
        "set its backend, or leave the switch out",
        _formats_output,
    ),
    Need("use_replayssm", "a model with Mamba layers", "leave it out", lambda seat: not seat.row or _has_state(seat)),
)


def _one_way(pooler: Mapping[str, Any]) -> bool:
    return not pooler.get("pooling_type") or not (pooler.get("seq_pooling_type") or pooler.get("tok_pooling_type"))


def _writes_traces(profiler: Mapping[str, Any]) -> bool:
    return (profiler.get("profiler") == "torch") == bool(profiler.get("torch_profiler_dir"))


def _sees(seat: Seat) -> bool:
    return seat.row is not None and seat.row.vision_parameters > 0


def _hands_over(seat: Seat) -> bool:
    """Whether images can go to the worker in torch's shared memory; Ray's actors are spawned."""
    spawned = seat.ray or literal_env(seat, "VLLM_WORKER_MULTIPROC_METHOD") == "spawn"
    return spawned and seat.ranks == 1


def _has_state(seat: Seat) -> bool:
    return seat.row is not None and (seat.row.mamba is not None or seat.row.linear_attention is not None)


def needs(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        say = error if as_read(stack, seat) else warning
        for need in NEEDS:
            value = seat.args.get(need.argument)
            if value is None or allowed(need.argument, value, seat) is not None:
                continue  # not there, or engine-argument-kinds says what is wrong with it
            if given(seat, need.argument) and not need.met(seat):
                yield say(
                    seat.engine.where,
                    f"engine argument {need.argument} needs {need.needs}: vLLM refuses to start",
                    need.mend,
                )
        for name, config, key in _TWICE:
            if seat.args.get(name) is not None and mapping(seat.args.get(config)).get(key) not in (None, "auto"):
                yield say(
                    seat.engine.where,
                    f"{name} and {config}.{key} are two ways to say one thing: vLLM takes one of them and refuses both",
                    f"leave {name} out",
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
