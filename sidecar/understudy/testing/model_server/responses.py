"""Send scripted HTTP responses: the building blocks of every scenario."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

TEXT = "Hello from the scripted model: ünïcode 🎉 included."
USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 9,
    "total_tokens": 21,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """The decoded JSON; None when there was none."""


@dataclass
class Owner:
    """The part of the server that an answer needs."""

    answers: Mapping[str, Any] = field(default_factory=dict)
    models: list[str] | None = None
    """What ``GET /v1/models`` lists; None: every scenario."""
    key: str | None = None
    """The only key that is accepted; None: any key or none."""
    port: int = 0
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Have counted nothing."""
        self.stopped = threading.Event()
        self.times: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count(self, model: str) -> int:
        """Count a request for ``model`` and return how many there were before."""
        with self._lock:
            self.times[model] += 1
            return self.times[model] - 1

    def answered(self, answer: Answer) -> bool:  # noqa: ARG002
        """Send the answer to a request of another API, for a subclass that knows one; return whether it did."""
        return False

    def wait(self, seconds: float = 3600.0) -> None:
        """Wait until the server is closed or the time is over."""
        if self.stopped.wait(seconds):
            raise ConnectionAbortedError


class Answer:
    """Sends one answer."""

    def __init__(self, owner: Owner, request: Request, connection: socket.socket) -> None:
        """Store the request, and where to send the answer."""
        self.owner = owner
        self.request = request
        self.connection = connection
        body = request.body if isinstance(request.body, dict) else {}
        self.body: dict[str, Any] = body
        self.model = str(body.get("model", "good"))
        self.before = owner.count(self.model)

    # The parts of an answer.

    def raw(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.connection.sendall(data)

    def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        """Send status and headers; underscores in names become dashes."""
        lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}", f"Content-Type: {kind}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.raw(("\r\n".join(lines) + "\r\n\r\n").encode())

    def json(self, status: int, value: Any, **headers: str) -> None:
        """Send a JSON body."""
        data = json.dumps(value).encode()
        self.head(status, "application/json", Content_Length=str(len(data)), **headers)
        self.raw(data)

    def refuse(self, status: int, message: str, code: str | None = None, **headers: str) -> None:
        """Send an error as OpenAI does."""
        self.json(status, {"error": {"message": message, "type": "error", "param": None, "code": code}}, **headers)

    def chunk(self, delta: Any, finish: str | None = None, **more: Any) -> None:
        """Send one chunk."""
        self.raw(event(chunk(self.model, delta, finish, **more)))

    def text(self, text: str = TEXT, size: int = 7) -> None:
        """Send a text in deltas of ``size`` characters."""
        for piece in pieces(text, size):
            self.chunk({"content": piece})

    def end(self, finish: str = "stop", usage: Any = USAGE) -> None:
        """Send the end: finish reason, usage if requested, ``[DONE]``."""
        self.chunk({}, finish)
        options = self.body.get("stream_options")
        if usage is not None and isinstance(options, dict) and options.get("include_usage"):
            self.raw(event({**chunk(self.model, {}, None), "choices": [], "usage": usage}))
        self.done()

    def done(self) -> None:
        """Send ``[DONE]``."""
        self.raw(b"data: [DONE]\n\n")

    def scripted(self, answer: Any) -> None:
        """Send the answer that a table of ``answers.json`` describes."""
        script: dict[str, Any] = answer if isinstance(answer, dict) else {"text": str(answer)}
        text = str(script.get("text", TEXT))
        finish = str(script.get("finish_reason", "stop"))
        usage = script.get("usage", USAGE)
        if not self.body.get("stream"):
            self.json(200, whole(self.model, text, finish, usage))
            return
        self.head()
        self.chunk({"role": "assistant", "content": ""})
        for piece in pieces(str(script.get("thinking", "")), 20):
            self.chunk({"reasoning_content": piece})
        for piece in pieces(text, int(script.get("delta_characters", 20))):
            if script.get("delay_seconds"):
                time.sleep(float(script["delay_seconds"]))
            self.chunk({"content": piece})
        self.end(finish, usage)


def event(value: Any) -> bytes:
    """Return ``value`` as one server-sent event."""
    text = json.dumps(value, ensure_ascii=False)
    # Half of a surrogate pair is sent as JavaScript writes it: as an escape.
    return b"data: " + text.encode("utf-8", "backslashreplace") + b"\n\n"


def chunk(model: str, delta: Any, finish: str | None, **more: Any) -> dict[str, Any]:
    """Return one chunk of a streamed completion."""
    return _completion("chat.completion.chunk", model, {"delta": delta, "finish_reason": finish}) | more


def whole(model: str, text: str, finish: str, usage: Any) -> dict[str, Any]:
    """Return a completion that is not streamed."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return _completion("chat.completion", model, choice) | {"usage": usage}


def _completion(kind: str, model: str, choice: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": model, "choices": [{"index": 0, **choice}]}


def pieces(text: str, size: int) -> Iterator[str]:
    """Return ``text`` in pieces of ``size`` characters."""
    for start in range(0, len(text), max(1, size)):
        yield text[start : start + max(1, size)]
