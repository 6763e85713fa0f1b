"""What a batch job takes, and what it says to wrong arguments."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from serve_apps.batch.args import BatchArgs, columns

ENGINE = {"model_loading_config": {"model_id": "m", "model_source": "/models/m"}}
ARGS: dict[str, Any] = {"llm_config": ENGINE, "input": "s3://bucket/questions.jsonl", "output": "s3://bucket/answers"}


def said(**changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        BatchArgs.model_validate({**ARGS, **changes})
    (error,) = caught.value.errors()
    return str(error["msg"]).removeprefix("Value error, ")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"input": "/data/in.csv.gz"},
        {"input": "/data/folder", "input_format": "parquet"},
        {"prompt": "Summarise {title}:\n{text} as {{JSON}}", "system": "You are brief."},
        {"messages_column": "messages"},
        {"task": "embed", "prompt": "{text}"},
        {"chat": False, "prompt": "{text}"},
        {"concurrency": [1, 4], "id_column": "id", "on_error": "keep", "limit": 10},
        {"sampling": {"structured_outputs": {"choice": ["yes", "no"]}, "stop": ["\n"]}},
    ],
)
def test_what_is_right_is_taken(changes: dict[str, Any]) -> None:
    args = BatchArgs.model_validate({**ARGS, **changes})
    assert BatchArgs.model_validate(args.dump()) == args


@pytest.mark.parametrize(
    "changes, sentence",
    [
        (
            {"input": "/data/folder"},
            "input '/data/folder': no format can be told from its end; give input_format, or one of "
            ".jsonl, .json, .ndjson, .parquet, .csv, .txt",
        ),
        (
            {"prompt": "Say hello."},
            "prompt 'Say hello.': names no column, so that every row would get the same; e.g. {prompt}",
        ),
        (
            {"prompt": 'Answer as {"a": 1}: {text}'},
            "prompt 'Answer as {\"a\": 1}: {text}': braces hold the name of a column; a brace that is meant as one is written twice",
        ),
        (
            {"prompt": "{text"},
            "prompt '{text': expected '}' before end of string; a brace that is meant as one is written twice",
        ),
        (
            {"messages_column": "m", "system": "You are brief."},
            "system: with messages_column the messages are the whole prompt; give one of them",
        ),
        (
            {"chat": False, "system": "You are brief."},
            "system: needs the chat template, which `task: embed` and `chat: false` do without",
        ),
        (
            {"task": "embed", "sampling": {"max_tokens": 1}},
            "sampling: `task: embed` samples nothing; leave it out",
        ),
        ({"concurrency": [3, 2]}, "concurrency: 3 engines at least are more than the 2 at most"),
        (
            {"llm_config": {**ENGINE, "engine_kwargs": {"data_parallel_size": 2}}},
            "data_parallel_size: a batch job runs engines side by side by `replicas`, not by ranks",
        ),
        ({"sampling": {"temperature": -1}}, "Input should be greater than or equal to 0"),
        ({"llm_config": {**ENGINE, "deployment_config": {"num_replicas": 2}}}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], sentence: str) -> None:
    assert said(**changes) == sentence


def test_a_prompt_names_each_column_once() -> None:
    assert columns("{a} and {b}, {{not c}}, {a}") == ("a", "b")


def test_sampling_is_greedy_and_long_enough_unless_said_otherwise() -> None:
    args = BatchArgs.model_validate({**ARGS, "sampling": {"top_p": 0.9}})
    assert args.sampling.params() == {"max_tokens": 256, "temperature": 0.0, "top_p": 0.9}
