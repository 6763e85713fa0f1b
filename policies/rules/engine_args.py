"""Arguments that Ray Serve LLM and vLLM read: names that exist, in the version at hand, in values that go together.

Not for: arguments with a rule of their own (parallel sizes, memory, dtype, quantisation, KV transfer).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from policies.catalog.engine_args import ENGINE_ARGS, FRONTEND_ARGS, GONE, LATER, NEWEST, SERVER_ARGS, SINCE
from policies.catalog.lookup import closest_names
from policies.catalog.quantizations import LOAD_FORMATS
from policies.facts import Stack
from policies.facts.quantities import mapping, switch, whole
from policies.finding import Problem, Rule, error, warning

from ._engines import Seat, seats, vllm_version
from ._values import before, version

_NAMES = frozenset(ENGINE_ARGS)
_FRONTEND = frozenset(FRONTEND_ARGS)
_SERVER = frozenset(SERVER_ARGS)
_PADDED = 2  # of RoBERTa's positions the first two are no tokens
# Forms that vLLM writes itself, and the keys of model_loader_extra_config that say where such files are.
_SAVED = {
    "runai_streamer_sharded": "model-rank-*-part-*.safetensors",
    "sharded_state": "model-rank-*-part-*.safetensors",
    "tensorizer": "model.tensors",
}
_ELSEWHERE = ("tensorizer_dir", "tensorizer_uri")
_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


def names(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        vllm = vllm_version(stack, seat.workload)
        for name in seat.args:
            problem = _name(str(name), vllm, seat.ray)
            if problem is None:
                continue
            severity, message, mend = problem
            yield (error if severity == "error" else warning)(seat.engine.where, message, mend)


@lru_cache(maxsize=4096)
def _name(name: str, vllm: str | None, ray: bool) -> tuple[str, str, str] | None:
    """(severity, message, mend) of an argument's name; None where it is right."""
    if ray and name in ("model", "served_model_name"):
        field = "source" if name == "model" else "the model's key"
        return (
            "error",
            f"engine argument {name} is not allowed with Ray Serve LLM, which sets it itself",
            f"take it out; it is {field} here (model_loading_config)",
        )
    if vllm is not None and name in GONE and not before(vllm, GONE[name][0]):
        gone, mend = GONE[name]
        return (
            "error",
            f"engine argument {name} is gone since vLLM {gone} and this is {vllm}: the engine refuses to start",
            mend,
        )
    first = LATER.get(name) or (SINCE.get(name) if name in _NAMES else None)
    if name in _NAMES or name in LATER:
        if first is not None and before(vllm, first):
            return (
                "error",
                f"engine argument {name} came with vLLM {first} and this is {vllm}: it is unknown there",
                f"use vLLM {first} or newer, or take it out",
            )
        return None
    if name in _FRONTEND or (not ray and name in _SERVER):
        return None
    if name in GONE and not (vllm is not None and before(vllm, "0.30") and not before(GONE[name][0], "0.30")):
        return None  # of versions before this one, or of which it is not known when they began
    near = closest_names(name, (*ENGINE_ARGS, *LATER, *FRONTEND_ARGS), 1)
    hint = f"did you mean '{near[0]}'?" if near else "take it out, or use an argument of vLLM's EngineArgs"
    if vllm is None or _outside(vllm):
        return "warning", f"engine argument '{name}' is none that vLLM up to {NEWEST} has", hint
    return (
        "error",
        f"engine argument '{name}' is unknown to vLLM {vllm}: Ray builds no application with it"
        if ray
        else f"argument '{name}' is unknown to vLLM {vllm}",
        hint,
    )


def _outside(vllm: str) -> bool:
    """Newer than what was compared, or so old that arguments of then may be missing here."""
    numbers, newest = version(vllm), version(NEWEST)
    return numbers is None or newest is None or numbers[:2] > newest[:2] or numbers[:2] < (0, 10)


def values(stack: Stack) -> Iterator[Problem]:
    for seat in seats(stack):
        yield from _batch(seat)
        yield from _lora(seat)
        yield from _load(seat, vllm_version(stack, seat.workload))
        if (
            seat.args.get("disable_log_stats") is True
            and seat.ray
            and seat.engine.llm_config.get("log_engine_metrics", True) is not False
        ):
            yield error(
                seat.engine.where,
                "disable_log_stats is true and log_engine_metrics is on: Ray refuses the two together",
                "take disable_log_stats out",
            )


