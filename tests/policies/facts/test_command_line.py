"""Flags of vLLM's server as its own parser reads them (vllm 0.32: utils/argparse_utils.py, engine/arg_utils.py)."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from policies.facts.command_line import command_line, flat_words, taken_apart


@pytest.mark.parametrize(
    ("flags", "args"),
    [
        (
            "--speculative-config.method mtp --speculative-config.num_speculative_tokens=1",
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}},
        ),
        (
            '--speculative_config \'{"method": "mtp"}\' -sc.num_speculative_tokens 1',
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}},
        ),
        (
            "-cc.pass_config.fuse_allreduce_rms True -cc.pass_config.enable_sp=true -cc.custom_ops+ none,+silu",
            {
                "compilation_config": {
                    "pass_config": {"fuse_allreduce_rms": "True", "enable_sp": True},
                    "custom_ops": ["none", "+silu"],
                }
            },
        ),
        ("--limit-mm-per-prompt.image 4 --seed 1", {"limit_mm_per_prompt": {"image": 4}, "seed": 1}),
        ("-O3", {"optimization_level": 3}),
        ("-O 2 -tp 4", {"optimization_level": 2, "tensor_parallel_size": 4}),
        ("-tp=2 -dp 4 -dpl 2 -ep", {"tensor_parallel_size": 2, "data_parallel_size": 4, "data_parallel_size_local": 2, "enable_expert_parallel": True}),
        ("-q awq -dcp 2", {"quantization": "awq", "decode_context_parallel_size": 2}),
        ("--max-model-len -1 --seed 0", {"max_model_len": -1, "seed": 0}),
    ],
)  # fmt: skip
def test_flags_become_arguments(flags: str, args: dict[str, Any]) -> None:
    assert command_line(["vllm", "serve", "a/b", *shlex.split(flags)]) == ("a/b", args)


@pytest.mark.parametrize(
    ("words", "flat"),
    [
        (["--port 8000"], ["--port", "8000"]),
        (['--kv-transfer-config {"a": "b c"}'], ["--kv-transfer-config", '{"a": "b c"}']),
        (['--kv-transfer-config={"a": "b c"}'], ['--kv-transfer-config={"a": "b c"}']),
        (["sh", "-c", 'vllm serve "$@"', "chat", "a/b", "--seed", "1"], ["sh", "-c", "vllm", "serve", "a/b", "--seed", "1"]),
        (["sh", "-c", "set -e; vllm serve a/b --seed 1"], ["sh", "-c", "vllm", "serve", "a/b", "--seed", "1"]),
    ],
)  # fmt: skip
def test_words_are_read_as_they_were_meant(words: list[str], flat: list[str]) -> None:
    assert flat_words(words) == flat


@pytest.mark.parametrize(
    ("words", "extra", "bare"),
    [
        ("a/b --seed 1 --max-model-len 4096", [], []),
        ("a/b c --enable-prefix-caching d", ["c", "d"], []),
        ("a/b -tp2", ["-tp2"], []),
        ("a/b --tensor-parallel-size --enforce-eager --served-model-name", [], ["--tensor-parallel-size", "--served-model-name"]),
        ("a/b --headless --no-enable-prefix-cachin", [], []),
        ("a/b --hf-token", [], []),
        ("a/b --omni --disable-frontend-multiprocessing --seed 1", [], []),
    ],
)  # fmt: skip
def test_words_that_belong_nowhere_and_flags_that_lack_one_are_told(
    words: str, extra: list[str], bare: list[str]
) -> None:
    line = taken_apart(["vllm", "serve", *words.split()])
    assert (line.positional, line.extra, line.bare) == ("a/b", extra, bare)


def test_numbers_that_argparse_does_not_read_stay_text() -> None:
    args = command_line(["vllm", "serve", "a/b", "--max-num-seqs", "1e3", "--max-num-batched-tokens=8192"])[1]
    assert args == {"max_num_seqs": "1e3", "max_num_batched_tokens": 8192}
