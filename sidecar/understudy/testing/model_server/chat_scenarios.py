"""What the scripted model server can answer; ``model_server`` says what each name means."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

TEXT = "Hello from the scripted model: ünïcode 🎉 included."
USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 9,
    "total_tokens": 21,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """Decoded JSON; None when there was none."""


class Owner(Protocol):
    """The server, as far as an answer needs it."""

    answers: Mapping[str, Any]
    models: list[str] | None
    key: str | None
    stopped: threading.Event

    def count(self, model: str) -> int:
        """Note one more request for ``model`` and return how many there were before."""
        ...

    def wait(self, seconds: float = 3600.0) -> None:
        """Do nothing until the server is closed or the time is over."""
        ...


class Answer:
    """Sends one answer."""

    def __init__(self, owner: Owner, request: Request, connection: socket.socket) -> None:
        """Take what was asked, and where to answer."""
        self.owner = owner
        self.request = request
        self.connection = connection
        body = request.body if isinstance(request.body, dict) else {}
        self.body: dict[str, Any] = body
        self.model = str(body.get("model", "good"))
        self.before = owner.count(self.model)

    def send(self) -> None:
        """Answer: a list of models, a scenario, or a refusal."""
        path = self.request.path.split("?")[0]
        bearer = self.request.headers.get("authorization", "").removeprefix("Bearer ")
        sent_key = self.request.headers.get("x-api-key", bearer)
        if self.owner.key is not None and sent_key != self.owner.key:
            self.json(
                401,
                {
                    "error": {
                        "message": f"Incorrect API key provided: {sent_key}",
                        "type": "invalid_request_error",
                        "code": "invalid_api_key",
                    }
                },
            )
            return
        if path.endswith("/models"):
            names = self.owner.models if self.owner.models is not None else [*SCENARIOS, *self.owner.answers]
            self.json(
                200,
                {"object": "list", "data": [{"id": name, "object": "model", "context_length": 8192} for name in names]},
            )
            return
        if path.endswith(("/messages", "/messages/count_tokens")):
            from understudy.testing.messages_scenarios import send_messages  # noqa: PLC0415 - it builds on this module

            send_messages(self)
            return
        if not path.endswith("/chat/completions"):
            self.json(404, {"detail": "Not Found"})
            return
        if self.model in self.owner.answers:
            self.scripted(self.owner.answers[self.model])
        elif self.model in SCENARIOS:
            SCENARIOS[self.model](self)
        else:
            model_404(self)

    # What an answer is made of.

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
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
        """Send the end: finish reason, usage if it was asked for, ``[DONE]``."""
        self.chunk({}, finish)
        options = self.body.get("stream_options")
        if usage is not None and isinstance(options, dict) and options.get("include_usage"):
            self.raw(event({**chunk(self.model, {}, None), "choices": [], "usage": usage}))
        self.done()

    def done(self) -> None:
        """Send ``[DONE]``."""
        self.raw(b"data: [DONE]\n\n")

    def scripted(self, answer: Any) -> None:
        """Answer as a table of the user's own says."""
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
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def chunk(model: str, delta: Any, finish: str | None, **more: Any) -> dict[str, Any]:
    """Return one chunk of a streamed completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": model,
        "choices": [choice],
        **more,
    }


def whole(model: str, text: str, finish: str, usage: Any) -> dict[str, Any]:
    """Return a completion that is not streamed."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": usage,
    }


def pieces(text: str, size: int) -> Iterator[str]:
    """Return ``text`` in pieces of ``size`` characters."""
    for start in range(0, len(text), max(1, size)):
        yield text[start : start + max(1, size)]


SCENARIOS: dict[str, Callable[[Answer], None]] = {}
"""Model name → what happens."""


def scenario(*names: str) -> Callable[[Callable[[Answer], None]], Callable[[Answer], None]]:
    """Register a scenario under ``names``, or under the function's own name."""

    def register(function: Callable[[Answer], None]) -> Callable[[Answer], None]:
        for name in names or (function.__name__,):
            SCENARIOS[name] = function
        return function

    return register


@scenario()
def good(answer: Answer) -> None:
    """Text, usage, end."""
    answer.scripted({"delta_characters": 7})


@scenario()
def echo(answer: Answer) -> None:
    """Repeat the last user message."""
    answer.scripted(str(answer.body["messages"][-1]["content"]))


@scenario("reasoning", "thinking")
def reasoning(answer: Answer) -> None:
    """Thoughts under either name."""
    answer.head()
    name = "reasoning_content" if answer.model == "reasoning" else "reasoning"
    for piece in ("Let me ", "think."):
        answer.chunk({name: piece})
    answer.text()
    answer.end()


@scenario("usage_on_finish", "usage_on_delta", "no_usage", "mad_usage")
def usages(answer: Answer) -> None:
    """Usage where servers put it."""
    answer.head()
    answer.text()
    if answer.model == "usage_on_finish":
        answer.chunk({}, "stop", usage=USAGE)
    elif answer.model == "usage_on_delta":
        answer.chunk({}, "stop")
        answer.chunk({}, None, usage=USAGE)
    else:
        mad = {"prompt_tokens": -5, "completion_tokens": 10**18, "cost": "1e9", "prompt_tokens_details": 7}
        answer.chunk({}, "stop", **({"usage": mad} if answer.model == "mad_usage" else {}))
    answer.done()


