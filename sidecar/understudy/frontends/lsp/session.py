"""One client's session: every request gets exactly one answer, as LSP 3.17 and JSON-RPC 2.0 demand.

This module checks envelopes, keeps the phase of the session, and handles the messages that do not need lsprotocol:
``initialize``, ``shutdown``, document synchronisation, and every request of the contract (``understudy/…``), whose raw
parameters go to the method table. All other requests go to ``StandardRequests``, which pygls serves. pygls is loaded in
a thread after ``initialized``. A standard request that arrives earlier waits for it; until then nothing is read from
the client, so that messages are handled in order.
"""

from __future__ import annotations

import asyncio
import enum
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import msgspec

from understudy.api import error_codes, internal_errors, method_table
from understudy.api.serving import request
from understudy.frontends.lsp.editor import server_capabilities, text_sync
from understudy.frontends.lsp.editor.client import Client
from understudy.model import wire
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import uris

log = logging.getLogger(__name__)

NOT_INITIALIZED = -32002
"""LSP 3.17: a request before ``initialize``."""
_CANCEL = "$/cancelRequest"

Key = tuple[bool, Any]
"""Whether a request's id is a string, and the id: 1 and "1" are different ids."""


class Phase(enum.Enum):
    """Where a session is.

    ::

        NEW ── initialize ──► RUNNING ── shutdown ──► SHUT_DOWN
          exit, the end of the stream or the death of the client end it in every phase
    """

    NEW = "new"
    RUNNING = "running"
    SHUT_DOWN = "shut_down"


class StandardRequests(Protocol):
    """The interface of the features for the session."""

    def request(self, identifier: Any, method: str, params: Any, on_answer: Callable[[], None]) -> None:
        """Answer a request through ``Client.respond``; call ``on_answer`` right before the answer is sent."""
        ...

    def cancel(self, identifier: Any) -> None:
        """Cancel a request that is pending."""
        ...

    def cancel_all(self) -> None:
        """Cancel every pending request."""
        ...

    def cancel_progress(self, token: str | int) -> None:
        """Handle ``window/workDoneProgress/cancel``."""
        ...


class Host(Protocol):
    """The process around the session."""

    def leave(self, code: int) -> None:
        """End the session with this exit code."""
        ...

    def watch_parent(self, process: int | None) -> None:
        """End the session when this process dies."""
        ...