def _batch(seat: Seat) -> Iterator[Problem]:
    args, where = seat.args, seat.engine.where
    tokens, sequences, length = (
        whole(args.get(name)) for name in ("max_num_batched_tokens", "max_num_seqs", "max_model_len")
    )
    for name, number in (("max_num_batched_tokens", tokens), ("max_num_seqs", sequences)):
        given = args.get(name)
        if given is not None and (number is None or number < 1) and not isinstance(given, str):
            yield error(where, f"{name} is {given!r}; allowed: a whole number from 1", "give a number, or leave it out")
    if tokens is not None and sequences is not None and 1 <= tokens < sequences:
        yield error(
            where,
            f"max_num_batched_tokens {tokens} is less than max_num_seqs {sequences}: each running request needs a token in a step",
            f"set max_num_batched_tokens to {sequences} or more",
        )
    longest = length if length and length > 0 else (seat.row.max_position_embeddings if seat.row else None)
    why = _unchunked(seat)
    if why and not length and seat.row is not None and seat.row.encoder_only:
        longest = seat.row.max_position_embeddings - _PADDED
    if why and tokens is not None and longest is not None and tokens < longest:
        yield error(
            where,
            f"{why} and max_num_batched_tokens {tokens} is less than max_model_len {longest}: vLLM refuses to start",
            f"set max_num_batched_tokens to {longest}, or lower max_model_len",
        )


def _unchunked(seat: Seat) -> str:
    """Why a prompt is read in one step, if it is (vllm 0.29.0: config/model.py, is_chunked_prefill_supported)."""
    chunked = switch(seat.args.get("enable_chunked_prefill"))
    if chunked is not None:
        return "" if chunked else "chunked prefill is off"
    if seat.row is not None and seat.row.encoder_only:
        return f"{seat.row.name} reads a text from both ends, in one step,"
    config = mapping(seat.args.get("pooler_config"))
    kinds = [str(config.get(name)).upper() for name in ("pooling_type", "seq_pooling_type", "tok_pooling_type")]
    of_all = [kind for kind in kinds if kind in ("MEAN", "CLS", "STEP")]
    return f"pooling by {of_all[0]} takes a text in one step" if of_all else ""


def _lora(seat: Seat) -> Iterator[Problem]:
    args, where = seat.args, seat.engine.where
    rank = args.get("max_lora_rank")
    if rank is not None and whole(rank) not in _LORA_RANKS:
        yield error(
            where,
            f"max_lora_rank is {rank!r}; allowed: {', '.join(map(str, _LORA_RANKS))}",
            "use the next one that is allowed",
        )
    loaded, cached = whole(args.get("max_loras")), whole(args.get("max_cpu_loras"))
    if loaded is not None and cached is not None and cached < loaded:
        yield error(
            where, f"max_cpu_loras {cached} is less than max_loras {loaded}", f"set max_cpu_loras to {loaded} or more"
        )
    if seat.engine.lora is None or not seat.ray:
        return
    if args.get("enable_lora") is not True:
        yield error(
            where,
            "lora_config is set and enable_lora is not: the engine refuses every adapter",
            "set enable_lora: true",
        )
    path = str(seat.engine.lora.get("dynamic_lora_loading_path") or "")
    if path and not path.startswith(("s3://", "gs://", "abfss://", "azure://", "pyarrow-")):
        yield error(
            where,
            f"LoRA path '{path}' is not remote; allowed: s3://, gs://, abfss:// or azure://",
            "put the adapters into a bucket",
        )


def _load(seat: Seat, vllm: str | None) -> Iterator[Problem]:
    given = seat.args.get("load_format")
    if given is None or vllm is None or before(vllm, "0.29"):
        return
    name = str(given)
    if name not in LOAD_FORMATS:
        near = closest_names(name, LOAD_FORMATS, 1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        yield error(
            seat.engine.where,
            f"load_format '{name}' is none that vLLM has",
            f"{hint}allowed: {', '.join(LOAD_FORMATS)}",
        )
    elif name == "dummy":
        yield warning(
            seat.engine.where,
            "load_format dummy fills the weights with random numbers: answers are noise",
            "leave it out, except for benchmarks",
        )
    elif name in _SAVED and _of_hub(seat):
        yield error(
            seat.engine.where,
            f"load_format {name} reads weights that vLLM saved in that form ({_SAVED[name]}), and {seat.engine.source} on the hub has none: the engine fails when it loads",
            "save the weights in that form and set source to where they are, or leave load_format out",
        )


def _of_hub(seat: Seat) -> bool:
    extra = mapping(seat.args.get("model_loader_extra_config"))
    known = seat.row is not None and seat.engine.source in (seat.row.name, *seat.row.aliases)
    return known and not any(extra.get(key) for key in _ELSEWHERE)


RULES: tuple[Rule, ...] = (
    Rule(
        id="engine-arguments",
        title="Engine arguments are those of this vLLM",
        why=(
            "LLMConfig takes any engine_kwargs; an unknown one fails only when the application is built on the cluster ('Unknown engine argument'). vLLM renames and "
            "removes arguments with most releases: device, swap_space, task and others are gone from current ones. model and served_model_name belong to Ray."
        ),
        check=names,
        sources=("ray 2.60.0: vllm_models.py from_llm_config", "vllm 0.8 to 0.32: engine/arg_utils.py"),
    ),
    Rule(
        id="engine-argument-values",
        title="Engine arguments go together",
        why="vLLM checks batch sizes, LoRA limits and load formats against each other when it starts, after the node, the image and often the download.",
        check=values,
        sources=(
            "vllm 0.29.0: config/scheduler.py, config/lora.py, model_loader/__init__.py",
            "vllm#32807",
            "ray 2.60.0: llm_config.py",
        ),
    ),
)
