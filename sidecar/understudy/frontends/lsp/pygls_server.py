"""The features of the editor, served by pygls so that every standard request gets exactly one answer.

Everything that needs lsprotocol is imported from here; ``server`` loads this module when an editor needs it, because
the import takes a third of a second.

pygls 2.1.1 has the registry of features, converts messages to lsprotocol's classes and runs handlers. Each override
here names the problem of pygls that it solves, and has a test. ``session`` handles envelopes, the phase of the session
and documents.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import functools
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import cattrs
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcMethodNotFound
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter
from pygls.protocol.language_server import lsp_method

import understudy
from understudy.api import error_answers
from understudy.api.serving.request import cancelled_error
from understudy.frontends.lsp import session
from understudy.frontends.lsp.config_files import ConfigFiles
from understudy.frontends.lsp.delegate.answer_documents import AnswerDocuments
from understudy.frontends.lsp.delegate.code_actions import Actions
from understudy.frontends.lsp.delegate.permission_messages import PermissionMessages
from understudy.frontends.lsp.delegate.progress import Progress
from understudy.frontends.lsp.delegate.result_messages import ResultMessages
from understudy.frontends.lsp.delegate.tracked_delegations import TrackedDelegations
from understudy.frontends.lsp.delegate.trust_messages import TrustMessages
from understudy.frontends.lsp.editor import aggregator
from understudy.frontends.lsp.editor.client import CHOOSE, OPEN_REVIEW, Client
from understudy.frontends.lsp.review.review_feature import ReviewFeature
from understudy.model.errors import ErrorKind, UnderstudyError

log = logging.getLogger(__name__)


class StrictProtocol(LanguageServerProtocol):
    """The standard requests of one session; implements ``StandardRequests``."""

    client: Client
    """The editor; set by the server after the protocol was created."""

    def __init__(self, server: LanguageServer, converter: cattrs.Converter) -> None:
        """Register pygls' built-in features."""
        super().__init__(server, converter)
        self._done: dict[Any, Callable[[], None]] = {}

    # -- in --------------------------------------------------------------------------------------------------------

    def request(self, identifier: Any, method: str, params: Any, on_answer: Callable[[], None]) -> None:
        """Answer a request."""
        self._done[identifier] = on_answer
        is_known = method in self.fm.features or method == types.WORKSPACE_EXECUTE_COMMAND
        try:
            structured = self._structure(method, params, self.get_message_type(method) if is_known else None)
        except UnderstudyError as error:
            self._answer(identifier, None, error_answers.to_json_rpc(error))
            return
        context = contextvars.copy_context()
        context.run(self._handle_request, identifier, method, structured)

    def cancel(self, identifier: Any) -> None:
        """Cancel a pending request."""
        future = self._request_futures.get(identifier)
        if future is not None:
            future.cancel()

    def cancel_all(self) -> None:
        """Cancel every pending request; iterate over a copy, which pygls does not."""
        for future in list(self._request_futures.values()):
            future.cancel()

    def _get_handler(self, feature_name: str) -> Any:
        """Return a feature's handler; of pygls' own handlers only the one for commands, ``session`` has the others."""
        if feature_name == types.WORKSPACE_EXECUTE_COMMAND:
            return self.lsp_workspace__execute_command
        handler = self.fm.features.get(feature_name)
        if handler is None:
            raise JsonRpcMethodNotFound.of(feature_name)
        return handler

    def _structure(self, method: str, params: Any, message: type | None) -> Any:
        """Return ``params`` as lsprotocol's class; raise ``invalid_params``, for which pygls sends no answer."""
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

    def _answer(self, identifier: Any, result: Any, error: tuple[int, str, Any] | None) -> None:
        on_answer = self._done.pop(identifier, None)
        if on_answer is not None:
            on_answer()
            self.client.respond(identifier, result, error)

    def _send_data(self, data: Any) -> None:
        """Send through the outbox: pygls' own writer blocks the event loop, and logs every body."""
        self.client.send(self._converter.unstructure(data))

    def _send_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        """Send the answers of pygls itself, for example to unknown methods."""
        self._answer(msg_id, result, None if error is None else (error.code, error.message, None))

    def _send_handler_result(self, future: Future[Any], *, msg_id: Any) -> None:
        """Send the result or error of a handler; pygls would send a traceback with local paths."""
        self._request_futures.pop(msg_id, None)
        if future.cancelled():
            self._answer(msg_id, None, error_answers.to_json_rpc(cancelled_error(), cancelled=True))
            return
        error = future.exception()
        try:
            if error is None:
                self._answer(msg_id, self.client.to_wire(future.result()), None)
                return
        except Exception as problem:
            error = problem
        if isinstance(error, JsonRpcException) and not isinstance(error, UnderstudyError):
            self._answer(msg_id, None, (error.code or error_answers.UNDERSTUDY_ERROR, error.message, None))
        elif isinstance(error, UnderstudyError):
            self._answer(msg_id, None, error_answers.to_json_rpc(error, cancelled=error.kind is ErrorKind.CANCELLED))
        else:
            self._answer(msg_id, None, error_answers.to_json_rpc(error_answers.internal_error("lsp", error)))

    # -- commands --------------------------------------------------------------------------------------------------

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # type: ignore[override]
        self, params: types.ExecuteCommandParams
    ) -> Any:
        """Run a command as part of its request, so that cancelling the request cancels it; pygls would not."""
        handler: Callable[..., Any] | None = self.fm.commands.get(params.command)
        if handler is None:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"Unknown command {params.command!r}.",
                hint="executeCommandProvider.commands lists the commands.",
            )
        outcome = handler(*(params.arguments or []))
        return await outcome if asyncio.iscoroutine(outcome) else outcome


