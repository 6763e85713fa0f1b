"""Scaling from nothing to two replicas and back: Serve's replicas and, by Ray's autoscaler, the pods below them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest

from tests.e2e.modes import dashboard, stacks

pytestmark = pytest.mark.e2e
WORKER = "ray.io/node-type=worker"


def ask(client: openai.OpenAI, tokens: int = 8) -> float:
    """Seconds that a request took."""
    began = time.monotonic()
    client.completions.create(model="smollm2", prompt="Once upon a time", max_tokens=tokens, temperature=0)
    return time.monotonic() - began


def test_from_zero_to_two_and_back_with_the_first_request_held(up: None, tmp_path: Path) -> None:
    elastic = stacks.service(
        stacks.RAY,
        models={
            "smollm2": {
                **stacks.MODEL,
                "replicas": {
                    "min": 0,
                    "max": 2,
                    "target_ongoing_requests": 1,
                    "upscale_delay_s": 1,
                    "downscale_delay_s": 10,
                    "downscale_to_zero_delay_s": 20,
                },
            }
        },
        autoscaling={"idle_timeout_seconds": 10},
        # One pod for both replicas: there is no room for a second on the node, beside the local stack and the autoscaler.
        worker={"max": 1, "cpu": 0.25, "memory_gib": 8},
    )
    with stacks.deployed(tmp_path, {"elastic": elastic}), stacks.client("elastic", timeout=300) as client:
        stacks.until("no worker pod was left", 240, lambda: not stacks.pods(WORKER), pause=2)
        took = ask(client)
        print(f"\nthe first request was held for {took:.0f} s")
        assert dashboard.engines("elastic", "smollm2") == 1
        assert len(stacks.pods(WORKER)) == 1
        assert took > ask(client)

        busy = time.monotonic() + 240
        most = 0
        with ThreadPoolExecutor(6) as users:

            def load() -> int:
                answered = 0
                while time.monotonic() < busy and most < 2:
                    ask(client, tokens=48)
                    answered += 1
                return answered

            loads = [users.submit(load) for _ in range(6)]
            while time.monotonic() < busy and most < 2:
                most = max(most, dashboard.engines("elastic", "smollm2"))
                time.sleep(2)
            assert sum(each.result() for each in loads) > 0  # and none failed
        assert most == 2
        stacks.until("one replica was left", 120, lambda: dashboard.engines("elastic", "smollm2") == 1, pause=2)
        stacks.until("all replicas and worker pods were gone", 240, lambda: not stacks.pods(WORKER), pause=2)
