"""A scripted model server: chat completions on the loopback interface, the model's name choosing what happens.

    python -m understudy.testing.model_server --port 0 --port-file /tmp/port [--answers answers.json]

``answers.json`` maps further model names to what they answer: a text, or ``{"text", "thinking", "usage", "finish_reason",
"delta_characters", "delay_seconds"}``. The scenarios that are built in:

good                streamed text, usage on a last event without choices, ``[DONE]``
echo                answers with the last user message
reasoning, thinking the same, after ``reasoning_content`` (``reasoning``) deltas
usage_on_finish     usage on the chunk with the finish reason
usage_on_delta      usage beside an empty choice (litellm)
no_usage            never says what was used
mad_usage           negative, huge and textual counts
no_done             a finish reason and no ``[DONE]``
done_only           ``[DONE]`` and no finish reason
hang_after_finish   keeps the connection open after the finish reason
not_streamed        one JSON answer although a stream was asked for
odd_chunks          null choices, null deltas, numbers, an unnamed comment and a named event between the text
crlf, bom, split    CRLF line ends; a byte order mark; one byte at a time, through the middle of characters
slow                ten deltas, a tenth of a second apart
slow_headers        nothing for half a second, then ``good``
no_stream_options   400 when ``stream_options`` is sent, else ``good``
empty               a finish reason without a text
zero_events         200 and an event stream that ends at once; the second request is ``good``
zero_forever        200 and an event stream that ends at once
cut                 breaks off in the middle of a chunked body
cut_json            breaks off in the middle of an event
cut_clean           ends cleanly in the middle
reset               resets the connection in the middle
stall               stops in the middle and keeps the connection
comments            stops in the middle and keeps sending comments
silent              accepts and never answers
silent_comments     sends comments and never an event
slow_loris          events of a byte every 50 ms
error_midstream     an error object after some text, then ``[DONE]``
error_first         an overload reported as the first event; the second request is ``good``
error_200           an error object as JSON with status 200
length              stops at the output limit
content_filter      stopped by a filter
refusal             the model's own refusal
tool_call           calls a tool that nobody offered
401                 refuses the key and repeats it in the message
echo_key            sends the key back as its answer, two bytes at a time
403, 404, 400, 408, 409, 413, 422, 500, 503, 529
                    answer with that status
model_404           no such model
429                 always, asking to wait 0 seconds
429_once            once, ``Retry-After: 0``; then ``good``
429_ms              once, ``retry-after-ms: 10``; then ``good``
429_proxy           once, ``llm_provider-retry-after: 0``; then ``good``
429_long            asks to wait 99,999,999,999 seconds
429_no_retry        ``x-should-retry: false``
500_once            once; then ``good``
500_text            as plain text
refuse_once         closes the first connection unanswered; then ``good``
quota, context      no credit left; a prompt that is too long
html                a login page with status 200
redirect            307 to another host
gzip                a compressed answer that nobody asked for
endless_line        one line without an end
endless_events      events without an end
endless_thinking    reasoning without an end
huge_header         four megabytes of header
bad_utf8            bytes that are no text
bad_json            an event that is no JSON
deep_json           an event nested 200,000 deep
"""

from __future__ import annotations

import argparse
import gzip
import json
import socket
import socketserver
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

TEXT = "Hello from the scripted model – ünïcode 🎉 included."
USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 9,
    "total_tokens": 21,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
_BLOCK = 1 << 20
_MAX_REQUEST = 64 << 20


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    """Decoded JSON; None when there was none."""


