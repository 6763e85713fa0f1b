"""Arguments of the batch job. Imported by the components that write them and by the job that reads them: pydantic only.

The names of the engine's part are those of the OpenAI app, so that rules read both alike; sampling has vLLM's own names
(vllm/sampling_params.py, 0.29.0).
"""

from __future__ import annotations

import string
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Input = Literal["jsonl", "parquet", "csv", "text"]
SUFFIXES: dict[str, Input] = {
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".csv": "csv",
    ".txt": "text",
}
"""Format of an input by its suffix; `.gz` behind it is read as well."""
Count = Annotated[int, Field(ge=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=())


class ModelLoading(_Strict):
    """Name and weights of the model."""

    model_id: str
    """Name of the model in the stack."""
    model_source: str
    """Hugging Face id, local folder, or s3://..."""


class BatchEngine(_Strict):
    """The engine, in the words of the OpenAI app's LLMConfig; what only Serve has is not here."""

    model_loading_config: ModelLoading
    """Name and weights."""
    engine_kwargs: dict[str, Any] = {}
    """vLLM engine arguments."""
    accelerator_type: str | None = None
    """Ray accelerator type."""
    accelerator_config: dict[str, Any] | None = None
    """{kind: cpu} for an engine on CPU."""
    placement_group_config: dict[str, Any] | None = None
    """bundle_per_worker or bundles, and strategy."""
    runtime_env: dict[str, Any] = {}
    """env_vars of the engine."""

    @model_validator(mode="after")
    def _one_rank(self) -> BatchEngine:
        if self.engine_kwargs.get("data_parallel_size", 1) != 1:
            raise ValueError("data_parallel_size: a batch job runs engines side by side by `replicas`, not by ranks")
        return self


class Sampling(_Strict):
    """How answers are sampled."""

    max_tokens: Count = 256
    """Most tokens of an answer."""
    min_tokens: int = Field(default=0, ge=0)
    """Fewest tokens of an answer."""
    temperature: float = Field(default=0.0, ge=0)
    """0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Probability mass that is sampled from."""
    top_k: int = Field(default=0, ge=-1)
    """Tokens that are sampled from; 0 is all."""
    min_p: float = Field(default=0.0, ge=0, le=1)
    """Least probability relative to the likeliest token's."""
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    """Penalty on tokens that have occurred."""
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    """Penalty on tokens by how often they have occurred."""
    repetition_penalty: float = Field(default=1.0, gt=0)
    """Over 1: new tokens are favoured."""
    seed: int | None = None
    """Seed of each row's sampling."""
    stop: tuple[str, ...] = ()
    """Strings that end an answer."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end an answer."""
    ignore_eos: bool = False
    """Go on after the end-of-text token."""
    structured_outputs: dict[str, Any] | None = None
    """{json: schema}, {regex: ...}, {choice: [...]} or {grammar: ...}: the form of every answer."""

    def params(self) -> dict[str, Any]:
        """As vLLM's SamplingParams takes it: only what was given, and the two that differ from vLLM's defaults."""
        given = self.model_dump(mode="json", exclude_unset=True)
        return {"max_tokens": self.max_tokens, "temperature": self.temperature, **given}


class BatchArgs(_Strict):
    """A model over the rows of files: what is read, what is asked of each row, where answers go."""

    llm_config: BatchEngine
    """The engine; derived from the service's one model."""
    concurrency: tuple[Count, Count] = (1, 1)
    """Fewest and most engines; derived from the model's replicas."""
    input: str
    """File, folder or pattern: a path that every pod has (a mounted volume), or s3://, gs://, hf://..."""
    input_format: Input | None = None
    """jsonl, parquet, csv or text (one column `text`); derived from the suffix."""
    output: str
    """Folder of the results, one file or more: a path that every pod has, or s3://... What is in it is replaced, unless `id_column` is given."""
    output_format: Literal["jsonl", "parquet"] = "jsonl"
    """Format of the results: the input's columns, and beside them `output_column`, input_tokens, output_tokens, error."""
    id_column: str | None = None
    """Column of unique ids. With it finished rows are remembered in `<output>.checkpoint`, and a retry goes on instead of starting again."""
    task: Literal["generate", "embed"] = "generate"
    """generate: text; embed: a vector for each row."""
    prompt: str = "{prompt}"
    """What the model gets of a row, with columns in braces, e.g. "Summarise: {text}"."""
    system: str | None = None
    """System message before the prompt."""
    messages_column: str | None = None
    """Column with messages as the chat API takes them, in place of `prompt` and `system`."""
    chat: bool = True
    """Apply the model's chat template; false for base models, which go on with the prompt as it stands."""
    sampling: Sampling = Sampling()
    """How answers are sampled."""
    output_column: str = "response"
    """Column of the answers."""
    batch_size: Count = 32
    """Rows handed to an engine at a time."""
    on_error: Literal["fail", "keep"] = "fail"
    """fail: a row that cannot be answered ends the job; keep: it has the reason in the column `error`, and the others go on."""
    limit: Count | None = None
    """Only the first rows: to try a job out."""

    @model_validator(mode="after")
    def _fits_together(self) -> BatchArgs:
        fewest, most = self.concurrency
        if fewest > most:
            raise ValueError(f"concurrency: {fewest} engines at least are more than the {most} at most")
        self.format()
        columns(self.prompt)
        if self.messages_column is not None:
            for field in ("prompt", "system"):
                if field in self.model_fields_set:
                    raise ValueError(
                        f"{field}: with messages_column the messages are the whole prompt; give one of them"
                    )
        if not self._chats():
            for field in ("system", "messages_column"):
                if getattr(self, field) is not None:
                    raise ValueError(
                        f"{field}: needs the chat template, which `task: embed` and `chat: false` do without"
                    )
        if self.task == "embed" and "sampling" in self.model_fields_set:
            raise ValueError("sampling: `task: embed` samples nothing; leave it out")
        return self

    def _chats(self) -> bool:
        return self.chat and self.task == "generate"

    def format(self) -> Input:
        """The input's format. Raises ValueError where neither it nor the suffix says."""
        if self.input_format is not None:
            return self.input_format
        path = self.input.lower().removesuffix(".gz")
        for suffix, known in SUFFIXES.items():
            if path.endswith(suffix):
                return known
        raise ValueError(
            f"input '{self.input}': no format can be told from its end; give input_format, or one of {', '.join(SUFFIXES)}"
        )

    def dump(self) -> dict[str, Any]:
        """As it is written into the job's command: only what was given."""
        return self.model_dump(mode="json", exclude_unset=True)


def columns(template: str) -> tuple[str, ...]:
    """The columns that a prompt names. Raises ValueError for a template that Python cannot format, or that names none."""
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise ValueError(f"prompt {template!r}: {error}; a brace that is meant as one is written twice") from None
    if not all(name.isidentifier() for name in names):
        raise ValueError(
            f"prompt {template!r}: braces hold the name of a column; a brace that is meant as one is written twice"
        )
    if not names:
        raise ValueError(f"prompt {template!r}: names no column, so that every row would get the same; e.g. {{prompt}}")
    return tuple(dict.fromkeys(names))
