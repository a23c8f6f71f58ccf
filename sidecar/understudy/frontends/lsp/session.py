"""One client's session: every request gets exactly one answer, as LSP 3.17 and JSON-RPC 2.0 demand.

This module keeps the phase of the session, and handles the messages that do not need lsprotocol: ``initialize``,
``shutdown``, document synchronisation, and every request of the contract (``understudy/…``), whose raw parameters go to
the method table. One that arrives as a command of ``workspace/executeCommand`` takes the same way, with what the
features do before and after it. All other requests go to ``StandardRequests``, which pygls serves. pygls is loaded in a
thread after ``initialized``. What needs the features and arrives earlier waits for them; until then nothing is read
from the client, so that messages are handled in order.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

import understudy
from understudy.api import error_answers, method_table
from understudy.api.serving.request import MAX_IN_FLIGHT, InFlightRequest, overloaded_error
from understudy.frontends import json_rpc
from understudy.frontends.json_rpc import Key
from understudy.frontends.lsp.editor import text_sync
from understudy.frontends.lsp.editor.client import CHOOSE, OPEN_REVIEW, Client
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import foreign_json, path_quoting

log = logging.getLogger(__name__)
NOT_INITIALIZED = -32002
"""LSP 3.17: a request before ``initialize``."""
_EXECUTE = "workspace/executeCommand"
NAME = "Understudy"
ENCODINGS = ("utf-8", "utf-16", "utf-32")
"""Position encodings that ``editor.documents`` supports."""
CODE_ACTION_KINDS = ("quickfix", "refactor")
_INCREMENTAL = 2
"""``TextDocumentSyncKind.Incremental``."""


class Phase(enum.Enum):
    """Where a session is.

    ::

        NEW ── initialize ──► RUNNING ── shutdown ──► SHUT_DOWN
          exit, the end of the stream or the death of the client end it in every phase
    """

    NEW = "new"
    RUNNING = "running"
    SHUT_DOWN = "shut_down"


_AnswerTo = Callable[[InFlightRequest, Any, UnderstudyError | None], None]


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
        self._contract: dict[Key, InFlightRequest] = {}
        self._preparing: dict[Key, asyncio.Task[None]] = {}
        """What is awaited before a request of the contract runs as a command."""
        self._pending: set[Key] = set()
        """Standard requests without an answer, and those of the contract that are commands."""

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
            self.refuse(None, error_answers.PARSE_ERROR, f"This is not JSON: {why}.")
            return False
        if not isinstance(message, dict):
            self.refuse(None, error_answers.INVALID_REQUEST, "A message must be an object; LSP has no batches.")
        elif "method" in message:
            self._received(message)
        elif json_rpc.is_response(message) and message.get("jsonrpc") == "2.0":
            self.client.answered(message.get("id"), message.get("result"), message.get("error"))
        else:
            self.refuse(None, error_answers.INVALID_REQUEST, "A message must have a method, a result or an error.")
        return True

    def refuse(self, identifier: Any, code: int, why: str) -> None:
        """Answer with an error without data."""
        self.client.respond(identifier, None, (code, why, None))

    def _received(self, message: dict[str, Any]) -> None:
        method, identifier, is_request = message["method"], message.get("id"), "id" in message
        why = json_rpc.problem(message, json_rpc.is_strict_id)
        if why is not None:
            if is_request:
                self.refuse(
                    identifier if json_rpc.is_strict_id(identifier) else None, error_answers.INVALID_REQUEST, why
                )
            else:
                log.warning("dropped an invalid notification: %s", why)
        elif is_request:
            self._request(identifier, method, message.get("params"))
        else:
            try:
                self._notification(method, message.get("params"))
            except Exception as error:
                error_answers.internal_error(method, error)

    def _request(self, identifier: Any, method: str, params: Any) -> None:
        key = json_rpc.key(identifier)
        if key in self._pending or key in self._contract:
            self.refuse(
                identifier, error_answers.INVALID_REQUEST, f"A request with the id {identifier!r} is already pending."
            )
        elif self.phase is Phase.NEW and method != "initialize":
            self.refuse(identifier, NOT_INITIALIZED, "The first request must be initialize.")
        elif self.phase is Phase.SHUT_DOWN:
            self.refuse(identifier, error_answers.INVALID_REQUEST, "The server is shut down; only exit may follow.")
        elif self.phase is Phase.RUNNING and method == "initialize":
            self.refuse(identifier, error_answers.INVALID_REQUEST, "The server is already initialized.")
        elif method == "initialize":
            self._initialize(identifier, params)
        elif method == "shutdown":
            self._shut_down(identifier)
        elif method.startswith(method_table.PREFIX):
            self.client.requests.begin(self._contract_request(key, method, params, self._answer))
        elif len(self._pending) >= MAX_IN_FLIGHT:
            self.client.respond(identifier, None, error_answers.to_json_rpc(overloaded_error()))
        else:
            self._pending.add(key)
            command = _contract_command(params) if method == _EXECUTE else None
            run = self._run_standard if command is None else self._run_command
            arguments = (key, *(command or (method, params)))
            if self._standard is None:
                self._waiting = lambda: run(*arguments)
                self._start_loading()
            else:
                run(*arguments)

    def _contract_request(self, key: Key, method: str, params: Any, answer: _AnswerTo) -> InFlightRequest:
        def respond(result: Any, error: UnderstudyError | None) -> None:
            answer(call, result, error)

        call = self._contract[key] = self.client.new_request(method, params, respond, key)
        return call

    def _answer(self, call: InFlightRequest, result: Any, error: UnderstudyError | None) -> None:
        # Send it in this thread: a hop to the event loop would cost as much as the request itself.
        self._contract.pop(call.key, None)
        told = None if error is None else error_answers.to_json_rpc(error, cancelled=call.cancelled())
        self.client.respond(call.key[1], result, told)

    def _run_standard(self, key: Key, method: str, params: Any) -> None:
        assert self._standard is not None  # noqa: S101 - the callers loaded it
        self._standard.request(key[1], method, params, lambda: self._pending.discard(key))

    def _run_command(self, key: Key, method: str, params: Any) -> None:
        """Run a request of the contract, with what the features do before and after a command."""
        client = self.client
        call = self._contract_request(
            key, method, params, lambda *answer: client.in_loop(self._answer_command, *answer)
        )
        client.run_hooks(client.on_command_begun, call)
        before = client.before_command.get(method.removeprefix(method_table.PREFIX))
        if before is None:
            client.requests.begin(call)
        else:
            self._preparing[key] = client.spawn(self._prepare(call, before(params)), method)

    async def _prepare(self, call: InFlightRequest, before: Awaitable[None]) -> None:
        try:
            await before
        except Exception as error:
            call.finish(None, error_answers.internal_error(call.method, error))
        self.client.requests.begin(call)

    def _answer_command(self, call: InFlightRequest, result: Any, error: UnderstudyError | None) -> None:
        preparing = self._preparing.pop(call.key, None)
        if preparing is not None:
            preparing.cancel()
        self.client.run_hooks(self.client.on_command, call, result, error)
        self._pending.discard(call.key)
        self._answer(call, result, error)

    def _notification(self, method: str, params: Any) -> None:
        if method == "exit":
            self._host.leave(0 if self.phase is Phase.SHUT_DOWN else 1)
        elif method == json_rpc.CANCEL:
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
            if json_rpc.is_strict_id(token):
                self.client.run_hooks(self.client.on_progress_cancel, token)
        else:
            log.debug("ignored the unknown notification %s", method[:100])

    def _cancel(self, params: Any) -> None:
        key = json_rpc.cancelled(params)
        if key is None:
            return
        if key in self._contract:
            self._contract[key].cancel()
        elif key in self._pending and self._standard is not None:
            self._standard.cancel(key[1])

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
            self.client.respond(identifier, None, error_answers.to_json_rpc(wrong))
            return
        declared = fields.get("capabilities")
        capabilities = declared if isinstance(declared, dict) else {}
        encoding = position_encoding(capabilities)
        self.client.introduce(fields, encoding)
        self.phase = Phase.RUNNING
        self.client.respond(identifier, initialize_result(encoding), None)
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
            error_answers.internal_error("lsp", error)
            self._host.leave(1)
            return
        if self.phase is Phase.RUNNING:
            self.client.features_loaded(initialized=self._initialized)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()


def _parse(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        # JavaScript may split a text inside a surrogate pair, which must not make us lose a change of a document.
        return msgspec.json.decode(foreign_json.with_whole_pairs(body))


def _contract_command(params: Any) -> tuple[str, Any] | None:
    """Return the request of the contract that a command names, with its parameters; None if it names none."""
    if not isinstance(params, dict) or not isinstance(params.get("command"), str):
        return None
    method, arguments = params["command"], params.get("arguments") or []
    name = method.removeprefix(method_table.PREFIX)
    if name == method or name not in method_table.METHODS or not isinstance(arguments, list):
        return None
    return method, arguments[0] if arguments else None


def _paths(folders: Any) -> list[Path]:
    listed = folders if isinstance(folders, list) else []
    spelled = [folder.get("uri") for folder in listed if isinstance(folder, dict)]
    paths = [path_quoting.path_of(uri) for uri in spelled if isinstance(uri, str)]
    return [path for path in paths if path is not None]


def initialize_result(encoding: str) -> dict[str, Any]:
    """Return the ``InitializeResult`` with the negotiated position encoding."""
    requests = [method_table.PREFIX + name for name in method_table.METHODS]
    capabilities = {
        "positionEncoding": encoding,
        "textDocumentSync": {"openClose": True, "change": _INCREMENTAL, "save": True},
        "codeActionProvider": {"codeActionKinds": CODE_ACTION_KINDS, "resolveProvider": False},
        "codeLensProvider": {"resolveProvider": False},
        "executeCommandProvider": {"commands": [*requests, OPEN_REVIEW, CHOOSE]},
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
        "experimental": {
            "understudy": {
                "protocolVersion": method_table.PROTOCOL_VERSION,
                "version": understudy.__version__,
                "requests": requests,
                "notifications": [method_table.PREFIX + name for name in method_table.NOTIFICATIONS],
            }
        },
    }
    return {"capabilities": capabilities, "serverInfo": {"name": NAME, "version": understudy.__version__}}


def position_encoding(client: dict[str, Any]) -> str:
    """Return the first of the client's position encodings that is supported here; UTF-16 by default (LSP 3.17)."""
    general = client.get("general")
    offered = general.get("positionEncodings") if isinstance(general, dict) else None
    encodings = [encoding for encoding in offered if encoding in ENCODINGS] if isinstance(offered, list) else []
    return encodings[0] if encodings else "utf-16"