@dataclass
class ModelServer:
    """The server as a context manager; ``requests`` holds what was received, oldest first."""

    answers: Mapping[str, Any] = field(default_factory=dict)
    models: list[str] | None = None
    """What ``GET /v1/models`` lists; None: every scenario."""
    key: str | None = None
    """The only key that is accepted; None: any, and none."""
    port: int = 0
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Listen on the loopback interface."""
        self.stopped = threading.Event()
        self.times: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening and end every answer that is still being sent."""
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def base_url(self) -> str:
        """What a model server's entry needs as ``baseUrl``."""
        return f"http://127.0.0.1:{self.port}/v1"

    def count(self, model: str) -> int:
        """Note one more request for ``model`` and return how many there were before."""
        with self._lock:
            self.times[model] += 1
            return self.times[model] - 1

    def wait(self, seconds: float = 3600.0) -> None:
        """Do nothing until the server is closed or the time is over."""
        if self.stopped.wait(seconds):
            raise ConnectionAbortedError


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    """One connection, one request, one answer; raw bytes, so that everything can be sent wrong."""

    server: _Server

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            request = self._read()
            if request is None:
                return
            owner = self.server.owner
            owner.requests.append(request)
            _Answer(owner, request, self.request).send()

    def _read(self) -> Request | None:
        first = self.rfile.readline(65536).decode("latin-1").split()
        if len(first) < 2:
            return None
        headers: dict[str, str] = {}
        while line := self.rfile.readline(65536).decode("latin-1").strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        length = min(int(headers.get("content-length", "0")), _MAX_REQUEST)
        raw = self.rfile.read(length)
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        return Request(first[0], first[1], headers, body)


class _Answer:
    """Sends one answer."""

    def __init__(self, owner: ModelServer, request: Request, connection: socket.socket) -> None:
        self.owner = owner
        self.request = request
        self.connection = connection
        body = request.body if isinstance(request.body, dict) else {}
        self.body: dict[str, Any] = body
        self.model = str(body.get("model", "good"))
        self.before = owner.count(self.model)

    def send(self) -> None:
        sent_key = self.request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.owner.key is not None and sent_key != self.owner.key:
            self.json(401, {"error": {"message": f"Incorrect API key provided: {sent_key}", "type": "invalid_request_error", "code": "invalid_api_key"}})
            return
        if self.request.path.split("?")[0].endswith("/models"):
            names = self.owner.models if self.owner.models is not None else [*SCENARIOS, *self.owner.answers]
            self.json(200, {"object": "list", "data": [{"id": name, "object": "model", "context_length": 8192} for name in names]})
            return
        if not self.request.path.split("?")[0].endswith("/chat/completions"):
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
        self.connection.sendall(data)

    def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}", f"Content-Type: {kind}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.raw(("\r\n".join(lines) + "\r\n\r\n").encode())

    def json(self, status: int, value: Any, **headers: str) -> None:
        data = json.dumps(value).encode()
        self.head(status, "application/json", Content_Length=str(len(data)), **headers)
        self.raw(data)

    def refuse(self, status: int, message: str, code: str | None = None, **headers: str) -> None:
        self.json(status, {"error": {"message": message, "type": "error", "param": None, "code": code}}, **headers)

    def chunk(self, delta: Any, finish: str | None = None, **more: Any) -> None:
        self.raw(event(chunk(self.model, delta, finish, **more)))

    def text(self, text: str = TEXT, size: int = 7) -> None:
        for piece in pieces(text, size):
            self.chunk({"content": piece})

    def end(self, finish: str = "stop", usage: Any = USAGE) -> None:
        self.chunk({}, finish)
        options = self.body.get("stream_options")
        if usage is not None and isinstance(options, dict) and options.get("include_usage"):
            self.raw(event({**chunk(self.model, {}, None), "choices": [], "usage": usage}))
        self.done()

    def done(self) -> None:
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
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": [choice], **more}


def whole(model: str, text: str, finish: str, usage: Any) -> dict[str, Any]:
    """Return a completion that is not streamed."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice], "usage": usage}


def pieces(text: str, size: int) -> Iterator[str]:
    """Return ``text`` in pieces of ``size`` characters."""
    for start in range(0, len(text), max(1, size)):
        yield text[start : start + max(1, size)]


SCENARIOS: dict[str, Callable[[_Answer], None]] = {}
"""Model name → what happens."""


def scenario(*names: str) -> Callable[[Callable[[_Answer], None]], Callable[[_Answer], None]]:
    """Register a scenario under ``names``, or under the function's own name."""

    def register(function: Callable[[_Answer], None]) -> Callable[[_Answer], None]:
        for name in names or (function.__name__,):
            SCENARIOS[name] = function
        return function

    return register