class Session:
    """Handle the messages of one client, one after the other."""

    def __init__(self, client: Client, host: Host, load: Callable[[], Awaitable[StandardRequests]]) -> None:
        """Start in phase ``NEW``; ``load`` imports and registers the features."""
        self.phase = Phase.NEW
        self.client = client
        self._host = host
        self._load = load
        self._loading: asyncio.Task[None] | None = None
        self._standard: StandardRequests | None = None
        self._waiting: Callable[[], None] | None = None
        """Runs the standard request that waits for the features; no message is read until then."""
        self._initialized = False
        self._contract: dict[Key, request.InFlightRequest] = {}
        self._pending: set[Key] = set()
        """Standard requests without an answer."""

    # -- in --------------------------------------------------------------------------------------------------------

    @property
    def blocked_until(self) -> asyncio.Task[None] | None:
        """The task that the next message has to wait for; None if it can be handled now."""
        return self._loading if self._waiting is not None else None

    def handle(self, body: bytes) -> bool:
        """Handle one message; return whether it is JSON."""
        try:
            message = _parse(body)
        except (ValueError, RecursionError) as why:
            self.refuse(None, error_codes.PARSE_ERROR, f"This is not JSON: {why}.")
            return False
        if not isinstance(message, dict):
            self.refuse(None, error_codes.INVALID_REQUEST, "A message must be an object; LSP has no batches.")
        elif "method" in message:
            self._received(message)
        elif ("result" in message or "error" in message) and message.get("jsonrpc") == "2.0":
            self.client.answered(message.get("id"), message.get("result"), message.get("error"))
        else:
            self.refuse(None, error_codes.INVALID_REQUEST, "A message must have a method, a result or an error.")
        return True

    def refuse(self, identifier: Any, code: int, why: str) -> None:
        """Answer with an error without data."""
        self.client.respond(identifier, None, (code, why, None))

    def _received(self, message: dict[str, Any]) -> None:
        method, identifier, is_request = message["method"], message.get("id"), "id" in message
        why = _problem(message)
        if why is not None:
            if is_request:
                self.refuse(identifier if _is_id(identifier) else None, error_codes.INVALID_REQUEST, why)
            else:
                log.warning("dropped an invalid notification: %s", why)
        elif is_request:
            self._request(identifier, method, message.get("params"))
        else:
            try:
                self._notification(method, message.get("params"))
            except Exception as error:
                internal_errors.internal_error(method, error)

    def _request(self, identifier: Any, method: str, params: Any) -> None:
        key = _key(identifier)
        if key in self._pending or key in self._contract:
            self.refuse(
                identifier, error_codes.INVALID_REQUEST, f"A request with the id {identifier!r} is already pending."
            )
        elif self.phase is Phase.NEW and method != "initialize":
            self.refuse(identifier, NOT_INITIALIZED, "The first request must be initialize.")
        elif self.phase is Phase.SHUT_DOWN:
            self.refuse(identifier, error_codes.INVALID_REQUEST, "The server is shut down; only exit may follow.")
        elif self.phase is Phase.RUNNING and method == "initialize":
            self.refuse(identifier, error_codes.INVALID_REQUEST, "The server is already initialized.")
        elif method == "initialize":
            self._initialize(identifier, params)
        elif method == "shutdown":
            self._shut_down(identifier)
        elif method.startswith(method_table.PREFIX):
            self._contract_request(key, method, params)
        elif len(self._pending) >= request.MAX_IN_FLIGHT:
            self.client.respond(identifier, None, error_codes.to_json_rpc(request.overloaded_error()))
        else:
            self._standard_request(key, method, params)

    def _contract_request(self, key: Key, method: str, params: Any) -> None:
        def answer(result: Any, error: UnderstudyError | None) -> None:
            # Send it in this thread: a hop to the event loop would cost as much as the request itself.
            call = self._contract.pop(key, None)
            if error is None:
                self.client.respond(key[1], result, None)
            else:
                gone = call is not None and call.cancelled()
                self.client.respond(key[1], None, error_codes.to_json_rpc(error, cancelled=gone))

        self._contract[key] = _NOT_YET
        call = self.client.requests.begin(method, params, answer)
        # A request that was answered meanwhile has removed itself and must not be added again.
        if key in self._contract:
            self._contract[key] = call
            if call.finished:
                self._contract.pop(key, None)

    def _standard_request(self, key: Key, method: str, params: Any) -> None:
        self._pending.add(key)
        standard = self._standard
        if standard is None:
            self._waiting = lambda: self._run_standard(key, method, params)
            self._start_loading()
        else:
            self._run_standard(key, method, params)

    def _run_standard(self, key: Key, method: str, params: Any) -> None:
        assert self._standard is not None  # noqa: S101 - the callers loaded it
        self._standard.request(key[1], method, params, lambda: self._pending.discard(key))

    def _notification(self, method: str, params: Any) -> None:
        if method == "exit":
            self._host.leave(0 if self.phase is Phase.SHUT_DOWN else 1)
        elif method == _CANCEL:
            self._cancel(params)
        elif self.phase is not Phase.RUNNING:
            log.debug("ignored a notification before initialize or after shutdown")
        elif method in text_sync.METHODS:
            text_sync.notified(self.client, method, params)
        elif method == "initialized":
            if not self._initialized:
                self._initialized = True
                self._start_loading()
        elif method == "workspace/didChangeWorkspaceFolders":
            self._change_folders(params)
        elif method == "window/workDoneProgress/cancel":
            token = params.get("token") if isinstance(params, dict) else None
            if self._standard is not None and _is_id(token):
                self._standard.cancel_progress(token)
        else:
            log.debug("ignored the unknown notification %s", method[:100])

    def _cancel(self, params: Any) -> None:
        identifier = params.get("id") if isinstance(params, dict) else None
        if not _is_id(identifier):
            return
        key = _key(identifier)
        if key in self._contract:
            self._contract[key].cancel()
        elif key in self._pending and self._standard is not None:
            self._standard.cancel(identifier)

    # -- the session -----------------------------------------------------------------------------------------------

    def _initialize(self, identifier: Any, params: Any) -> None:
        fields = params if isinstance(params, dict) else {}
        try:
            process = msgspec.convert(fields.get("processId"), int | None)
        except msgspec.ValidationError as error:
            wrong = UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"initialize: processId: {error}",
                hint="The Language Server Protocol 3.17 describes the parameters of this method.",
            )
            self.client.respond(identifier, None, error_codes.to_json_rpc(wrong))
            return
        declared = fields.get("capabilities")
        capabilities = declared if isinstance(declared, dict) else {}
        encoding = server_capabilities.position_encoding(capabilities)
        self.client.introduce(fields, encoding)
        self.phase = Phase.RUNNING
        self.client.respond(identifier, server_capabilities.initialize_result(encoding), None)
        self.client.begin_watching()  # after the answer, which must be quick, and before the next message
        self._host.watch_parent(process)

    def _shut_down(self, identifier: Any) -> None:
        self.phase = Phase.SHUT_DOWN
        if self._standard is not None:
            self._standard.cancel_all()
        for call in list(self._contract.values()):
            call.cancel()
        self.client.respond(identifier, None, None)

    def _change_folders(self, params: Any) -> None:
        event = params.get("event") if isinstance(params, dict) else None
        change = event if isinstance(event, dict) else {}
        removed, added = _paths(change.get("removed")), _paths(change.get("added"))
        kept = [folder for folder in self.client.folders if folder not in removed]
        self.client.folders = tuple(dict.fromkeys([*kept, *added]))
        self.client.run_hooks(self.client.on_folders)

    # -- the features ----------------------------------------------------------------------------------------------

    def _start_loading(self) -> None:
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_features(), name="features")

    async def _load_features(self) -> None:
        try:
            self._standard = await self._load()
        except Exception as error:
            # Without its features, for example without lsprotocol, the server is of no use to an editor.
            log.exception("The features could not be loaded")
            internal_errors.internal_error("lsp", error)
            self._host.leave(1)
            return
        if self.phase is Phase.RUNNING:
            self.client.features_loaded(initialized=self._initialized)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()


