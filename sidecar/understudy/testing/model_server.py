"""A scripted model server: chat completions and messages on loopback, the model's name choosing what happens.

    python -m understudy.testing.model_server --port 0 --port-file /tmp/port [--answers answers.json]

``answers.json`` maps further model names to what they answer: a text, or ``{"text", "thinking", "usage",
"finish_reason", "delta_characters", "delay_seconds"}``. The scenarios that are built in:

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

It speaks the Anthropic Messages API too (``POST /v1/messages``, streamed or not, ``/v1/messages/count_tokens``), for
agent CLIs that are pointed at it. Because these choose models of their own for side requests, a base URL with
``/s/<scenario>`` chooses the scenario instead of the model. An entry of ``answers.json`` may be ``{"turns": [{"text",
"thinking", "tools": [{"name", "input"}]}, …]}``, one turn after each round of tool results; ``{cwd}`` is the client's
folder.

good, reasoning     a text; after a thinking block
write, edits        uses the tool Write; Write, Read and Edit
shell, two_shells   uses the tool Bash; twice at once
long_shell          a command that never ends
endless_tools       a tool in every turn
outside             writes outside the client's folder
empty               a text block without text
slow                sixty words, a tenth of a second apart
400, 401, 403, 404, 413, 429, 500, 529
                    answer with that status, as Anthropic does
429_once            once, ``Retry-After: 0``; then ``good``
quota, credit, context
                    limits reached; no credit left; a prompt that is too long
cut, reset          ends, breaks in the middle of a message
stall, silent       stops in the middle; never answers
error_midstream     an overload in the middle of a message
late_500, late_context, late_cut
                    the same after a first round of ``write``
"""

from __future__ import annotations

import argparse
import json
import socketserver
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from understudy.testing.model_scenarios import SCENARIOS, TEXT, USAGE, Answer, Request

__all__ = ["TEXT", "USAGE", "ModelServer", "Request"]

_MAX_REQUEST = 64 << 20


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
            Answer(owner, request, self.request).send()

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


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="understudy.testing.model_server", description="A scripted model server on loopback."
    )
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--port-file", type=Path, help="where to write the port once the server listens")
    parser.add_argument(
        "--answers", type=Path, help="JSON file: model name → text, or a table (see the module's docstring)"
    )
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