@scenario()
def good(answer: _Answer) -> None:
    """Text, usage, end."""
    answer.scripted({"delta_characters": 7})


@scenario()
def echo(answer: _Answer) -> None:
    """The last user message."""
    answer.scripted(str(answer.body["messages"][-1]["content"]))


@scenario("reasoning", "thinking")
def reasoning(answer: _Answer) -> None:
    """Thoughts under either name."""
    answer.head()
    name = "reasoning_content" if answer.model == "reasoning" else "reasoning"
    for piece in ("Let me ", "think."):
        answer.chunk({name: piece})
    answer.text()
    answer.end()


@scenario("usage_on_finish", "usage_on_delta", "no_usage", "mad_usage")
def usages(answer: _Answer) -> None:
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
def endings(answer: _Answer) -> None:
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
def not_streamed(answer: _Answer) -> None:
    """A whole answer."""
    answer.json(200, whole(answer.model, TEXT, "stop", USAGE))


@scenario()
def odd_chunks(answer: _Answer) -> None:
    """Everything that specifications do not allow and servers send."""
    answer.head()
    answer.raw(b": ping\n\n: OPENROUTER PROCESSING\n\nevent: ping\ndata: {}\n\n")
    answer.raw(b'data: {"choices":null}\n\ndata: {"choices":[]}\n\ndata: 5\n\ndata: null\n\ndata: {"choices":[{"delta":null}]}\n\n')
    answer.chunk({"role": "assistant", "content": None})
    answer.text()
    answer.raw(b'data: {"choices":[{"index":1,"delta":{"content":"another choice"}}]}\n\n')
    answer.end()


@scenario("crlf", "bom", "split")
def framing(answer: _Answer) -> None:
    """The same stream in other bytes."""
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
def slow(answer: _Answer) -> None:
    """A second for ten deltas."""
    answer.scripted({"text": "0123456789", "delta_characters": 1, "delay_seconds": 0.1})


@scenario()
def slow_headers(answer: _Answer) -> None:
    """A late start."""
    time.sleep(0.5)
    good(answer)


