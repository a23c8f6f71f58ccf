"""pygls, hardened: whatever bytes arrive, every request gets exactly one answer, as LSP 3.17 and JSON-RPC 2.0 say.

pygls 2.1.1 keeps the registry of features, structures lsprotocol's messages, runs handlers and builds the capabilities.
What it leaves open is closed here by overriding; each override says which gap it is for, and has a test of its own.
Requests of the contract (``understudy/…``) never meet cattrs: their raw parameters go to the table.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import json
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import cattrs
import msgspec
from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.language_server import lsp_method

from understudy.api import codes, faults, pending, table
from understudy.faces.lsp import places
from understudy.faces.lsp.calls import Call
from understudy.model import wire
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    from understudy.faces.lsp.client import Client
    from understudy.faces.lsp.server import Server

log = logging.getLogger(__name__)

NOT_INITIALIZED = -32002
"""LSP 3.17: a request before ``initialize``."""

Key = tuple[bool, Any]
"""A request's id, with whether it is a string: 1 and "1" are two ids."""


class Phase(enum.Enum):
    """Where a session is.

    ::

        NEW ── initialize ──► RUNNING ── shutdown ──► SHUT_DOWN
          exit, the end of the stream or the death of the client end it in every phase
    """

    NEW = "new"
    RUNNING = "running"
    SHUT_DOWN = "shut_down"


