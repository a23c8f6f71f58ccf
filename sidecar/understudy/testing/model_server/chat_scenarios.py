"""The scenarios of chat completions; the package's docstring describes each."""

from __future__ import annotations

import gzip
import socket
import struct
import time
from collections.abc import Callable

from understudy.testing.model_server.responses import TEXT, USAGE, Answer, chunk, event, pieces, whole

_BLOCK = 1 << 20

SCENARIOS: dict[str, Callable[[Answer], None]] = {}
"""Model name → scenario."""


def scenario(*names: str) -> Callable[[Callable[[Answer], None]], Callable[[Answer], None]]:
    """Register a scenario under ``names``, or under the function's own name."""

    def register(function: Callable[[Answer], None]) -> Callable[[Answer], None]:
        for name in names or (function.__name__,):
            SCENARIOS[name] = function
        return function

    return register


@scenario()
def good(answer: Answer) -> None:
    """Send text, usage and end."""
    answer.scripted({"delta_characters": 7})


@scenario()
def echo(answer: Answer) -> None:
    """Repeat the last user message."""
    answer.scripted(str(answer.body["messages"][-1]["content"]))


@scenario("reasoning", "thinking")
def reasoning(answer: Answer) -> None:
    """Send reasoning under either field name."""
    answer.head()
    name = "reasoning_content" if answer.model == "reasoning" else "reasoning"
    for piece in ("Let me ", "think."):
        answer.chunk({name: piece})
    answer.text()
    answer.end()


@scenario("usage_on_finish", "usage_on_delta", "no_usage", "mad_usage")
def usages(answer: Answer) -> None:
    """Send usage in the places where servers put it."""
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
    """End the stream in different ways."""
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
    """Send chunks that specifications do not allow and servers send."""
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
    """Send the same stream with different bytes."""
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
    """Refuse ``stream_options``."""
    if "stream_options" in answer.body:
        answer.json(
            422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs"}]}
        )
    else:
        good(answer)


@scenario("zero_events", "zero_forever")
def zero_events(answer: Answer) -> None:
    """Send a successful but empty stream."""
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
    """Stop sending, and keep the connection."""
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
    """Send bytes that never become an event in time."""
    answer.head()
    data = event(chunk(answer.model, {"content": "x"}, None))
    while True:
        for index in range(len(data)):
            if answer.owner.stopped.wait(0.05):
                return
            answer.raw(data[index : index + 1])


@scenario("error_midstream", "error_first", "error_200")
def errors(answer: Answer) -> None:
    """Send errors with status 200."""
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
    """Send something other than text."""
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
    """Refuse with the status."""
    answer.refuse(int(answer.model), "It did not work out.")


@scenario("500_once", "500_text", "refuse_once")
def sometimes(answer: Answer) -> None:
    """Fail once, or as text."""
    if answer.model == "500_text":
        answer.head(500, "text/plain")
        answer.raw(b"Internal Server Error")
    elif answer.before:
        good(answer)
    elif answer.model == "500_once":
        answer.refuse(500, "A hiccup.")


@scenario()
def model_404(answer: Answer) -> None:
    """Report an unknown model."""
    answer.refuse(404, f"The model `{answer.model}` does not exist or you do not have access to it.", "model_not_found")


@scenario("429", "429_once", "429_ms", "429_proxy", "429_long", "429_no_retry")
def limited(answer: Answer) -> None:
    """Report too many requests."""
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
    """Report that no credit is left."""
    answer.refuse(
        429, "You exceeded your current quota, please check your plan and billing details.", "insufficient_quota"
    )


@scenario()
def context(answer: Answer) -> None:
    """Report a prompt that is too long."""
    answer.refuse(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")


@scenario()
def html(answer: Answer) -> None:
    """Send a login page."""
    answer.head(200, "text/html; charset=utf-8")
    answer.raw(b"<html><head><title>Sign in</title></head><body><h1>Captive portal</h1></body></html>")


@scenario()
def redirect(answer: Answer) -> None:
    """Redirect to a host that must never be contacted."""
    answer.head(307, "text/plain", Location="http://169.254.169.254/latest/", Content_Length="0")


@scenario("gzip")
def compressed(answer: Answer) -> None:
    """Send a small body that becomes a large one."""
    data = gzip.compress(b"data: " + b"a" * (8 << 20))
    answer.head(200, "text/event-stream", Content_Encoding="gzip", Content_Length=str(len(data)))
    answer.raw(data)


@scenario("endless_line", "endless_events", "endless_thinking")
def endless(answer: Answer) -> None:
    """Send ten gigabytes."""
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
    """Send a header of four megabytes."""
    answer.raw(b"HTTP/1.1 200 OK\r\nX-Large: " + b"a" * (4 << 20) + b"\r\n\r\n")


@scenario("bad_utf8", "bad_json", "deep_json")
def garbage(answer: Answer) -> None:
    """Send invalid bytes."""
    answer.head()
    data = {
        "bad_utf8": b'data: {"choices":[{"delta":{"content":"a\xff\xfe\xc3"}}]}\n\n',
        "bad_json": b"data: {broken}\n\n",
        "deep_json": b"data: " + b"[" * 200_000 + b"\n\n",
    }
    answer.raw(data[answer.model])
    answer.end()