@scenario()
def no_stream_options(answer: _Answer) -> None:
    """A strict server."""
    if "stream_options" in answer.body:
        answer.json(422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs"}]})
    else:
        good(answer)


@scenario("zero_events", "zero_forever")
def zero_events(answer: _Answer) -> None:
    """Nothing, successfully."""
    if answer.before and answer.model == "zero_events":
        good(answer)
    else:
        answer.head()


@scenario("cut", "cut_json", "reset")
def cut(answer: _Answer) -> None:
    """A connection that breaks."""
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
def stalls(answer: _Answer) -> None:
    """A server that does not go on."""
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
def slow_loris(answer: _Answer) -> None:
    """Bytes that never become an event in time."""
    answer.head()
    data = event(chunk(answer.model, {"content": "x"}, None))
    while True:
        for index in range(len(data)):
            if answer.owner.stopped.wait(0.05):
                return
            answer.raw(data[index : index + 1])


@scenario("error_midstream", "error_first", "error_200")
def errors(answer: _Answer) -> None:
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
def not_an_answer(answer: _Answer) -> None:
    """Something else than text."""
    answer.head()
    if answer.model == "refusal":
        answer.chunk({"refusal": "I cannot help with that."})
        answer.end()
    else:
        call = {"index": 10**9, "id": "1", "type": "function", "function": {"name": "bash", "arguments": '{"cmd": "rm -rf '}}
        answer.chunk({"tool_calls": [call]})
        answer.end("tool_calls")


@scenario("401")
def refused_key(answer: _Answer) -> None:
    """A refusal that repeats the key."""
    key = answer.request.headers.get("authorization", "").removeprefix("Bearer ")
    answer.refuse(401, f"Incorrect API key provided: {key}. You can find your API key in your account.", "invalid_api_key")


@scenario()
def echo_key(answer: _Answer) -> None:
    """A key in an answer."""
    key = answer.request.headers.get("authorization", "").removeprefix("Bearer ")
    answer.scripted({"text": f"Your key is {key}, is it not?", "delta_characters": 2})


@scenario("403", "404", "400", "408", "409", "413", "422", "500", "503", "529")
def statuses(answer: _Answer) -> None:
    """A plain refusal."""
    answer.refuse(int(answer.model), "It did not work out.")


@scenario("500_once", "500_text", "refuse_once")
def sometimes(answer: _Answer) -> None:
    """Failing once, or as text."""
    if answer.model == "500_text":
        answer.head(500, "text/plain")
        answer.raw(b"Internal Server Error")
    elif answer.before:
        good(answer)
    elif answer.model == "500_once":
        answer.refuse(500, "A hiccup.")


@scenario()
def model_404(answer: _Answer) -> None:
    """No such model."""
    answer.refuse(404, f"The model `{answer.model}` does not exist or you do not have access to it.", "model_not_found")


@scenario("429", "429_once", "429_ms", "429_proxy", "429_long", "429_no_retry")
def limited(answer: _Answer) -> None:
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
    lines = ["HTTP/1.1 429 Too Many Requests", "Content-Type: application/json", f"Content-Length: {len(data)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    answer.raw(("\r\n".join(lines) + "\r\n\r\n").encode() + data)


@scenario()
def quota(answer: _Answer) -> None:
    """No credit."""
    answer.refuse(429, "You exceeded your current quota, please check your plan and billing details.", "insufficient_quota")


@scenario()
def context(answer: _Answer) -> None:
    """Too long a prompt."""
    answer.refuse(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")


@scenario()
def html(answer: _Answer) -> None:
    """A login page."""
    answer.head(200, "text/html; charset=utf-8")
    answer.raw(b"<html><head><title>Sign in</title></head><body><h1>Captive portal</h1></body></html>")


@scenario()
def redirect(answer: _Answer) -> None:
    """To a host that must never be asked."""
    answer.head(307, "text/plain", Location="http://169.254.169.254/latest/", Content_Length="0")


@scenario("gzip")
def compressed(answer: _Answer) -> None:
    """A small body that becomes a large one."""
    data = gzip.compress(b"data: " + b"a" * (8 << 20))
    answer.head(200, "text/event-stream", Content_Encoding="gzip", Content_Length=str(len(data)))
    answer.raw(data)


@scenario("endless_line", "endless_events", "endless_thinking")
def endless(answer: _Answer) -> None:
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
def huge_header(answer: _Answer) -> None:
    """Four megabytes."""
    answer.raw(b"HTTP/1.1 200 OK\r\nX-Large: " + b"a" * (4 << 20) + b"\r\n\r\n")


@scenario("bad_utf8", "bad_json", "deep_json")
def garbage(answer: _Answer) -> None:
    """Bytes that mean nothing."""
    answer.head()
    data = {
        "bad_utf8": b'data: {"choices":[{"delta":{"content":"a\xff\xfe\xc3"}}]}\n\n',
        "bad_json": b"data: {broken}\n\n",
        "deep_json": b"data: " + b"[" * 200_000 + b"\n\n",
    }
    answer.raw(data[answer.model])
    answer.end()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="understudy.testing.model_server", description="A scripted model server on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--port-file", type=Path, help="where to write the port once the server listens")
    parser.add_argument("--answers", type=Path, help="JSON file: model name → text, or a table (see the module's docstring)")
    parser.add_argument("--key", help="the only key to accept")
    arguments = parser.parse_args()
    answers = json.loads(arguments.answers.read_text("utf-8")) if arguments.answers else {}
    with ModelServer(answers=answers, port=arguments.port, key=arguments.key) as server:
        if arguments.port_file:
            temporary = arguments.port_file.with_name(arguments.port_file.name + ".part")
            temporary.write_text(str(server.port))
            temporary.replace(arguments.port_file)
        print(f"Serving {len(SCENARIOS)} scripted models at {server.base_url}", flush=True)  # noqa: T201 - a command prints
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