class Protocol(LanguageServerProtocol):
    """One session."""

    _server: Server
    client: Client
    """The editor; given by the server right after the making."""

    def __init__(self, server: Server, converter: cattrs.Converter) -> None:
        """Begin in phase ``NEW``."""
        super().__init__(server, converter)
        self.phase = Phase.NEW
        self._standard: set[Key] = set()
        self._raw: dict[Key, Call] = {}
        self._capabilities: types.ServerCapabilities | None = None

    # -- in --------------------------------------------------------------------------------------------------------

    def dispatch(self, body: bytes) -> bool:
        """Take one message; return whether it was JSON at all."""
        try:
            message = _parse(body)
        except (ValueError, RecursionError) as why:
            self.refuse(None, codes.PARSE_ERROR, f"This is no JSON: {why}")
            return False
        if not isinstance(message, dict):
            self.refuse(None, codes.INVALID_REQUEST, "A message is an object; there are no batches in LSP.")
        elif "method" in message:
            self._asked(message)
        elif ("result" in message or "error" in message) and message.get("jsonrpc") == "2.0":
            self.client.answered(message.get("id"), message.get("result"), message.get("error"))
        else:
            self.refuse(None, codes.INVALID_REQUEST, "A message has a method, a result or an error.")
        return True

    def _asked(self, message: dict[str, Any]) -> None:
        """See to a request or notification."""
        method, identifier, is_request = message["method"], message.get("id"), "id" in message
        why = _problem(message)
        if why is not None:
            if is_request:
                self.refuse(identifier if _is_id(identifier) else None, codes.INVALID_REQUEST, why)
            else:
                log.warning("a notification was dropped: %s", why)
            return
        params = message.get("params")
        if is_request:
            self._request(identifier, method, params)
        else:
            self._notified(method, params)

    def _request(self, identifier: Any, method: str, params: Any) -> None:
        key = _key(identifier)
        if key in self._standard or key in self._raw:
            self.refuse(identifier, codes.INVALID_REQUEST, f"The id {identifier!r} is that of a request under way.")
        elif self.phase is Phase.NEW and method != types.INITIALIZE:
            self.refuse(identifier, NOT_INITIALIZED, "The first request is initialize.")
        elif self.phase is Phase.SHUT_DOWN:
            self.refuse(identifier, codes.INVALID_REQUEST, "The server was told to shut down; only exit may follow.")
        elif self.phase is Phase.RUNNING and method == types.INITIALIZE:
            self.refuse(identifier, codes.INVALID_REQUEST, "The server is initialized already.")
        elif method.startswith(table.PREFIX):
            self._contract(key, method, params)
        else:
            self._standard_request(key, method, params)

    def _contract(self, key: Key, method: str, params: Any) -> None:
        def answer(result: Any, error: UnderstudyError | None) -> None:
            # In the thread that found the answer: a way through the event loop would cost as much as the answer.
            call = self._raw.pop(key, None)
            if error is None:
                self._respond(key[1], result, None)
            else:
                gone = call is not None and call.cancelled()
                self._respond(key[1], None, codes.of(error, withdrawn=gone))

        self._raw[key] = _NOT_YET
        call = self.client.calls.begin(method, params, answer)
        # It may be answered already; then it must not come back.
        if key in self._raw:
            self._raw[key] = call
            if call.finished:
                self._raw.pop(key, None)

    def _standard_request(self, key: Key, method: str, params: Any) -> None:
        if method == types.INITIALIZE:
            params = self._introduced(params)
        try:
            structured = self._structure(method, params, self.get_message_type(method))
        except UnderstudyError as error:
            self._respond(key[1], None, codes.of(error))
            return
        self._standard.add(key)
        context = contextvars.copy_context()
        context.run(self._handle_request, key[1], method, structured)

    def _notified(self, method: str, params: Any) -> None:
        if method == types.EXIT:
            self._server.leave(0 if self.phase is Phase.SHUT_DOWN else 1)
        elif method == types.CANCEL_REQUEST:
            self._cancel(params)
        elif self.phase is Phase.RUNNING and not method.startswith(table.PREFIX):
            handler = self.fm.builtin_features.get(method) or self.fm.features.get(method)
            if handler is None:
                log.debug("the notification %s is not known here", method[:100])
                return
            try:
                structured = self._structure(method, params, self.get_message_type(method))
                outcome = handler(structured)
                if asyncio.iscoroutine(outcome):
                    self.client.spawn(outcome, method)
            except UnderstudyError as error:
                log.warning("%s", error)
            except Exception as error:
                # pygls would show every fault in a notification as a popup.
                faults.internal(method, error)

    def _cancel(self, params: Any) -> None:
        identifier = params.get("id") if isinstance(params, dict) else None
        if not _is_id(identifier):
            return
        key = _key(identifier)
        if key in self._raw:
            self._raw[key].withdraw()
        elif key in self._standard and identifier is not None:
            future = self._request_futures.get(identifier)
            if future is not None:
                future.cancel()

    def _structure(self, method: str, params: Any, message: type | None) -> Any:
        """Return ``params`` as lsprotocol's class for them; raise ``invalid_params``."""
        if message is None:
            return params
        kind = getattr(message, "__annotations__", {}).get("params", None)
        whole = {"jsonrpc": "2.0", "method": method, "id": 0, "params": params}
        if kind is not None and params is None:
            whole["params"] = {}
        try:
            return getattr(self._converter.structure(whole, message), "params", None)
        except Exception as error:
            details = _details(error)
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"{method}: {'; '.join(details)}"[:2000],
                hint="The Language Server Protocol 3.17 describes the parameters of this method.",
            ) from None

    # -- out -------------------------------------------------------------------------------------------------------

    def refuse(self, identifier: Any, code: int, why: str) -> None:
        """Answer what is no proper request."""
        self._respond(identifier, None, (code, why, None))

    def _respond(self, identifier: Any, result: Any, error: tuple[int, str, Any] | None) -> None:
        """Send one response; from any thread."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": identifier}
        if error is None:
            message["result"] = result
        else:
            message["error"] = {"code": error[0], "message": error[1]} | ({"data": error[2]} if error[2] else {})
        self.client.send(message)

    def _send_data(self, data: Any) -> None:
        """Send what pygls made, through the outbox: its own writer blocks the event loop, and logs every body."""
        self.client.send(self._converter.unstructure(data))

    def _send_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        """Answer for pygls, which finds unknown methods."""
        self._standard.discard(_key(msg_id))
        found = None if error is None else (error.code, error.message, None)
        self._respond(msg_id, result, found)

    def _send_handler_result(self, future: Future[Any], *, msg_id: Any) -> None:
        """Answer with what a handler came to; pygls would send a traceback with the paths of this machine."""
        self._request_futures.pop(msg_id, None)
        self._standard.discard(_key(msg_id))
        if future.cancelled():
            self._respond(msg_id, None, codes.of(pending.withdrawn(), withdrawn=True))
            return
        error = future.exception()
        try:
            if error is None:
                self._respond(msg_id, self.client.to_wire(future.result()), None)
                return
        except Exception as problem:
            error = problem
        if isinstance(error, JsonRpcException) and not isinstance(error, UnderstudyError):
            self._respond(msg_id, None, (error.code or codes.UNDERSTUDY, error.message, None))
        elif isinstance(error, UnderstudyError):
            self._respond(msg_id, None, codes.of(error, withdrawn=error.kind is ErrorKind.CANCELLED))
        elif isinstance(error, TimeoutError):
            self._respond(msg_id, None, codes.of(pending.withdrawn(), withdrawn=True))
        else:
            self._respond(msg_id, None, codes.of(faults.internal("lsp", error)))

    # -- the session -----------------------------------------------------------------------------------------------

    def _introduced(self, params: Any) -> dict[str, Any]:
        """Take what ``initialize`` says as it came, and leave of it for pygls what it reads.

        Structuring all capabilities of a modern editor takes 27 ms, most of it to generate code for classes that
        nobody looks at; what is left out cannot be misunderstood either.
        """
        given = dict(params) if isinstance(params, dict) else {}
        capabilities = given.get("capabilities")
        known = capabilities if isinstance(capabilities, dict) else {}
        encoding = _encoding(known)
        self.client.introduce(given, encoding)
        general = {"positionEncodings": [encoding]}
        return {
            "processId": given.get("processId"),
            "rootUri": None,
            "capabilities": {"general": general, "textDocument": {"codeAction": _literals(known)}},
        }

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> types.InitializeResult:  # type: ignore[override]
        """Say what there is. pygls' own would keep a second copy of every document."""
        self.phase = Phase.RUNNING
        self.client_capabilities = params.capabilities
        server = self._server
        features = {*self.fm.features, *self.fm.builtin_features}
        found = ServerCapabilitiesBuilder(
            params.capabilities,
            features,
            self.fm.feature_options,
            list(self.fm.commands),
            types.TextDocumentSyncKind.Incremental,
            None,
            self.client.encoding,
        ).build()  # type: ignore[no-untyped-call]
        server.declare(found)
        self.server_capabilities = found
        server.watch_parent(params.process_id)
        return types.InitializeResult(
            capabilities=found, server_info=types.ServerInfo(name=server.name, version=server.version)
        )

    @lsp_method(types.INITIALIZED)
    def lsp_initialized(self, *_: Any) -> None:
        """Begin."""
        self.client.ready()

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *_: Any) -> None:  # type: ignore[override]
        """Withdraw what runs; pygls changes the dictionary that it iterates over."""
        self.phase = Phase.SHUT_DOWN
        self._shutdown = True
        for future in list(self._request_futures.values()):
            if not future.done():
                future.cancel()
        for call in list(self._raw.values()):
            call.withdraw()

    @lsp_method(types.EXIT)
    def lsp_exit(self, *_: Any) -> None:  # type: ignore[override]
        """Do nothing: ``exit`` never comes here."""

    @lsp_method(types.SET_TRACE)
    def lsp_set_trace(self, params: types.SetTraceParams) -> None:  # type: ignore[override]
        """Remember it."""
        self.trace = params.value

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """Keep the text."""
        found = params.text_document
        self.client.documents.open(found.uri, str(found.language_id), found.version, found.text)
        self.client.run_hooks(self.client.on_document, "open", found.uri)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Keep the changes."""
        changes = [(_range(one), one.text) for one in params.content_changes]
        self.client.documents.change(params.text_document.uri, params.text_document.version, changes)
        self.client.run_hooks(self.client.on_document, "change", params.text_document.uri)

    @lsp_method(types.TEXT_DOCUMENT_DID_SAVE)
    def lsp_text_document__did_save(self, params: types.DidSaveTextDocumentParams) -> None:
        """Note that disk and document agree."""
        self.client.documents.save(params.text_document.uri, params.text)
        self.client.run_hooks(self.client.on_document, "save", params.text_document.uri)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """Forget the text: what is on disk is what the person sees."""
        self.client.documents.close(params.text_document.uri)
        self.client.run_hooks(self.client.on_document, "close", params.text_document.uri)

    @lsp_method(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def lsp_workspace__did_change_workspace_folders(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        """Keep the list of folders."""
        removed = {places.path_of(one.uri) for one in params.event.removed or []}
        added = [places.path_of(one.uri) for one in params.event.added or []]
        kept = [one for one in self.client.folders if one not in removed]
        self.client.folders = tuple(dict.fromkeys([*kept, *(one for one in added if one is not None)]))
        self.client.run_hooks(self.client.on_folders)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # type: ignore[override]
        self, params: types.ExecuteCommandParams
    ) -> Any:
        """Run a command as part of this request, so that cancelling reaches it: pygls would let it run on."""
        handler: Callable[..., Any] | None = self.fm.commands.get(params.command)
        if handler is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"There is no command {params.command!r}.",
                hint="executeCommandProvider.commands lists them.",
            )
        outcome = handler(*(params.arguments or []))
        return await outcome if asyncio.iscoroutine(outcome) else outcome

    # Documents and progress are ours; pygls' own would refer to a workspace that is not kept, or never forget a token.

    @lsp_method(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def lsp_work_done_progress_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        """Tell whoever shows this progress."""
        self.client.run_hooks(self._server.on_progress_cancel, params.token)

    def lsp_notebook_document__did_open(self, *_: Any) -> None:
        """Ignore notebooks: only files are kept."""

    def lsp_notebook_document__did_change(self, *_: Any) -> None:
        """Ignore notebooks."""

    def lsp_notebook_document__did_close(self, *_: Any) -> None:
        """Ignore notebooks."""


class _NotYet:
    """Stands for a call that is being begun."""

    def cancelled(self) -> bool:
        return False

    def withdraw(self) -> None:
        """Nothing can ask for that: it is begun in the thread that reads."""


_NOT_YET: Any = _NotYet()


def _parse(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        # JavaScript's strings may hold half a surrogate pair; a change of a document must not be lost for that.
        if "surrogate" not in str(error) and b"\\u" not in body:
            raise
        text = body.decode("utf-8")
        return wire.whole(json.loads(text, parse_constant=_no_constant))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


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


def _is_id(value: Any) -> bool:
    """LSP 3.17: ``integer | string``."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _key(identifier: Any) -> Key:
    return isinstance(identifier, str), identifier


def _details(error: Exception) -> list[str]:
    try:
        return [str(one) for one in cattrs.transform_error(error)][:5] or [str(error)]
    except Exception:  # transform_error knows some kinds of error only
        return [f"{type(error).__name__}: {error}"]


def _encoding(capabilities: dict[str, Any]) -> str:
    """Return the first encoding of positions that the client offers and we know; UTF-16 by default (LSP 3.17)."""
    general = capabilities.get("general")
    offered = general.get("positionEncodings") if isinstance(general, dict) else None
    if isinstance(offered, list):
        for one in offered:
            if one in {"utf-8", "utf-16", "utf-32"}:
                return str(one)
    return "utf-16"


def _literals(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return what pygls reads of the client's code actions: whether it takes them as literals."""
    document = capabilities.get("textDocument")
    action = document.get("codeAction") if isinstance(document, dict) else None
    if not isinstance(action, dict) or not isinstance(action.get("codeActionLiteralSupport"), dict):
        return {}
    return {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}}


def _range(change: Any) -> Any:
    found = getattr(change, "range", None)
    if found is None:
        return None
    return ((found.start.line, found.start.character), (found.end.line, found.end.character))
