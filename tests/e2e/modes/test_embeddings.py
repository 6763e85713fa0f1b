"""Embeddings: the same weights as a pooling model behind /v1/embeddings."""

from __future__ import annotations

import math
from pathlib import Path

import openai
import pytest

from tests.e2e.modes import stacks

pytestmark = pytest.mark.e2e


def cosine(one: list[float], other: list[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def test_texts_become_vectors(up: None, tmp_path: Path) -> None:
    vectors = stacks.service(
        stacks.RAY,
        models={
            "vectors": stacks.service(
                stacks.MODEL, engine_args={"runner": "pooling", "convert": "embed", "enable_prefix_caching": False}
            )
        },
    )
    with stacks.deployed(tmp_path, {"embed": vectors}), stacks.client("embed") as client:
        texts = [
            "The cat sleeps on the sofa.",
            "A cat is asleep on the couch.",
            "Interest rates rose by half a percent.",
        ]
        answer = client.embeddings.create(model="vectors", input=texts)
        found = [entry.embedding for entry in answer.data]
        assert [len(each) for each in found] == [576] * 3  # the model's hidden size
        assert cosine(found[0], found[1]) > cosine(found[0], found[2])
        assert answer.usage.total_tokens > 10
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(model="vectors", messages=[{"role": "user", "content": "hi"}], max_tokens=4)
        assert 400 <= caught.value.status_code < 600
