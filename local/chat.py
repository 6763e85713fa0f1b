"""`make chat`: talk to a model of the stack, word by word as it answers, with the official OpenAI client.

On a terminal it keeps the conversation until an empty line or Ctrl-D; lines from a pipe are asked one after the other.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated

import openai
import typer
from openai.types.chat import ChatCompletionMessageParam

from local import endpoint, stack
from local.errors import LocalError
from local.progress import console


@dataclass
class Conversation:
    """Messages so far, and the model that answers."""

    client: openai.OpenAI
    model: str
    max_tokens: int
    temperature: float
    messages: list[ChatCompletionMessageParam] = field(default_factory=list)

    def ask(self, question: str) -> Iterator[str]:
        """The answer's pieces as they come; question and answer join the conversation. Raises openai.OpenAIError."""
        self.messages.append({"role": "user", "content": question})
        pieces: list[str] = []
        try:
            stream = self.client.chat.completions.create(
                model=self.model,
                messages=self.messages,
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                stream=True,
            )
            for chunk in stream:
                text = chunk.choices[0].delta.content if chunk.choices else None
                if text:
                    pieces.append(text)
                    yield text
        except openai.OpenAIError:
            self.messages.pop()  # the next question stands alone, not after one without an answer
            raise
        self.messages.append({"role": "assistant", "content": "".join(pieces)})


@contextmanager
def served(service: str) -> Iterator[tuple[str, list[str]]]:
    """(base URL, names of models) of a service of the stack, while the block runs. Raises LocalError."""
    endpoints = stack.outputs().get("contract", {}).get("endpoints", {})
    if service not in endpoints:
        known = ", ".join(sorted(endpoints)) or "none: is the stack up?"
        raise LocalError(
            f"the stack exports no endpoint '{service}' (it has {known})", fix="make up, or --service NAME"
        )
    found = endpoints[service]
    with endpoint.reach(found["namespace"], found["service"], found["port"]) as url:
        yield f"{url}/v1", [model["name"] for model in found["models"]]


def _answer(conversation: Conversation, question: str) -> None:
    start = time.monotonic()
    first = 0.0
    pieces = 0
    try:
        for piece in conversation.ask(question):
            first = first or time.monotonic() - start
            pieces += 1
            print(piece, end="", flush=True)
    except openai.APIStatusError as error:
        raise LocalError(
            f"the endpoint refused: {error.message}", fix="a shorter conversation, or another --model"
        ) from error
    except openai.OpenAIError as error:
        raise LocalError(f"the endpoint does not answer: {error}", fix="make status") from error
    console.print(f"\n[dim]first word after {first:.2f} s, {pieces} pieces in {time.monotonic() - start:.1f} s[/dim]")


def chat(
    question: Annotated[str, typer.Argument(help="One question; without it, a conversation.")] = "",
    service: Annotated[str, typer.Option(help="Service of the stack.")] = "chat",
    model: Annotated[str, typer.Option(help="Model; default: the service's first.")] = "",
    url: Annotated[
        str, typer.Option(help="Base URL of another OpenAI-compatible endpoint (http://host:port/v1).")
    ] = "",
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 256,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="0 gives the same answer each time.")] = 0.7,
) -> None:
    """Talk to a model of the stack."""
    if url:
        _talk(url, model, question, max_tokens, temperature)
        return
    with served(service) as (base_url, models):
        if model and model not in models:
            raise LocalError(f"service '{service}' has no model '{model}'", fix=f"give one of: {', '.join(models)}")
        _talk(base_url, model or models[0], question, max_tokens, temperature)


def _talk(base_url: str, model: str, question: str, max_tokens: int, temperature: float) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="none", timeout=300, max_retries=1)
    try:
        name = model or client.models.list().data[0].id
    except openai.OpenAIError as error:
        raise LocalError(
            f"{base_url} does not answer: {error}", fix="make status, or see that the address is right"
        ) from error
    conversation = Conversation(client=client, model=name, max_tokens=max_tokens, temperature=temperature)
    if question:
        _answer(conversation, question)
        return
    if sys.stdin.isatty():
        console.print(f"[bold]{name}[/bold] at {base_url}; an empty line ends")
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except (EOFError, KeyboardInterrupt):
            return
        if not line:
            return
        _answer(conversation, line)


def main() -> None:
    """`python -m local.chat`: an obstacle is told in a sentence and ends with exit code 1."""
    try:
        typer.run(chat)
    except LocalError as error:
        console.print(f"[red]error[/red]: {error.problem}\n  to fix: {error.fix}", soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
