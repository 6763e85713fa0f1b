"""What other people declare by hand, with one thing wrong in turn: what Ray's schema or vLLM's parser refuses, the rules call an error."""

from __future__ import annotations

from typing import Any

import pytest

from local.engine.client import JudgeClient, Refused
from tests.engine import foreign

pytestmark = pytest.mark.engine


def test_what_upstream_takes_as_it_stands_has_no_error(judge: JudgeClient) -> None:
    assert _serve_refusal(judge, foreign.SERVE_CONFIG) is None
    assert foreign.of_serve_config(foreign.SERVE_CONFIG) == []
    for words in foreign.COMMAND_LINES:
        assert _command_refusal(judge, words) is None
        assert [f.sentence() for f in foreign.of_command_line(words) if f.rule.startswith("engine-")] == []


def test_a_part_of_a_serve_config_that_ray_refuses_is_an_error(judge: JudgeClient) -> None:
    missed = []
    for how, config in foreign.serve_configs():
        said = _serve_refusal(judge, config)
        if said is not None and not foreign.of_serve_config(config):
            missed.append(f"{how}: {said}")
    assert not missed, f"{len(missed)}\n" + "\n".join(missed)


def test_a_word_of_a_command_line_that_vllm_refuses_is_an_error(judge: JudgeClient) -> None:
    missed = []
    for words in foreign.command_lines():
        said = _command_refusal(judge, words)
        if said is not None and not foreign.of_command_line(words):
            missed.append(f"{' '.join(words)}: {said}")
    assert not missed, f"{len(missed)}\n" + "\n".join(missed)


def _serve_refusal(judge: JudgeClient, config: dict[str, Any]) -> str | None:
    try:
        judge.serve_schema(config)
        for app in config["applications"]:
            args = app.get("args") or {}
            judge.build_app(app["import_path"], args)
            for each in args.get("llm_configs") or ():
                judge.llm_config(each)
    except Refused as refusal:
        return " ".join(str(refusal).split())[:300]
    return None


def _command_refusal(judge: JudgeClient, words: list[str]) -> str | None:
    try:
        judge.command_line(*words)
    except Refused as refusal:
        return " ".join(str(refusal).split())[:300]
    return None
