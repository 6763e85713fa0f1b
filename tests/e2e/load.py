"""Clients that ask, and keep when each request began, how long it took and how it ended."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import httpx
import openai

from tests.e2e.conftest import MODEL


@dataclass(frozen=True, slots=True)
class Request:
    """One request: seconds since the loop began, its duration, and the error with its text when it failed."""

    began: float
    took: float
    error: str | None


@dataclass
class Loop:
    """Ask until stopped. Use as a context manager."""

    client: openai.OpenAI
    pause: float = 0.2
    model: str = MODEL
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Loop:
        self._stop = threading.Event()
        self._start = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=300)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._ask()
            self._stop.wait(self.pause)

    def _ask(self) -> None:
        began = time.monotonic()
        error = None
        try:
            self.client.chat.completions.create(
                model=self.model, messages=[{"role": "user", "content": "Say hello."}], max_tokens=8, temperature=0
            )
        except openai.OpenAIError as failure:
            error = f"{type(failure).__name__}: {failure}"
        self.requests.append(Request(began - self._start, time.monotonic() - began, error))

    @property
    def failed(self) -> list[Request]:
        return [request for request in self.requests if request.error]

    def outage(self) -> float:
        """Seconds from the beginning of the first failed request to the end of the last; 0 without failures."""
        failed = self.failed
        return failed[-1].began + failed[-1].took - failed[0].began if failed else 0.0


@dataclass
class Arrivals(Loop):
    """One request each `pause` seconds, whether or not the last has its answer, and each on a connection of its own.

    A loop misses moments in which the endpoint takes no connection: it waits for an answer then, and keeps its connection to a pod
    that the Service has left out by now.
    """

    pause: float = 1.0

    def _run(self) -> None:
        limits = httpx.Limits(max_keepalive_connections=0)
        self.client = self.client.with_options(http_client=httpx.Client(limits=limits))
        waiting: list[threading.Thread] = []
        while not self._stop.is_set():
            waiting.append(threading.Thread(target=self._ask, daemon=True))
            waiting[-1].start()
            self._stop.wait(self.pause)
        for thread in waiting:
            thread.join(timeout=300)
