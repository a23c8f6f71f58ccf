"""One client: its requests, batches and subscriptions; each request is answered exactly once."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from understudy.api import error_answers, method_table
from understudy.api.caller import Caller, current_folder, describe_asker
from understudy.api.error_answers import internal_error
from understudy.api.serving.request import InFlightRequest, RequestsInFlight, cancelled_error
from understudy.api.serving.subscriptions import Subscriptions
from understudy.frontends import json_lines, json_rpc
from understudy.model import wire
from understudy.model.delegation.delegations import AskedBy
from understudy.model.errors import ErrorKind, UnderstudyError

with warnings.catch_warnings():
    # It reads its schema with a function that is deprecated in Python 3.11 and 3.12.
    warnings.simplefilter("ignore", DeprecationWarning)
    import jsonrpcserver

ROOM_SECONDS = 1.0
"""How long reading pauses for a client with too many requests in flight, before ``overloaded`` is answered."""
MOST_IN_BATCH = 100
FINISH_SECONDS = 10.0
"""How long running requests may finish after the end of the stream; then they are cancelled."""
CANCEL_SECONDS = 2.0
Send = Callable[[bytes], None]


@dataclass(frozen=True)
class Peer:
    """The process at the other end."""

    pid: int | None
    cwd: Path | None
    environ: Mapping[str, str]
    run: str | None = None
    """The run that it belongs to, if it is not the process that started this one (``marked_processes``)."""


class Session:
    """One client. One reading thread calls ``feed`` and ``end``; ``write`` may block, and raises ``OSError``."""

    def __init__(self, write: Send, peer: Peer) -> None:
        """Answer through ``write``."""
        self.peer = peer
        self._write = write
        self._writing = threading.Lock()
        self._lines = json_lines.Lines()
        self._requests = RequestsInFlight()
        self.broken = False
        """Whether the client no longer reads."""
        self.subscriptions = Subscriptions(self.notify, _folders)

    def feed(self, data: bytes) -> None:
        """Handle received bytes."""
        for line in self._lines.feed(data):
            self._take(line)

    def end(self) -> None:
        """Finish running requests, within a limit; then every request is answered and no message is sent."""
        for line in self._lines.end():
            self._take(line)
        if not self._requests.empty_within(FINISH_SECONDS, lambda: self.broken):
            self._requests.cancel_all()
            if not self._requests.empty_within(CANCEL_SECONDS, lambda: self.broken):
                for request in self._requests.unanswered():
                    request.finish(None, cancelled_error())
        self.subscriptions.close()
        self._requests.close()

    def send(self, message: bytes) -> None:
        """Write one line; if the client is gone, cancel its requests."""
        if not message:
            return
        try:
            with self._writing:
                if not self.broken:
                    self._write(message)
        except OSError:
            self.broken = True
            self._requests.cancel_all()

    def _take(self, line: bytes | None) -> None:
        if line is None:
            self.send(
                _refusal(error_answers.PARSE_ERROR, f"A message may have at most {json_lines.LONGEST_FRAME} bytes.")
            )
            return
        if not line.strip():
            return
        try:
            message = json_lines.parse(line)
        except json_lines.Malformed as why:
            self.send(_refusal(error_answers.PARSE_ERROR, f"This is not JSON: {why}."))
            return
        if not isinstance(message, list):
            self._take_message(message, self.send)
        elif not 0 < len(message) <= MOST_IN_BATCH:
            self.send(_refusal(error_answers.INVALID_REQUEST, f"A batch must have 1 to {MOST_IN_BATCH} requests."))
        else:
            batch = _Batch(self.send, len(message))
            for item in message:
                self._take_message(item, batch.answered)

    def _take_message(self, message: Any, send: Send) -> None:
        """Handle one message; ``send`` receives its response, or ``b""`` if it gets none."""
        is_cancel = isinstance(message, dict) and message.get("method") == json_rpc.CANCEL and "id" not in message
        if is_cancel or json_rpc.is_response(message):  # the server sends no requests
            named = json_rpc.cancelled(message.get("params")) if is_cancel else None
            if named is not None:
                self._requests.cancel(named)
            send(b"")
        elif (why := json_rpc.problem(message)) is not None:
            identifier = message.get("id") if isinstance(message, dict) else None
            send(_refusal(error_answers.INVALID_REQUEST, why, identifier if json_rpc.is_id(identifier) else None))
        else:
            self._requests.begin(Request(self, self._requests, message, send), ROOM_SECONDS)

    def notify(self, name: str, params: Any) -> None:
        """Send a notification. Errors: ``BrokenPipeError`` if the client is gone."""
        self.send(encode(json_rpc.notification(method_table.PREFIX + name, params)))
        if self.broken:
            raise BrokenPipeError


class Request(InFlightRequest):
    """One request in flight; it is the ``Caller`` of its handler."""

    name = "rpc"

    def __init__(self, session: Session, requests: RequestsInFlight, message: json_rpc.Message, send: Send) -> None:
        """``send`` receives the response once, ``b""`` for a notification."""
        key = json_rpc.key(message["id"]) if "id" in message else None
        super().__init__(message["method"], message.get("params"), self._respond, key)
        self._message = message
        self._session = session
        self._requests = requests
        self._send = send

    def perform(self) -> bytes:
        """Return the response of jsonrpcserver, which is one of an error, too."""
        return answer(self._message, self)

    def _respond(self, response: bytes | None, error: UnderstudyError | None) -> None:
        if error is not None and "id" in self._message:
            cancelled = error.kind is ErrorKind.CANCELLED
            response = encode(json_rpc.failure(self._message["id"], error, cancelled=cancelled))
        try:
            self._send(response or b"")
        finally:
            self._requests.forget(self)

    def asked_by(self) -> AskedBy:
        """Return the process at the other end."""
        peer = self._session.peer
        return describe_asker(self.name, pid=peer.pid, cwd=peer.cwd, environ=peer.environ)

    def surrounding_run(self) -> str | None:
        """Return the run that the process at the other end belongs to."""
        return self._session.peer.run

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


def _folders() -> list[Path]:
    """Return the current folder of this process, nothing if it was deleted."""
    folder = current_folder()
    return [] if folder is None else [folder]


class _Batch:
    """The responses of a batch, sent together once the last one is complete."""

    def __init__(self, send: Send, count: int) -> None:
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


def _refusal(code: int, why: str, identifier: Any = None) -> bytes:
    titles = {error_answers.PARSE_ERROR: "Parse error", error_answers.INVALID_REQUEST: "Invalid request"}
    return encode(json_rpc.error(identifier, code, titles[code], why))


def answer(request: json_rpc.Message, caller: Caller) -> bytes:
    """Answer one valid request; return the response as a line, ``b""`` for a notification. Never raises."""
    method = request["method"]

    def respond(caller: Caller, /, *positional: Any, **params: Any) -> Any:
        try:
            _require_prefix(method)
            result = method_table.call(method, list(positional) or params, caller)
            return jsonrpcserver.Success(msgspec.to_builtins(result))
        except UnderstudyError as problem:
            return jsonrpcserver.Error(*error_answers.to_json_rpc(problem, cancelled=caller.cancelled()))

    # It knows no other members, and no null as parameters.
    members: dict[str, Any] = {name: request[name] for name in ("jsonrpc", "method", "id") if name in request}
    members["params"] = request.get("params") or {}
    try:
        response = jsonrpcserver.dispatch_to_serializable(
            "",  # the request is parsed and checked already
            deserializer=lambda _: members,
            validator=lambda _: None,
            methods={method: respond},
            context=caller,
        )
        return b"" if response is None else encode(response)
    except Exception as fault:
        if "id" not in request:
            return b""
        return encode(json_rpc.failure(request["id"], internal_error(method, fault)))


def encode(message: Any) -> bytes:
    """Return a message as one line."""
    return wire.encode(message) + b"\n"


def _require_prefix(name: str) -> None:
    if not name.startswith(method_table.PREFIX):
        near = [f"{method_table.PREFIX}{name}"] if name in method_table.METHODS else None
        raise UnderstudyError(
            ErrorKind.UNKNOWN_METHOD,
            f"There is no method {name!r}.",
            hint=f"Method names begin with {method_table.PREFIX}; protocol/README.md lists them.",
            names=near,
        )
