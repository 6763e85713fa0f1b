"""Plain vLLM, a Deployment without Ray, from the same statement of a model; it answers who has the key."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.e2e.modes import stacks

pytestmark = pytest.mark.e2e
KEY = "only-here-0123456789"
QUESTION = "What is the capital of France? Answer in one sentence."


def test_a_deployment_without_ray_answers_who_has_the_key(up: None, tmp_path: Path) -> None:
    plain = stacks.service(
        stacks.SERVICE,
        kind="vllm",
        models={"smollm2": {k: v for k, v in stacks.MODEL.items() if k != "ray_actor_options"}},
        worker={"cpu": 0.5, "memory_gib": 6, "cpu_limit": False},
        api_keys={"engine": {"secret": "key", "key": "value"}},
    )
    objects = [stacks.secret("key", {"value": KEY})]
    with (
        stacks.deployed(tmp_path, {"plain": plain}, objects),
        stacks.client("plain", api_key=KEY) as client,
        stacks.client("plain") as stranger,
    ):
        with pytest.raises(openai.AuthenticationError):
            stranger.models.list()
        with pytest.raises(openai.AuthenticationError):
            stranger.completions.create(model="smollm2", prompt="One, two,", max_tokens=1)
        assert [model.id for model in client.models.list()] == ["smollm2"]
        answer = client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": QUESTION}], max_tokens=40, temperature=0
        )
        assert "Paris" in (answer.choices[0].message.content or "")
        pieces = client.completions.create(model="smollm2", prompt="One, two,", max_tokens=8, stream=True)
        assert len([piece for piece in pieces if piece.choices and piece.choices[0].text]) > 2
        with pytest.raises(openai.BadRequestError):
            client.completions.create(model="smollm2", prompt="word " * 3000)
        assert not stacks.pods("ray.io/node-type")
