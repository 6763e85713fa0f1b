"""The proof at the end of `up`: one chat request by the official client, and what a person can do next."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import httpx
import openai
from rich.panel import Panel

from local import endpoint, progress, stack
from local.errors import LocalError

QUESTION = "What is the capital of France? Answer in one sentence."
READY_S = 600.0
"""How long a model may take to be listed: its engine starts from nothing when the machine was."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answered request."""

    base_url: str
    """As this machine reaches the endpoint."""
    cluster_url: str
    """As Pods reach it."""
    model: str
    text: str
    tokens: int
    seconds: float


def ask(question: str = QUESTION, service: str = "chat") -> Answer:
    """Ask the first model of a service of the stack. Raises LocalError when there is no answer."""
    contract = stack.outputs().get("contract")
    if not contract or service not in contract["endpoints"]:
        raise LocalError(f"the stack exports no endpoint '{service}'", fix="make up")
    served = contract["endpoints"][service]
    model = served["models"][0]["name"]
    wait_until_listed(served, model)
    with endpoint.reach(served["namespace"], served["service"], served["port"]) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=120)
        start = time.monotonic()
        try:
            reply = client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": question}], max_tokens=64, temperature=0
            )
        except openai.OpenAIError as error:
            raise LocalError(
                f"{url}: the chat request failed: {error}", fix="make status, and the logs of its pods"
            ) from error
        return Answer(
            base_url=f"{url}/v1",
            cluster_url=served["base_url"],
            model=model,
            text=(reply.choices[0].message.content or "").strip(),
            tokens=reply.usage.completion_tokens if reply.usage else 0,
            seconds=time.monotonic() - start,
        )


def wait_until_listed(served: dict[str, Any], model: str, timeout_s: float = READY_S) -> None:
    """Wait until the endpoint lists the model. Raises LocalError with the last answer when it does not in time.

    Neither the stack's state nor the status of the RayService tells: after the machine was restarted both still say
    Running until the operator and the kubelet have looked, and the pods' engines start anew.
    """
    deadline = time.monotonic() + timeout_s
    with progress.step(f"{served['service']} lists {model}") as step:
        while (reason := _why_not_listed(served, model)) is not None:
            step.detail = reason
            if time.monotonic() > deadline:
                raise LocalError(
                    f"service {served['namespace']}/{served['service']} does not list {model} after {timeout_s:.0f} s: {reason}",
                    fix="make status, and the logs of its pods",
                )
            time.sleep(1)


def _why_not_listed(served: dict[str, Any], model: str) -> str | None:
    try:
        with endpoint.reach(served["namespace"], served["service"], served["port"]) as url:
            reply = httpx.get(f"{url}/v1/models", timeout=10)
    except (LocalError, httpx.HTTPError) as error:
        return str(error) or type(error).__name__
    if reply.status_code != httpx.codes.OK:
        return f"/v1/models answers {reply.status_code}"
    names = [entry["id"] for entry in reply.json()["data"]]
    return None if model in names else f"it lists {', '.join(names) or 'no model'}"


def show(answer: Answer) -> None:
    """Question, answer, endpoint, next steps."""
    progress.console.print(
        Panel.fit(
            f"[bold]{QUESTION}[/bold]\n{answer.text}\n\n"
            f"model     {answer.model}, {answer.tokens} tokens in {answer.seconds:.1f} s\n"
            f"endpoint  {answer.base_url} (this machine)\n"
            f"          {answer.cluster_url} (Pods)\n\n"
            "next      make chat | make status | make plan | make test | make down\n"
            '          eval "$(.venv/bin/python -m local env)" for plain pulumi and kubectl',
            title="it answers",
        )
    )
