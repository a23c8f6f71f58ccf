"""The HTTP server and its log of requests."""

from __future__ import annotations

import json
import socketserver
import threading
from contextlib import suppress
from typing import Self

from understudy.testing.model_server.chat_scenarios import SCENARIOS, model_404
from understudy.testing.model_server.responses import Answer, Owner, Request

_MAX_REQUEST = 64 << 20


def respond(answer: Answer) -> None:
    """Answer: a list of models, a scenario, or a refusal."""
    path = answer.request.path.split("?")[0]
    bearer = answer.request.headers.get("authorization", "").removeprefix("Bearer ")
    headers = answer.request.headers
    sent_key = headers.get("x-api-key") or headers.get("x-goog-api-key") or bearer
    if answer.owner.key is not None and sent_key != answer.owner.key:
        answer.refuse(401, f"Incorrect API key provided: {sent_key}", "invalid_api_key")
        return
    if path.endswith("/models"):
        names = answer.owner.models if answer.owner.models is not None else [*SCENARIOS, *answer.owner.answers]
        if "/v1beta/" in path:
            answer.json(200, {"models": [{"name": f"models/{name}", "inputTokenLimit": 8192} for name in names]})
            return
        answer.json(
            200,
            {"object": "list", "data": [{"id": name, "object": "model", "context_length": 8192} for name in names]},
        )
        return
    if answer.owner.answered(answer):
        return
    if not path.endswith("/chat/completions"):
        answer.json(404, {"detail": "Not Found"})
        return
    if answer.model in answer.owner.answers:
        answer.scripted(answer.owner.answers[answer.model])
    elif answer.model in SCENARIOS:
        SCENARIOS[answer.model](answer)
    else:
        model_404(answer)


class ModelServer(Owner):
    """The server as a context manager; ``requests`` contains the received requests, oldest first."""

    def __enter__(self) -> Self:
        """Listen on the loopback interface."""
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
        """The ``baseUrl`` for a model server's entry."""
        return f"http://127.0.0.1:{self.port}/v1"


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128  # clients that connect at the same time are not refused
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    """One connection, one request, one answer, written as raw bytes so that any part can be malformed."""

    server: _Server

    def handle(self) -> None:
        with suppress(OSError, ValueError):
            request = self._read()
            if request is None:
                return
            owner = self.server.owner
            owner.requests.append(request)
            respond(Answer(owner, request, self.request))

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
