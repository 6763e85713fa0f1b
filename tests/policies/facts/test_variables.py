"""Variables in command lines: what is stated is put in, what is not is left open and never refused."""

from __future__ import annotations

from policies.facts.records import SecretRef
from policies.facts.variables import filled_in
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
