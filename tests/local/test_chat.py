"""The chat command against an OpenAI-style server of the test's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import openai
import pytest

from local import chat
from local.errors import LocalError


class Server(ThreadingHTTPServer):
    """Answers each chat request with the words of `words`, as a stream; refuses when `refuse` is set."""

    words = ("Paris", " it", " is")
    refuse = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send(200, "application/json", json.dumps({"object": "list", "data": [{"id": "tiny", "object": "model"}]}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        if self.server.refuse:
            self._send(400, "application/json", json.dumps({"error": {"message": self.server.refuse}}))
            return
        chunks = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in self.server.words]
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self._send(200, "text/event-stream", "".join(lines) + "data: [DONE]\n\n")

    def _send(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_an_answer_comes_in_pieces_and_joins_the_conversation(server: Server) -> None:
    client = openai.OpenAI(base_url=server.url, api_key="none")
    conversation = chat.Conversation(client=client, model="tiny", max_tokens=8, temperature=0)
    assert list(conversation.ask("Where?")) == ["Paris", " it", " is"]
    list(conversation.ask("Sure?"))
    assert [message["content"] for message in server.asked[1]["messages"]] == ["Where?", "Paris it is", "Sure?"]


def test_a_refused_question_leaves_the_conversation_as_it_was(server: Server) -> None:
    client = openai.OpenAI(base_url=server.url, api_key="none")
    conversation = chat.Conversation(client=client, model="tiny", max_tokens=8, temperature=0)
    server.refuse = "too long"
    with pytest.raises(openai.BadRequestError):
        list(conversation.ask("Where?"))
    assert conversation.messages == []


def test_one_question_is_answered_by_the_endpoints_first_model(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    chat.chat("Where?", url=server.url)
    assert "Paris it is" in capsys.readouterr().out
    assert server.asked[0]["model"] == "tiny"


def test_a_refusal_is_told_in_the_endpoints_words(server: Server) -> None:
    server.refuse = "This model's maximum context length is 1024 tokens"
    with pytest.raises(LocalError, match=r"the endpoint refused: .*maximum context length is 1024 tokens"):
        chat.chat("Where?", url=server.url)


def test_an_endpoint_that_is_not_there_is_told_with_its_address() -> None:
    with pytest.raises(LocalError, match=r"http://127\.0\.0\.1:9/v1 does not answer"):
        chat.chat("Where?", url="http://127.0.0.1:9/v1")
