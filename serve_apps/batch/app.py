"""The batch job: Ray Data reads files, Ray Data LLM runs vLLM over their rows, Ray Data writes the answers.

Not for requests of people: see openai_chat. Nothing is loaded at import and no environment is read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import ray
from ray.data import Dataset, SaveMode
from ray.data.checkpoint import CheckpointConfig
from ray.data.llm import Processor, build_processor, vLLMEngineProcessorConfig

from .args import BatchArgs, columns

# Ray's CPUs are counters. Reading, templates, tokens and writing take crumbs, so that they fit beside the engine on a pod that
# was sized for it; with a whole one each (Ray Data's default) a job on a small pod waits for ever.
CRUMB = 0.1
_TASK: dict[str, Any] = {"num_cpus": CRUMB}
_ADDED = ("input_tokens", "output_tokens", "error")


@dataclass(frozen=True, slots=True)
class Summary:
    """What a job did."""

    rows: int
    failed: int
    input_tokens: int
    output_tokens: int
    seconds: float


class InputError(Exception):
    """The input cannot be what the job was made for."""


def run(args: BatchArgs) -> Summary:
    """Run the job to its end. Raises InputError, and Ray's own errors; with on_error: keep a row's failure is in its `error`."""
    began = time.monotonic()
    ray.init(ignore_reinit_error=True)
    known = _check_columns(args, _read(args).columns() or [])
    context = ray.data.DataContext.get_current()
    if args.id_column is not None:
        # Only now: every run with it that ends well, a look at the columns too, deletes what an earlier attempt left.
        context.checkpoint_config = CheckpointConfig(
            id_column=args.id_column, checkpoint_path=f"{args.output.rstrip('/')}.checkpoint"
        )
    answers = build(args)(_read(args)).map(_finish(args, known), **_TASK)
    _write(args, answers)
    context.checkpoint_config = None  # what is read back for the summary is no part of the job
    return _summary(args, time.monotonic() - began)


def build(args: BatchArgs) -> Processor:
    """Ray Data LLM's processor: preparation, chat template, tokens, engine, text."""
    engine = args.llm_config
    stage = {"num_cpus": CRUMB, "concurrency": 1}
    text = args.task == "generate"
    config = vLLMEngineProcessorConfig(
        model_source=engine.model_loading_config.model_source,
        engine_kwargs=dict(engine.engine_kwargs),
        task_type="generate" if text else "embed",
        accelerator_type=engine.accelerator_type,
        placement_group_config=engine.placement_group_config,
        runtime_env=engine.runtime_env or None,
        concurrency=args.concurrency,
        batch_size=args.batch_size,
        should_continue_on_error=args.on_error == "keep",
        chat_template_stage=stage if text and args.chat else False,
        tokenize_stage=stage,
        detokenize_stage=stage if text else False,
    )
    return build_processor(config, preprocess=_prepare(args), preprocess_map_kwargs=_TASK, postprocess_map_kwargs=_TASK)


def _read(args: BatchArgs) -> Dataset:
    read = {
        "jsonl": ray.data.read_json,
        "parquet": ray.data.read_parquet,
        "csv": ray.data.read_csv,
        "text": ray.data.read_text,
    }[args.format()]
    # Which suffix a file has does not matter: the format is what the arguments say.
    more = {} if args.format() == "parquet" else {"file_extensions": None}
    rows: Dataset = read(args.input, **_TASK, **more)
    return rows if args.limit is None else rows.limit(args.limit)


def _check_columns(args: BatchArgs, known: list[str]) -> list[str]:
    needed = [args.messages_column] if args.messages_column else list(columns(args.prompt))
    needed += [args.id_column] if args.id_column else []
    missing = [name for name in needed if name not in known]
    if missing:
        raise InputError(
            f"input '{args.input}': no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, known)) or 'none'}"
        )
    taken = [name for name in (args.output_column, *_ADDED) if name in known]
    if taken:
        raise InputError(
            f"input '{args.input}': column {', '.join(map(repr, taken))} is one that the results add; rename it"
        )
    return known


def _prepare(args: BatchArgs) -> Any:
    names = columns(args.prompt)
    params = args.sampling.params()

    def prepare(row: dict[str, Any]) -> dict[str, Any]:
        asked: dict[str, Any] = {"sampling_params": params} if args.task == "generate" else {}
        if args.messages_column is not None:
            return {**asked, "messages": row[args.messages_column]}
        prompt = args.prompt.format(**{name: row[name] for name in names})
        if args.task == "embed" or not args.chat:
            return {**asked, "prompt": prompt}
        system = [{"role": "system", "content": args.system}] if args.system is not None else []
        return {**asked, "messages": [*system, {"role": "user", "content": prompt}]}

    return prepare


def _finish(args: BatchArgs, known: list[str]) -> Any:
    answer = "generated_text" if args.task == "generate" else "embeddings"

    def finish(row: dict[str, Any]) -> dict[str, Any]:
        error = str(row.get("__inference_error__") or "")
        return {
            **{name: row[name] for name in known},
            args.output_column: None if error else row[answer],
            "input_tokens": int(row.get("num_input_tokens") or 0),
            "output_tokens": int(row.get("num_generated_tokens") or 0),
            "error": error,
        }

    return finish


def _write(args: BatchArgs, answers: Dataset) -> None:
    write = answers.write_json if args.output_format == "jsonl" else answers.write_parquet
    mode = SaveMode.OVERWRITE if args.id_column is None else SaveMode.APPEND
    write(args.output, mode=mode, ray_remote_args=_TASK)


def _summary(args: BatchArgs, seconds: float) -> Summary:
    read = ray.data.read_json if args.output_format == "jsonl" else ray.data.read_parquet

    def figures(row: dict[str, Any]) -> dict[str, int]:
        return {
            "rows": 1,
            "failed": int(bool(row["error"])),
            "input_tokens": row["input_tokens"],
            "output_tokens": row["output_tokens"],
        }

    names = ["rows", "failed", "input_tokens", "output_tokens"]
    sums = read(args.output, **_TASK).map(figures, **_TASK).sum(names)
    return Summary(**{name: int(sums[f"sum({name})"] or 0) for name in names}, seconds=round(seconds, 1))
