"""Prefix affinity: a prompt goes to the replica that has its beginning in its cache, so that every second request hits."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import openai
import pytest

from tests.e2e.modes import stacks

pytestmark = pytest.mark.e2e
WORKER = "ray.io/node-type=worker"
SUBJECTS = ("cats", "trains", "bread", "rivers", "paint", "music", "stones", "winter")
_SAMPLE = re.compile(r"^ray_vllm_prefix_cache_(queries|hits)(?:_total)?\{(.*)\} ([0-9.e+]+)$")


def prompt(subject: str, question: str) -> str:
    """About 350 tokens that begin in their own way, then a question."""
    return " ".join(f"{subject.capitalize()} are what chapter {number} is about." for number in range(36)) + question


def cached() -> dict[str, float]:
    """Tokens of all replicas: asked of the prefix cache, and found there, as Ray's metrics of the worker pod have them."""
    (pod,) = stacks.pods(WORKER)
    text = httpx.get(f"http://{pod['status']['podIP']}:8080/metrics", timeout=30).text
    sums = {"queries": 0.0, "hits": 0.0}
    for line in text.splitlines():
        if found := _SAMPLE.match(line):
            sums[found[1]] += float(found[3])
    return sums


def asked(client: openai.OpenAI, question: str) -> int:
    """Ask it after each beginning: the prompts' tokens, by the replies' own count."""
    tokens = 0
    for subject in SUBJECTS:
        reply = client.completions.create(model="smollm2", prompt=prompt(subject, question), max_tokens=1)
        assert reply.usage
        tokens += reply.usage.prompt_tokens
    return tokens


def hit_rate(client: openai.OpenAI, question: str) -> float:
    """Of a round's tokens the part that was found. Each replica exports on its own clock: all of the round must be there."""
    before = cached()
    tokens = asked(client, question)
    after = stacks.until(
        "the metrics had every token of the round",
        60,
        lambda: now if (now := cached())["queries"] >= before["queries"] + tokens else None,
    )
    assert after["queries"] == before["queries"] + tokens
    return (after["hits"] - before["hits"]) / tokens


def test_the_second_request_of_every_prefix_hits(up: None, tmp_path: Path) -> None:
    chat = stacks.service(
        stacks.RAY,
        models={
            "smollm2": {**stacks.MODEL, "replicas": {"min": 2, "max": 2}, "routing": {"policy": "prefix_affinity"}}
        },
        worker={"min": 1, "max": 1, "memory_gib": 8},
    )
    with stacks.deployed(tmp_path, {"prefix": chat}), stacks.client("prefix") as client:
        first = hit_rate(client, "What is it?")
        second = hit_rate(client, "And why?")
        print(f"\nhit rate {first:.2f}, then {second:.2f}")
        # Of each prompt the whole blocks before the question are there; by chance every second replica would lack them.
        assert first < 0.1
        assert second > 0.6
