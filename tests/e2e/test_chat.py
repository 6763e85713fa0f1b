"""The main job: real requests by the official client to a real vLLM behind Pulumi, KubeRay and Ray Serve."""

from __future__ import annotations

import httpx
import openai
import pytest

from tests.e2e.conftest import MODEL

pytestmark = pytest.mark.e2e
QUESTION = "What is the capital of France? Answer in one sentence."


def test_the_model_is_listed(client: openai.OpenAI) -> None:
    assert MODEL in [model.id for model in client.models.list()]


def test_a_chat_request_is_answered(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": QUESTION}], max_tokens=40, temperature=0
    )
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_a_chat_request_streams(client: openai.OpenAI) -> None:
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": QUESTION}], max_tokens=40, temperature=0, stream=True
        )
        if chunk.choices
    ]
    assert len([piece for piece in pieces if piece]) > 3
    assert "Paris" in "".join(pieces)


def test_a_completion_is_answered(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=8, temperature=0)
    assert "Paris" in answer.choices[0].text


def test_an_unknown_model_is_a_404_in_the_api_s_own_shape(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=[{"role": "user", "content": "hi"}])
    assert "no-such-model" in str(caught.value.body)


def test_a_prompt_over_the_context_is_a_400(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 5000}])
    assert "context" in str(caught.value.body).lower() or "length" in str(caught.value.body).lower()


def test_malformed_json_is_a_4xx_and_the_server_goes_on(base_url: str, client: openai.OpenAI) -> None:
    reply = httpx.post(
        f"{base_url}/v1/chat/completions",
        content=b'{"model": ',
        headers={"content-type": "application/json"},
        timeout=60,
    )
    assert 400 <= reply.status_code < 500
    test_a_chat_request_is_answered(client)
