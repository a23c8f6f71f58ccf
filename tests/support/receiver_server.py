"""A server of our own in place of webhooks, Slack, ntfy and Telegram's bot API."""

from __future__ import annotations

import contextlib
import http.server
import json
import queue
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

SECONDS = 30.0
"""The longest wait of a test for a request, and of the server for a test."""


class Received(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    json: Any


class ReceiverServer:
    """What was received, and what is answered: 200, unless ``answers`` has others for the next requests."""

    def __init__(self) -> None:
        self.received: queue.Queue[Received] = queue.Queue()
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.polls: queue.Queue[Received] = queue.Queue()
        """Requests that wait for answers to questions."""
        self.updates: list[dict[str, Any]] = []
        """What Telegram's getUpdates returns."""
        self.published: dict[str, list[str]] = {}
        """Topic at ntfy → the messages in it."""
        self.changed = threading.Condition()
        self.is_closing = False
        self.url = ""

    def next(self) -> Received:
        return self.received.get(timeout=SECONDS)

    def press(self, code: str, chat: int = 7) -> None:
        """Press a button in Telegram."""
        with self.changed:
            number = len(self.updates) + 1
            pressed = {"id": f"p{number}", "data": code, "message": {"chat": {"id": chat}}}
            self.updates.append({"update_id": number, "callback_query": pressed})
            self.changed.notify_all()

    def updates_from(self, first: int) -> list[Any]:
        return [update for update in self.updates if update["update_id"] >= first]

    def publish(self, topic: str, text: str) -> None:
        """Publish a message at ntfy, as its action buttons do."""
        with self.changed:
            self.published.setdefault(topic, []).append(text)
            self.changed.notify_all()


class _Handler(http.server.BaseHTTPRequestHandler):
    place: ReceiverServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        topic = self.path.split("/")[1]
        self.place.polls.put(Received("GET", self.path, dict(self.headers), None))
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        seen = 0
        with contextlib.suppress(OSError):
            self._line({"event": "open", "topic": topic})
            while not self.place.is_closing:
                with self.place.changed:
                    if len(self.place.published.get(topic, [])) == seen and not self.place.is_closing:
                        self.place.changed.wait(0.2)
                    texts = self.place.published.get(topic, [])[seen:]
                for text in texts:
                    self._line({"event": "message", "topic": topic, "message": text})
                seen += len(texts)
                if not texts:
                    self._line({"event": "keepalive"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        given = Received("POST", self.path, dict(self.headers), json.loads(body))
        if self.path.endswith("/getUpdates"):
            self.place.polls.put(given)
            self._answer(200, {"ok": True, "result": self._updates(given.json)})
            return
        self.place.received.put(given)
        status, headers = self.place.answers.pop(0) if self.place.answers else (200, {})
        self._answer(status, {"ok": True, "result": {}}, headers)

    def _updates(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        first = asked.get("offset", 0)
        with self.place.changed:
            self.place.changed.wait_for(
                lambda: self.place.is_closing or self.place.updates_from(first),
                min(asked["timeout"], SECONDS),
            )
            return self.place.updates_from(first)

    def _line(self, value: Any) -> None:
        self.wfile.write(json.dumps(value).encode() + b"\n")
        self.wfile.flush()

    def _answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, text in (headers or {}).items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


@contextlib.contextmanager
def serving() -> Iterator[ReceiverServer]:
    place = ReceiverServer()
    handler = type("Handler", (_Handler,), {"place": place})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        place.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield place
        finally:
            with place.changed:
                place.is_closing = True
                place.changed.notify_all()
            server.shutdown()
            thread.join()