@scenario("no_done", "done_only", "hang_after_finish", "cut_clean", "empty", "length", "content_filter")
def endings(answer: Answer) -> None:
    """How a stream ends."""
    answer.head()
    if answer.model != "empty":
        answer.text()
    finish = {"length": "length", "content_filter": "content_filter"}.get(answer.model, "stop")
    if answer.model not in {"done_only", "cut_clean"}:
        answer.chunk({}, finish)
    if answer.model == "hang_after_finish":
        answer.owner.wait()
    if answer.model in {"done_only", "empty"}:
        answer.done()


@scenario()
def not_streamed(answer: Answer) -> None:
    """Send a whole answer."""
    answer.json(200, whole(answer.model, TEXT, "stop", USAGE))


@scenario()
def odd_chunks(answer: Answer) -> None:
    """Everything that specifications do not allow and servers send."""
    answer.head()
    answer.raw(b": ping\n\n: OPENROUTER PROCESSING\n\nevent: ping\ndata: {}\n\n")
    answer.raw(
        b'data: {"choices":null}\n\ndata: {"choices":[]}\n\ndata: 5\n\ndata: null\n\n'
        b'data: {"choices":[{"delta":null}]}\n\n'
    )
    answer.chunk({"role": "assistant", "content": None})
    answer.text()
    answer.raw(b'data: {"choices":[{"index":1,"delta":{"content":"another choice"}}]}\n\n')
    answer.end()


@scenario("crlf", "bom", "split")
def framing(answer: Answer) -> None:
    """Send the same stream in other bytes."""
    answer.head()
    data = b"".join(event(chunk(answer.model, {"content": piece}, None)) for piece in pieces(TEXT, 7))
    data += event(chunk(answer.model, {}, "stop", usage=USAGE)) + b"data: [DONE]\n\n"
    if answer.model == "crlf":
        answer.raw(data.replace(b"\n", b"\r\n"))
    elif answer.model == "bom":
        answer.raw(b"\xef\xbb\xbf" + data)
    else:
        answer.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for index in range(len(data)):
            answer.raw(data[index : index + 1])


@scenario()
def slow(answer: Answer) -> None:
    """Take a second for ten deltas."""
    answer.scripted({"text": "0123456789", "delta_characters": 1, "delay_seconds": 0.1})


@scenario()
def slow_headers(answer: Answer) -> None:
    """Start late."""
    time.sleep(0.5)
    good(answer)


@scenario()
def no_stream_options(answer: Answer) -> None:
    """Refuse what is not known."""
    if "stream_options" in answer.body:
        answer.json(
            422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs"}]}
        )
    else:
        good(answer)


@scenario("zero_events", "zero_forever")
def zero_events(answer: Answer) -> None:
    """Nothing, successfully."""
    if answer.before and answer.model == "zero_events":
        good(answer)
    else:
        answer.head()


