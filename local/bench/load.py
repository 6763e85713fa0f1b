"""Load on an OpenAI-compatible endpoint: streamed completions at a fixed concurrency, and when their tokens came.

The same prompts in the same order for every endpoint, each answer cut at the same number of tokens, so that two endpoints do the same
work. Bytes are read as they come and parsed sparingly: the client runs on the machine that it measures. Not for correctness.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

PROMPTS = tuple(
    f"{task} {topic}."
    for task in ("Explain in a few sentences what you know about", "Write a short story about", "List five facts about")
    for topic in (
        "the sea",
        "bread",
        "trains",
        "the moon",
        "paper",
        "bees",
        "glass",
        "winter",
        "maps",
        "salt",
        "clocks",
    )
)
"""About 50 tokens each with the chat template."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answered request; times in seconds."""

    first: float
    """From the request to the first token."""
    gaps: tuple[float, ...]
    """Between one piece and the next; a server that gathers tokens sends fewer pieces with longer gaps."""
    total: float
    """From the request to the end."""
    tokens: int
    """Tokens of the answer, by the server's own count."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Requests that ran together."""

    replies: tuple[Reply, ...]
    seconds: float
    waited: float = 0.0
    """Seconds in which the client could run and got no CPU: what it then reads late looks like a server that gathers tokens."""

    @property
    def requests_per_second(self) -> float:
        """Throughput."""
        return len(self.replies) / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """Throughput in tokens of the answers."""
        return sum(reply.tokens for reply in self.replies) / self.seconds


async def run(url: str, model: str, *, concurrency: int, requests: int, tokens: int) -> Round:
    """Send `requests` chat requests to `url` (http://host:port), `concurrency` at a time. Raises httpx.HTTPError."""
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client:
        waiting = iter(range(requests))

        async def worker() -> list[Reply]:
            return [await _ask(client, model, PROMPTS[i % len(PROMPTS)], tokens) for i in waiting]

        with _ahead_of_the_server():
            waited = _waited()
            start = time.perf_counter()
            replies = await asyncio.gather(*(worker() for _ in range(concurrency)))
            seconds = time.perf_counter() - start
    answered = tuple(reply for part in replies for reply in part)
    return Round(replies=answered, seconds=seconds, waited=_waited() - waited)


@contextmanager
def _ahead_of_the_server() -> Iterator[None]:
    """The client runs whenever it can, as one on a machine of its own would: behind a server's threads it read tokens late by 50 ms.

    Real time priority where that is allowed (root, and the control group has a share of it); elsewhere the client waits its turn.
    """
    before = os.sched_getscheduler(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))


def _waited() -> float:
    """Seconds that this process has waited for a CPU (second field of schedstat, nanoseconds); 0 where the kernel does not count."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


async def _ask(client: httpx.AsyncClient, model: str, prompt: str, tokens: int) -> Reply:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    start = time.perf_counter()
    times: list[float] = []
    last = ""
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            await response.aread()
            response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                # The first piece says who speaks and the last one what was used: neither has a token.
                if '"content":"' in line and '"content":""' not in line:
                    times.append(time.perf_counter())
                last = line
    end = time.perf_counter()
    usage = json.loads(last.removeprefix("data: "))["usage"]
    if not times:
        raise RuntimeError(f"{client.base_url}: an answer without a token: {last}")
    gaps = tuple(after - before for before, after in itertools.pairwise(times))
    return Reply(first=times[0] - start, gaps=gaps, total=end - start, tokens=usage["completion_tokens"])


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, between neighbours in proportion. Raises ValueError when there is none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
