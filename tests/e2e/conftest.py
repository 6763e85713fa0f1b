"""The one-node cluster with the stack `local` on it, brought up once for all end-to-end tests by the command of the README."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import openai
import pytest

from local import endpoint, stack

MODEL = "smollm2-135m-instruct"


@pytest.fixture(scope="session")
def up() -> None:
    """`make up`. Without root there is no cluster: in CI that is a failure, elsewhere a skip with the reason."""
    if os.geteuid() != 0:
        reason = "the one-node cluster needs root"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    subprocess.run(["make", "up"], cwd=stack.REPO, check=True, timeout=3000)


@pytest.fixture(scope="session")
def base_url(up: None) -> Iterator[str]:
    """The endpoint as this machine reaches it."""
    chat = stack.outputs()["contract"]["endpoints"]["chat"]
    with endpoint.reach(chat["namespace"], chat["service"], chat["port"]) as url:
        yield url


@pytest.fixture
def client(base_url: str) -> openai.OpenAI:
    """The official client, without retries: what fails must be seen."""
    return openai.OpenAI(base_url=f"{base_url}/v1", api_key="none", max_retries=0, timeout=180)
