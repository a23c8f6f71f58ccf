"""One client: its requests, batches and subscriptions; each request is answered exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.api import error_codes, method_table
from understudy.api.caller import current_folder, describe_asker
from understudy.api.serving import request as pending
from understudy.api.serving.subscriptions import Subscriptions
from understudy.api.serving.thread_pool import RequestThreads
from understudy.frontends import json_lines
from understudy.frontends.rpc import dispatch
from understudy.model.delegation.delegations import AskedBy
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    import msgspec

ROOM_SECONDS = 1.0
"""How long reading pauses for a client with too many requests in flight, before ``overloaded`` is answered."""
MOST_IN_BATCH = 100
FINISH_SECONDS = 10.0
"""How long running requests may finish after the end of the stream; then they are cancelled."""
CANCEL_SECONDS = 2.0

_CANCEL = "$/cancelRequest"


@dataclass(frozen=True)
class Peer:
    """The process at the other end."""

    pid: int | None
    cwd: Path | None
    environ: Mapping[str, str]
    run: str | None = None
    """The run that it belongs to, if it is not the process that started this one (``lineage.surrounding_run``)."""


class Session:
    """One client. One reading thread calls ``feed`` and ``end``; ``write`` may block, and raises ``OSError``."""

    def __init__(self, write: Callable[[bytes], None], peer: Peer) -> None:
        """Answer through ``write``."""
        self.peer = peer
        self._write = write
        self._writing = threading.Lock()
        self._lines = json_lines.Lines()
        self._threads = RequestThreads()
        self._changed = threading.Condition()
        self._pending: set[Request] = set()
        self._broken = False
        self.subscriptions = Subscriptions(self.notify, _folders)

    def feed(self, data: bytes) -> None:
        """Handle received bytes."""
        for line in self._lines.feed(data):
            self._take(line)

    def end(self) -> None:
        """Finish running requests, within a limit; then every request is answered and no message is sent."""
        for line in self._lines.end():
            self._take(line)
        if not self._empty_within(FINISH_SECONDS):
            self._cancel_all()
            if not self._empty_within(CANCEL_SECONDS):
                for request in self._unanswered():
                    request.refuse(pending.cancelled_error())
        self.subscriptions.close()
        self._threads.close()

    def send(self, message: bytes) -> None:
        """Write one line; if the client is gone, cancel its requests."""
        if not message:
            return
        try:
            with self._writing:
                if not self._broken:
                    self._write(message)
        except OSError:
            self._broken = True
            self._cancel_all()

    @property
    def broken(self) -> bool:
        """Whether the client no longer reads."""
        return self._broken

    def _take(self, line: bytes | None) -> None:
        if line is None:
            self.send(
                _refusal(error_codes.PARSE_ERROR, f"A message may have at most {json_lines.LONGEST_FRAME} bytes.")
            )
            return
        if not line.strip():
            return
        try:
            message = json_lines.parse(line)
        except json_lines.Malformed as why:
            self.send(_refusal(error_codes.PARSE_ERROR, f"This is not JSON: {why}."))
            return
        if not isinstance(message, list):
            self._one(message, self.send)
        elif not 0 < len(message) <= MOST_IN_BATCH:
            self.send(_refusal(error_codes.INVALID_REQUEST, f"A batch must have 1 to {MOST_IN_BATCH} requests."))
        else:
            batch = _Batch(self.send, len(message))
            for item in message:
                self._one(item, batch.answered)

    def _one(self, message: Any, answer: Callable[[bytes], None]) -> None:
        """Handle one message; ``answer`` receives its response, or ``b""`` if it gets none."""
        if _is_response(message) or self._is_cancel(message):
            answer(b"")
            return
        why = dispatch.problem(message)
        if why is not None:
            identifier = message.get("id") if isinstance(message, dict) else None
            answer(_refusal(error_codes.INVALID_REQUEST, why, identifier if dispatch.is_id(identifier) else None))
            return
        request = Request(self, dispatch.normalized(message), answer)
        if not self._admitted(request):
            request.refuse(pending.overloaded_error())
            return
        self._threads.submit(request.message["method"], request.run)

    def _admitted(self, request: Request) -> bool:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._pending) < pending.MAX_IN_FLIGHT, ROOM_SECONDS):
                return False
            self._pending.add(request)
            return True

    def forget(self, request: Request) -> None:
        """Remove a request that has been answered."""
        with self._changed:
            self._pending.discard(request)
            self._changed.notify_all()

    def _is_cancel(self, message: Any) -> bool:
        """Handle the notification ``$/cancelRequest``; return whether the message was one."""
        if not isinstance(message, dict) or message.get("method") != _CANCEL or "id" in message:
            return False
        params = message.get("params")
        if isinstance(params, dict) and "id" in params and dispatch.is_id(params["id"]):
            for request in self._unanswered():
                if request.is_called(params["id"]):
                    request.cancel()
        return True

    def _unanswered(self) -> list[Request]:
        with self._changed:
            return list(self._pending)

    def _cancel_all(self) -> None:
        for request in self._unanswered():
            request.cancel()

    def _empty_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._pending and not self._broken:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.2))
            return not self._pending

    def notify(self, name: str, params: Any) -> None:
        """Send a notification. Errors: ``BrokenPipeError`` if the client is gone."""
        method = method_table.PREFIX + name
        self.send(dispatch.encode({"jsonrpc": "2.0", "method": method, "params": params}))
        if self._broken:
            raise BrokenPipeError


class Request(pending.InFlightRequest):
    """One request in flight; it is the ``Caller`` of its handler."""

    name = "rpc"

    def __init__(self, session: Session, message: dispatch.Message, answer: Callable[[bytes], None]) -> None:
        """``answer`` receives the response once, ``b""`` for a notification."""
        super().__init__()
        self.message = message
        self._session = session
        self._answer = answer

    def run(self) -> None:
        """Answer the request; called in a thread."""
        if not self.begins():
            return
        self.finish(dispatch.answer(self.message, self) or b"")

    def finish(self, response: bytes) -> None:
        """Send the response unless the request has been answered."""
        if not self.first_to_answer():
            return
        try:
            self._answer(response)
        finally:
            self._session.forget(self)

    def refuse(self, error: UnderstudyError) -> None:
        """Answer with this error unless the request has been answered; a notification is never answered."""
        if "id" not in self.message:
            self.finish(b"")
            return
        cancelled = error.kind is ErrorKind.CANCELLED
        self.finish(dispatch.encode(dispatch.failure(self.message["id"], error, cancelled=cancelled)))

    def is_called(self, identifier: Any) -> bool:
        """Return whether the request has this id (1 and "1" differ, 1 and 1.0 are the same)."""
        own = self.message.get("id", _NO_ID)
        return isinstance(own, str) is isinstance(identifier, str) and own == identifier

    def asked_by(self) -> AskedBy:
        """Return the process at the other end."""
        peer = self._session.peer
        return describe_asker(self.name, pid=peer.pid, cwd=peer.cwd, environ=peer.environ)

    def surrounding_run(self) -> str | None:
        """Return the run that the process at the other end belongs to."""
        return self._session.peer.run

    def documents(self) -> Mapping[str, str]:
        """Return no documents: these clients pass ``buffers``."""
        return {}

    def folder(self) -> Path | None:
        """Return the current directory of this process, None if it was deleted."""
        return current_folder()

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Send events of one delegation or of all from now on, and changes of collections."""
        self._session.subscriptions.announce_changes()
        self._session.subscriptions.follow(delegation, after)

    def unfollow(self, delegation: str | None) -> None:
        """Stop sending them."""
        self._session.subscriptions.unfollow(delegation)

    def tell(self, name: str, params: msgspec.Struct) -> None:
        """Send a notification."""
        self._session.notify(name, params)


_NO_ID = object()


def _folders() -> list[Path]:
    """Return the current folder of this process, nothing if it was deleted."""
    folder = current_folder()
    return [] if folder is None else [folder]


class _Batch:
    """The responses of a batch, sent together once the last one is complete."""

    def __init__(self, send: Callable[[bytes], None], count: int) -> None:
        self._send = send
        self._left = count
        self._lock = threading.Lock()
        self._responses: list[bytes] = []

    def answered(self, response: bytes) -> None:
        with self._lock:
            self._left -= 1
            if response:
                self._responses.append(response.rstrip(b"\n"))
            complete = self._left == 0
        if complete and self._responses:
            self._send(b"[" + b",".join(self._responses) + b"]\n")


def _is_response(message: Any) -> bool:
    """Return whether a message is a response; the server sends no requests, so responses are ignored."""
    return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)


def _refusal(code: int, why: str, identifier: Any = None) -> bytes:
    titles = {error_codes.PARSE_ERROR: "Parse error", error_codes.INVALID_REQUEST: "Invalid request"}
    return dispatch.encode(dispatch.error(identifier, code, titles[code], why))