def _details(error: Exception) -> list[str]:
    try:
        return [str(detail) for detail in cattrs.transform_error(error)][:5] or [str(error)]
    except Exception:  # transform_error supports only some kinds of error
        return [f"{type(error).__name__}: {error}"]


def prepare() -> cattrs.Converter:
    """Create the converter, which takes a while and can be done in any thread."""
    # pygls logs every message body at INFO, and bodies contain prompts and keys.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    return converter()


class PyglsServer(LanguageServer):
    """The features of one editor, whose ``protocol`` has the ``StandardRequests`` of its session."""

    protocol: StrictProtocol

    def __init__(self, client: Client, converter: cattrs.Converter) -> None:
        """Register every feature with ``client``."""
        super().__init__(
            session.NAME,
            understudy.__version__,
            protocol_cls=StrictProtocol,
            converter_factory=lambda: converter,
        )
        client.unstructure = converter.unstructure
        client.structure = converter.structure
        self.client = self.protocol.client = client
        self.aggregator = aggregator.Aggregator(client)
        register_features(self)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log an error; pygls would send it to the editor, and never exit if the editor is gone."""
        log.warning("%s: %s", getattr(source, "__name__", source), error)

    def answer(self, method: str, handler: Callable[[Any], Awaitable[Any]]) -> None:
        """Register the handler of a standard request."""

        # pygls sets attributes on handlers, which bound methods do not allow.
        async def answered(params: Any) -> Any:
            return await handler(params)

        self.feature(method)(answered)


def converter() -> cattrs.Converter:
    """Return pygls' converter, changed to accept unknown enum values.

    The specification demands that unknown values are ignored (LSP 3.17, "Enumerations" and the notes on capabilities).
    Each enum class needs a hook of its own, because str and int enums match primitives first.
    """
    converter: cattrs.Converter = default_converter()  # type: ignore[no-untyped-call]
    for value in vars(types).values():
        if isinstance(value, type) and issubclass(value, enum.Enum):
            converter.register_structure_hook(value, functools.partial(_either, value))
    return converter


def _either(kind: type[enum.Enum], value: Any, _: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        return value


def register_features(server: PyglsServer) -> None:
    """Register every feature, in the order in which code actions and lenses are listed."""
    client, shared = server.client, server.aggregator
    server.answer(types.TEXT_DOCUMENT_CODE_ACTION, shared.code_action)
    server.answer(types.TEXT_DOCUMENT_CODE_LENS, shared.code_lens)
    review = ReviewFeature(shared)

    async def open_review(*arguments: Any) -> None:
        await review.open_command(*arguments)

    server.command(OPEN_REVIEW)(open_review)
    ConfigFiles(shared)
    TrustMessages(client)
    runs = TrackedDelegations(client)
    Progress(client, runs)
    PermissionMessages(client, runs)
    ResultMessages(client, runs, review.open)
    AnswerDocuments(client)
    # Last, so that the actions of every other source are listed before those that delegate.
    actions = Actions(shared)

    async def choose(*arguments: Any) -> Any:
        return await actions.choose_command(*arguments)

    server.command(CHOOSE)(choose)