@scenario("cut", "cut_json", "reset")
def cut(answer: Answer) -> None:
    """Break the connection."""
    if answer.model == "cut":
        answer.head(Transfer_Encoding="chunked")
        data = event(chunk(answer.model, {"content": "half"}, None))
        answer.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n40\r\ndata: {")
        return
    answer.head()
    answer.text("half")
    if answer.model == "cut_json":
        answer.raw(b'data: {"choices":[{"delta":{"cont')
    else:
        time.sleep(0.1)
        answer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        answer.connection.close()


@scenario("stall", "comments", "silent", "silent_comments")
def stalls(answer: Answer) -> None:
    """Stop, and keep the connection."""
    if answer.model == "silent":
        answer.owner.wait()
    answer.head()
    if answer.model != "silent_comments":
        answer.text("half")
    if answer.model == "stall":
        answer.owner.wait()
    while not answer.owner.stopped.wait(0.02):
        answer.raw(b": ping\n\n")


@scenario()
def slow_loris(answer: Answer) -> None:
    """Bytes that never become an event in time."""
    answer.head()
    data = event(chunk(answer.model, {"content": "x"}, None))
    while True:
        for index in range(len(data)):
            if answer.owner.stopped.wait(0.05):
                return
            answer.raw(data[index : index + 1])


@scenario("error_midstream", "error_first", "error_200")
def errors(answer: Answer) -> None:
    """Errors with status 200."""
    error = {"error": {"message": "The engine is currently overloaded", "type": "overloaded_error", "code": 503}}
    if answer.model == "error_200":
        answer.json(200, error)
    elif answer.model == "error_first" and answer.before:
        good(answer)
    else:
        answer.head()
        if answer.model == "error_midstream":
            answer.text("half")
        answer.raw(event(error))
        answer.done()


@scenario("refusal", "tool_call")
def not_an_answer(answer: Answer) -> None:
    """Something else than text."""
    answer.head()
    if answer.model == "refusal":
        answer.chunk({"refusal": "I cannot help with that."})
        answer.end()
    else:
        call = {
            "index": 10**9,
            "id": "1",
            "type": "function",
            "function": {"name": "bash", "arguments": '{"cmd": "rm -rf '},
        }
        answer.chunk({"tool_calls": [call]})
        answer.end("tool_calls")


@scenario("401")
def refused_key(answer: Answer) -> None:
    """Refuse, repeating the key."""
    key = answer.request.headers.get("authorization", "").removeprefix("Bearer ")
    answer.refuse(
        401, f"Incorrect API key provided: {key}. You can find your API key in your account.", "invalid_api_key"
    )


@scenario()
def echo_key(answer: Answer) -> None:
    """Answer with the key."""
    key = answer.request.headers.get("authorization", "").removeprefix("Bearer ")
    answer.scripted({"text": f"Your key is {key}, is it not?", "delta_characters": 2})


@scenario("403", "404", "400", "408", "409", "413", "422", "500", "503", "529")
def statuses(answer: Answer) -> None:
    """Refuse plainly."""
    answer.refuse(int(answer.model), "It did not work out.")


@scenario("500_once", "500_text", "refuse_once")
def sometimes(answer: Answer) -> None:
    """Failing once, or as text."""
    if answer.model == "500_text":
        answer.head(500, "text/plain")
        answer.raw(b"Internal Server Error")
    elif answer.before:
        good(answer)
    elif answer.model == "500_once":
        answer.refuse(500, "A hiccup.")


@scenario()
def model_404(answer: Answer) -> None:
    """No such model."""
    answer.refuse(404, f"The model `{answer.model}` does not exist or you do not have access to it.", "model_not_found")


@scenario("429", "429_once", "429_ms", "429_proxy", "429_long", "429_no_retry")
def limited(answer: Answer) -> None:
    """Too many requests."""
    headers = {
        "429": {"Retry-After": "0"},
        "429_once": {"Retry-After": "0"},
        "429_ms": {"retry-after-ms": "10"},
        "429_proxy": {"llm-provider": "x", "llm_provider-retry-after": "0"},
        "429_long": {"Retry-After": "99999999999"},
        "429_no_retry": {"x-should-retry": "false"},
    }[answer.model]
    if answer.before and answer.model in {"429_once", "429_ms", "429_proxy"}:
        good(answer)
        return
    data = b'{"error": {"message": "Rate limit reached for requests", "type": "requests", "code": "429"}}'
    lines = [
        "HTTP/1.1 429 Too Many Requests",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        "Connection: close",
    ]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    answer.raw(("\r\n".join(lines) + "\r\n\r\n").encode() + data)


@scenario()
def quota(answer: Answer) -> None:
    """No credit."""
    answer.refuse(
        429, "You exceeded your current quota, please check your plan and billing details.", "insufficient_quota"
    )


@scenario()
def context(answer: Answer) -> None:
    """Too long a prompt."""
    answer.refuse(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")


@scenario()
def html(answer: Answer) -> None:
    """Send a login page."""
    answer.head(200, "text/html; charset=utf-8")
    answer.raw(b"<html><head><title>Sign in</title></head><body><h1>Captive portal</h1></body></html>")


@scenario()
def redirect(answer: Answer) -> None:
    """To a host that must never be asked."""
    answer.head(307, "text/plain", Location="http://169.254.169.254/latest/", Content_Length="0")


@scenario("gzip")
def compressed(answer: Answer) -> None:
    """Send a small body that becomes a large one."""
    data = gzip.compress(b"data: " + b"a" * (8 << 20))
    answer.head(200, "text/event-stream", Content_Encoding="gzip", Content_Length=str(len(data)))
    answer.raw(data)


@scenario("endless_line", "endless_events", "endless_thinking")
def endless(answer: Answer) -> None:
    """Ten gigabytes."""
    answer.head()
    if answer.model == "endless_line":
        answer.raw(b"data: ")
        data = b"a" * _BLOCK
    elif answer.model == "endless_events":
        data = event(chunk(answer.model, {"content": "y" * 4000}, None)) * 200
    else:
        data = event(chunk(answer.model, {"reasoning_content": "thinking " * 400}, None)) * 200
    for _ in range(10_240):
        if answer.owner.stopped.is_set():
            return
        answer.raw(data)


@scenario()
def huge_header(answer: Answer) -> None:
    """Four megabytes."""
    answer.raw(b"HTTP/1.1 200 OK\r\nX-Large: " + b"a" * (4 << 20) + b"\r\n\r\n")


@scenario("bad_utf8", "bad_json", "deep_json")
def garbage(answer: Answer) -> None:
    """Bytes that mean nothing."""
    answer.head()
    data = {
        "bad_utf8": b'data: {"choices":[{"delta":{"content":"a\xff\xfe\xc3"}}]}\n\n',
        "bad_json": b"data: {broken}\n\n",
        "deep_json": b"data: " + b"[" * 200_000 + b"\n\n",
    }
    answer.raw(data[answer.model])
    answer.end()