class _NotYet:
    """A placeholder for a request that is being started."""

    def cancelled(self) -> bool:
        return False

    def cancel(self) -> None:
        """Do nothing: only the thread that starts the request handles cancellations."""


_NOT_YET: Any = _NotYet()


def _parse(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        # Strings of JavaScript may contain lone surrogates, which must not make us lose a change of a document.
        if "surrogate" not in str(error) and b"\\u" not in body:
            raise
        message = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
        repaired = wire.whole(message)
        _keep_id(message, repaired)
        if isinstance(message, dict) and message.get("method") == _CANCEL:
            _keep_id(message.get("params"), repaired["params"])
        return repaired


def _keep_id(original: Any, repaired: Any) -> None:
    """Copy the id unchanged, because the client matches it with its request."""
    if isinstance(original, dict) and isinstance(original.get("id"), str):
        repaired["id"] = original["id"]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _problem(message: dict[str, Any]) -> str | None:
    """Return why a message with a method is neither request nor notification (JSON-RPC 2.0 §4)."""
    if message.get("jsonrpc") != "2.0":
        return 'The member "jsonrpc" must be "2.0".'
    if not isinstance(message["method"], str):
        return 'The member "method" must be a string.'
    if "id" in message and not _is_id(message["id"]):
        return 'The member "id" must be a string or an integer.'
    if not isinstance(message.get("params"), dict | list | None):
        return 'The member "params" must be an object or an array.'
    return None


def _is_id(value: Any) -> TypeGuard[str | int]:
    """Return whether a value can be a request's id: ``integer | string`` (LSP 3.17)."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _key(identifier: Any) -> Key:
    return isinstance(identifier, str), identifier


def _paths(folders: Any) -> list[Path]:
    listed = folders if isinstance(folders, list) else []
    spelled = [folder.get("uri") for folder in listed if isinstance(folder, dict)]
    paths = [uris.path_of(uri) for uri in spelled if isinstance(uri, str)]
    return [path for path in paths if path is not None]
