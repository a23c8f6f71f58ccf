"""One client: its requests, each answered exactly once, and what it follows."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from understudy.api import codes, pending, pool, table
from understudy.api.subscriptions import Subscriptions
from understudy.faces.rpc import dispatch, framing
from understudy.model.errors import ErrorKind, UnderstudyError

ROOM_SECONDS = 1.0
"""How long reading stops for a client that has more; then the next one is answered with ``overloaded``."""
MOST_IN_BATCH = 100
FINISH_SECONDS = 10.0
"""After the end of the stream, running requests may finish for so long; then they are withdrawn."""
WITHDRAWN_SECONDS = 2.0

_CANCEL = "$/cancelRequest"


class Session:
    """One client. One reading thread calls ``feed`` and ``end``; ``write`` may block, and raises ``OSError``."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        """Answer through ``write``."""
        self._write = write
        self._writing = threading.Lock()
        self._lines = framing.Lines()
        self._quick = pool.Pool(pool.QUICK_THREADS)
        self._patient = pool.Pool(pool.PATIENT_THREADS)
        self._changed = threading.Condition()
        self._pending: set[Request] = set()
        self._broken = False
        self.subscriptions = Subscriptions(self._notify, _here)

    def feed(self, data: bytes) -> None:
        """Take what arrived."""
        for line in self._lines.feed(data):
            self._take(line)

    def end(self) -> None:
        """Finish what runs, within a limit; then every request has its answer and nothing is sent any more."""
        for line in self._lines.end():
            self._take(line)
        if not self._empty_within(FINISH_SECONDS):
            self._withdraw_all()
            if not self._empty_within(WITHDRAWN_SECONDS):
                for request in self._unanswered():
                    request.refuse(pending.withdrawn())
        self.subscriptions.close()
        self._quick.close()
        self._patient.close()

    def send(self, message: bytes) -> None:
        """Write one line; a client that is gone is remembered, and what it waits for withdrawn."""
        if not message:
            return
        try:
            with self._writing:
                if not self._broken:
                    self._write(message)
        except OSError:
            self._broken = True
            self._withdraw_all()

    @property
    def broken(self) -> bool:
        """Whether the client no longer reads."""
        return self._broken

    def _take(self, line: bytes | None) -> None:
        if line is None:
            self.send(_refusal(codes.PARSE_ERROR, f"a message may have {framing.LONGEST_FRAME} bytes"))
            return
        if not line.strip():
            return
        try:
            message = framing.parse(line)
        except framing.Malformed as why:
            self.send(_refusal(codes.PARSE_ERROR, f"this is no JSON: {why}"))
            return
        if not isinstance(message, list):
            self._one(message, self.send)
        elif not 0 < len(message) <= MOST_IN_BATCH:
            self.send(_refusal(codes.INVALID_REQUEST, f"a batch has 1 to {MOST_IN_BATCH} requests"))
        else:
            batch = _Batch(self.send, len(message))
            for item in message:
                self._one(item, batch.answered)

    def _one(self, message: Any, answer: Callable[[bytes], None]) -> None:
        """See to one message; ``answer`` gets its response, or nothing (``b""``) where none is due."""
        if _is_response(message) or self._is_cancel(message):
            answer(b"")
            return
        why = dispatch.problem(message)
        if why is not None:
            identifier = message.get("id") if isinstance(message, dict) else None
            answer(_refusal(codes.INVALID_REQUEST, why, identifier if dispatch.is_id(identifier) else None))
            return
        request = Request(self, dispatch.normalised(message), answer)
        if not self._admitted(request):
            request.refuse(pending.overloaded())
            return
        threads = self._patient if request.message["method"] in pool.PATIENT else self._quick
        threads.submit(request.run)

    def _admitted(self, request: Request) -> bool:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._pending) < pending.MOST, ROOM_SECONDS):
                return False
            self._pending.add(request)
            return True

    def forget(self, request: Request) -> None:
        """Note that a request has its answer."""
        with self._changed:
            self._pending.discard(request)
            self._changed.notify_all()

    def _is_cancel(self, message: Any) -> bool:
        """Carry out ``$/cancelRequest``, a notification; tell whether the message was one."""
        if not isinstance(message, dict) or message.get("method") != _CANCEL or "id" in message:
            return False
        params = message.get("params")
        if isinstance(params, dict) and "id" in params and dispatch.is_id(params["id"]):
            for request in self._unanswered():
                if request.is_called(params["id"]):
                    request.withdraw()
        return True

    def _unanswered(self) -> list[Request]:
        with self._changed:
            return list(self._pending)

    def _withdraw_all(self) -> None:
        for request in self._unanswered():
            request.withdraw()

    def _empty_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._pending and not self._broken:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.2))
            return not self._pending

    def _notify(self, name: str, params: Any) -> None:
        method = table.PREFIX + name
        self.send(dispatch.encode({"jsonrpc": "2.0", "method": method, "params": params}))
        if self._broken:
            raise BrokenPipeError


class Request(pending.Pending):
    """One request under way; it is the ``Caller`` of the function that answers it."""

    name = "rpc"

    def __init__(self, session: Session, message: dispatch.Message, answer: Callable[[bytes], None]) -> None:
        """``answer`` gets the response once, ``b""`` for a notification."""
        super().__init__()
        self.message = message
        self._session = session
        self._answer = answer

    def run(self) -> None:
        """Answer it, in a thread of its own."""
        if not self.begins():
            return
        self.finish(dispatch.answer(self.message, self) or b"")

    def finish(self, response: bytes) -> None:
        """Give the response, if none was given yet."""
        if not self.first_to_answer():
            return
        try:
            self._answer(response)
        finally:
            self._session.forget(self)

    def refuse(self, error: UnderstudyError) -> None:
        """Answer with this error, if no answer was given yet; a notification is never answered."""
        if "id" not in self.message:
            self.finish(b"")
            return
        withdrawn = error.kind is ErrorKind.CANCELLED
        self.finish(dispatch.encode(dispatch.failure(self.message["id"], error, withdrawn=withdrawn)))

    def is_called(self, identifier: Any) -> bool:
        """Tell whether this is the request of that id (1 and "1" are two ids, 1 and 1.0 are one)."""
        own = self.message.get("id", _NO_ID)
        return isinstance(own, str) is isinstance(identifier, str) and own == identifier

    def documents(self) -> Mapping[str, str]:
        """Return nothing: such clients pass ``buffers``."""
        return {}

    def folder(self) -> Path | None:
        """Return the folder this process was started in, None when it is gone."""
        return next(iter(_here()), None)

    def follow(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Send events of one delegation or all from now on, and what changed besides."""
        self._session.subscriptions.announce_changes()
        self._session.subscriptions.follow(delegation, after)

    def unfollow(self, delegation: str | None) -> None:
        """Stop sending them."""
        self._session.subscriptions.unfollow(delegation)


_NO_ID = object()


def _here() -> list[Path]:
    """Return the folder this process was started in, nothing when it is gone."""
    with contextlib.suppress(OSError):
        return [Path.cwd()]
    return []


class _Batch:
    """The responses of a batch, sent together when the last one is there."""

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
    """Nothing is asked of clients, so a response answers nobody; JSON-RPC has no answer to that either."""
    return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)


def _refusal(code: int, why: str, identifier: Any = None) -> bytes:
    titles = {codes.PARSE_ERROR: "Parse error", codes.INVALID_REQUEST: "Invalid request"}
    return dispatch.encode(dispatch.error(identifier, code, titles[code], why))
