"""Several models in one service, and LoRA adapters from a bucket.

There is one set of weights: the two models are the same under two names with two context lengths, each with an engine of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from local.engine import model
from tests.e2e.modes import adapter, bucket, dashboard, stacks

pytestmark = pytest.mark.e2e
QUESTION = "What is the capital of France? Answer in one sentence."


@pytest.fixture(scope="module")
def client(up: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    with bucket.serving("adapters") as adapters:
        for name, seed in (("terse", 1), ("wordy", 2)):
            for file, content in adapter.files(weights(), seed).items():
                adapters.put(f"smollm2/{name}/{file}", content)
        two = stacks.service(
            stacks.RAY,
            models={
                "smollm2": {
                    **stacks.MODEL,
                    "lora": {"path": "s3://adapters/smollm2", "max_adapters": 2, "max_rank": adapter.RANK},
                },
                "smollm2-short": stacks.service(stacks.MODEL, engine_args={"max_model_len": 256}),
            },
            # a pod for both: what is derived is one for each engine
            worker={"min": 1, "max": 1, "memory_gib": 8},
            **adapters.service(),
        )
        folder = tmp_path_factory.mktemp("two")
        with stacks.deployed(folder, {"two": two}, [adapters.secret()]), stacks.client("two") as found:
            yield found


def weights() -> Path:
    return model.ensure()


def ask(client: openai.OpenAI, name: str, tokens: int = 24) -> str:
    answer = client.chat.completions.create(
        model=name, messages=[{"role": "user", "content": QUESTION}], max_tokens=tokens, temperature=0
    )
    return answer.choices[0].message.content or ""


def test_both_models_answer_from_engines_of_their_own(client: openai.OpenAI) -> None:
    assert {"smollm2", "smollm2-short"} <= {each.id for each in client.models.list()}
    for name in ("smollm2", "smollm2-short"):
        assert "Paris" in ask(client, name)
        assert dashboard.engines("two", f"{name}".replace("-", "_")) or dashboard.engines("two", name)
    client.completions.create(model="smollm2", prompt="word " * 300, max_tokens=1)
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="smollm2-short", prompt="word " * 300, max_tokens=1)
    assert "256" in str(caught.value.body)


def test_adapters_are_listed_and_answer_otherwise_than_the_model(client: openai.OpenAI) -> None:
    plain = ask(client, "smollm2")
    answers = {name: ask(client, f"smollm2:{name}") for name in ("terse", "wordy")}
    print(f"\n{plain!r} {answers!r}")
    assert len({plain, *answers.values()}) == 3
    assert ask(client, "smollm2") == plain  # the model itself is as it was
    assert {f"smollm2:{name}" for name in answers} <= {each.id for each in client.models.list()}


def test_an_adapter_that_is_not_there_is_a_4xx(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        ask(client, "smollm2:none")
    assert 400 <= caught.value.status_code < 500
