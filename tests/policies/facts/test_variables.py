"""Variables in command lines: what is stated is put in, what is not is left open and never refused."""

from __future__ import annotations

import pytest

from policies.facts import SecretRef
from policies.facts.command_line import command_line
from policies.facts.variables import filled_in, without_open
from tests.cases.resources import objects, said
from tests.cases.test_reports_of_objects import ENGINE

ENV: dict[str, str | SecretRef] = {
    "MODEL": "Qwen/Qwen2.5-7B-Instruct",
    "PORT": "8000",
    "TOKEN": SecretRef(secret="hf", key="token"),
}


def test_kubernetes_puts_its_own_form_into_every_word() -> None:
    assert filled_in(["--model", "$(MODEL)", "--port=$(PORT)"], ENV) == ["--model", ENV["MODEL"], "--port=8000"]
    assert filled_in(["$$(MODEL)", "$(TOKEN)", "$(OTHER)"], ENV) == ["$$(MODEL)", "$(TOKEN)", "$(OTHER)"]


def test_a_shell_s_form_is_read_in_scripts_alone() -> None:
    script = "vllm serve $MODEL --max-num-seqs ${SEQS:-64} --node-rank ${HOSTNAME##*-}"
    assert filled_in([script], ENV) == [
        "vllm serve Qwen/Qwen2.5-7B-Instruct --max-num-seqs 64 --node-rank ${HOSTNAME##*-}"
    ]
    assert filled_in(["$MODEL"], ENV) == ["$MODEL"]


def started(script: str) -> str:
    whole = f'command: [sh, -c, "{script}"]\n        env: [{{name: MAX_LEN, value: "8192"}}]'
    return ENGINE.replace('args: [--model, Qwen/Qwen2.5-7B-Instruct, --max-model-len, "8192"]', whole)


def test_what_a_shell_is_yet_to_say_is_not_judged() -> None:
    text = started("vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len $MAX_LEN --max-num-seqs $SEQS # as many")
    assert {rule for rule, severity in said(*objects(text)) if severity == "error"} == set()


def test_what_is_stated_is_judged_through_its_variable() -> None:
    text = started("vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len $MAX_LEN").replace('"8192"', '"8e3"')
    assert ("fit-context-length", "error") in said(*objects(text))


COUNTS = {"LOCAL": "8", "GROUP": "4"}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("vllm serve m --data-parallel-size $((GROUP * LOCAL))", {"data_parallel_size": 32}),
        ("vllm serve m --data-parallel-start-rank $(( ${INDEX:-1} * $LOCAL + 2 ))", {"data_parallel_start_rank": 10}),
        ("vllm serve m --seed $((NOBODY + 1)) --max-num-seqs 4", {"max_num_seqs": 4}),
        ("vllm serve m --seed $((GROUP / 0))", {}),
        ("RANK=$(( GROUP - 1 ))\nvllm serve m --node-rank $RANK", {"node_rank": 3}),
        ('export MORE="--max-num-seqs 16"\nvllm serve m $MORE --seed 1', {"max_num_seqs": 16, "seed": 1}),
        ("PART=0.9\nif true; then\n  PART=0.8\nfi\nvllm serve m --gpu-memory-utilization $PART", {}),
        ("if true; then\n  PART=0.8\nfi\nvllm serve m --gpu-memory-utilization $PART", {}),
        ('vllm serve $FLAGS m --kv-transfer-config \'{"a": 1,\n "b": 2}\'', {"kv_transfer_config": {"a": 1, "b": 2}}),
        ("vllm serve m --max-num-seqs 4\necho --seed 5", {"max_num_seqs": 4}),
    ],
)
def test_a_script_is_read_as_its_shell_reads_it(script: str, expected: dict[str, object]) -> None:
    model, args = command_line(filled_in(["sh", "-c", script], COUNTS))
    assert (model, without_open(args, shell=True)) == ("m", expected)


def test_words_outside_of_a_script_know_no_sums() -> None:
    words = ["vllm", "serve", "m", "--seed=$((GROUP))", "--max-num-seqs=$(LOCAL)"]
    assert filled_in(words, COUNTS) == [*words[:4], "--max-num-seqs=8"]
