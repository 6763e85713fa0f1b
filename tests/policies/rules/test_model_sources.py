"""Where weights come from, as people write it, and the code that comes with some of them."""

from __future__ import annotations

import pytest

from policies import rules
from policies.facts import Stack

from .engine_stacks import args, whole, with_engine

RULES = (*rules.model_access.RULES, *rules.model_formats.RULES)


def said(given: Stack, rule: str) -> list[str]:
    return [f"{f.severity}: {f.message}; {f.mend}" for f in rules.check(given, rules=RULES) if f.rule == rule]


def source(text: str) -> list[str]:
    return said(with_engine(whole(), source=text), "model-source")


ADDRESS = "and vLLM takes the id of a repository, a bucket or a folder, no address: the engine refuses to start; write Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf://Qwen/Qwen3-8B", ADDRESS),
        ("https://huggingface.co/Qwen/Qwen3-8B", ADDRESS),
        ("https://huggingface.co/Qwen/Qwen3-8B/tree/main", ADDRESS),
        (
            "Qwen/Qwen3-8B@main",
            "and an id has no revision in it: the engine refuses to start; write Qwen/Qwen3-8B, and the revision as engine_args: {revision: main}",
        ),
        (
            "qwen3:8b",
            "which is none that the hub takes: letters, digits, '-', '_', '.', and one '/': the engine refuses to start; "
            "write organisation/name as on huggingface.co (names such as qwen2.5:7b are Ollama's)",
        ),
    ],
)
def test_what_is_no_repository_bucket_or_folder_is_refused(text: str, expected: str) -> None:
    assert source(text) == [f"error: its weights are to come from '{text}', {expected}"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Qwen/Qwen3-8B",
            "gpt2",
            "s3://bucket/qwen",
            "gs://bucket/qwen",
            "/weights/qwen",
            "./qwen",
            "weights/qwen/8b",
        ),
        *("unsloth/Qwen3-8B-GGUF:Q4_K_M", "${MODEL}", "$(MODEL)", "pvc://weights/qwen"),
    ],
)
def test_ids_buckets_folders_and_what_is_filled_in_later_pass(text: str) -> None:
    assert source(text) == []


def test_a_tokenizer_that_is_code_of_its_repository_needs_leave() -> None:
    kimi = with_engine(whole(), catalog_id="moonshotai/Kimi-K2-Instruct", source="moonshotai/Kimi-K2-Instruct")
    (sentence,) = said(kimi, "model-remote-code")
    assert sentence.startswith("warning: moonshotai/Kimi-K2-Instruct brings its tokenizer as code in its repository")
    assert said(args(kimi, trust_remote_code=True), "model-remote-code") == []
    assert said(args(kimi, tokenizer="/weights/tokenizer"), "model-remote-code") == []
    assert said(whole(), "model-remote-code") == []
