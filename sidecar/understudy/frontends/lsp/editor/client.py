"""The connected editor: its capabilities and documents, the messages to it, and hooks for what it does."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.api import error_answers, method_table
from understudy.api.serving.request import Answer, InFlightRequest, RequestsInFlight
from understudy.api.serving.subscriptions import Subscriptions, fingerprints
from understudy.api.serving.thread_pool import settle
from understudy.frontends import json_rpc
from understudy.frontends.lsp.editor.documents import Documents
from understudy.frontends.lsp.transport import framing
from understudy.model import wire
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.text import path_quoting

if TYPE_CHECKING:
    from understudy.frontends.lsp.transport.outbox import Outbox

log = logging.getLogger(__name__)

ASK_SECONDS = 30.0
"""How long to wait for an answer of the client that does not depend on the user."""
MOST_WATCHED = 64
"""How many workspaces besides the folders have their configuration watched."""
OPEN_REVIEW = "understudy-review/open"
"""A command that is not in the method table, because showing a document needs an editor."""
CHOOSE = "understudy-delegate/choose"
"""A command that asks the user for the recipe or the delegator of a start, and is not in the method table for that."""
_DELIVER_SECONDS = 60.0
"""How long the subscription's thread waits for the features to handle events."""


class EditorRefused(Exception):  # noqa: N818 - it is an answer, not an error
    """The client answered a request of the server with an error."""

    def __init__(self, code: int, message: str) -> None:
        """Take the client's code and message."""
        super().__init__(f"{message} ({code})")
        self.code = code


class Options(msgspec.Struct, rename="camel"):
    """``initializationOptions``; unknown options are ignored, and so are values of the wrong type."""

    trusted: bool = True
    """False revokes the trust in all workspaces for this session; true does not grant trust."""
    review: bool = True
    """False: the client shows results itself, so there are no diagnostics, lenses and code actions for hunks."""
    subscribes: bool = False
    """The client will subscribe to events, so it gets no messages and questions, not even before it subscribes."""


CommandHook = Callable[[InFlightRequest, Any, UnderstudyError | None], None]
"""``(request, result, error)`` of a request of the contract that was executed as a command."""


class Client:
    """The editor.

    Call methods only in the event loop's thread, unless they are documented for any thread. Features append to the
    lists of hooks before the client sends ``initialized``; an exception of a hook is logged as an internal error.
    """

    new_request: Callable[[str, Any, Answer, Any], InFlightRequest]
    """Returns a request of the contract, by its wire name, with the key by which the client cancels it; ``requests``
    begins it. Set by the server, because such a request needs the client."""

    def __init__(self) -> None:
        """Start unconnected; ``attach`` and ``introduce`` follow."""
        self.name = ""
        self.version = ""
        self.process: int | None = None
        self.options = Options()
        self.encoding = "utf-16"
        self.documents = Documents("utf-16")
        self.folders: tuple[Path, ...] = ()
        self.requests = RequestsInFlight()
        """The requests of the contract, of the client and of the features."""
        self.unstructure: Callable[[Any], Any] = _no_lsprotocol
        """Converts lsprotocol's objects to builtins; set when lsprotocol is loaded."""
        self.structure: Callable[[Any, Any], Any] = _no_lsprotocol
        """Converts builtins to an object of a class of lsprotocol."""
        self.on_ready: list[Callable[[], None]] = []
        """Called after ``initialized``."""
        self.on_document: list[Callable[[str, str], None]] = []
        """``(what, uri)`` after ``documents`` was updated; what: ``open``, ``change``, ``save`` or ``close``."""
        self.on_events: list[Callable[[str, list[Any]], None]] = []
        """``(delegation, events)`` of all delegations, live ones from their beginning, unless the client has
        subscribed."""
        self.on_changed: list[Callable[[frozenset[str]], None]] = []
        """``(collections)`` that changed (``understudy/changed``)."""
        self.on_folders: list[Callable[[], None]] = []
        """Called after ``folders`` changed."""
        self.on_started: list[Callable[[str, Any], None]] = []
        """``(delegation, parameters)`` of every delegation that this client started, sent back or retried; the
        parameters are those of its request."""
        self.before_command: dict[str, Callable[[Any], Awaitable[None]]] = {}
        """Name of a request without prefix → what is awaited, with its parameters, before it runs as a command."""
        self.on_command_begun: list[Callable[[InFlightRequest], None]] = []
        """A request of the contract was received as a command."""
        self.on_command: list[CommandHook] = []
        """Called right before its answer is sent."""
        self.on_progress_cancel: list[Callable[[str | int], None]] = []
        """Called with the token of a progress that the user cancelled."""
        self.regained: set[Path] = set()
        """Workspaces that the user trusted after the editor had revoked trust for the session."""
        self._also_watched: tuple[Path, ...] = ()
        self._capabilities: Mapping[str, Any] = {}
        self._outbox: Outbox | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[str, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()
        self._following: Subscriptions | None = None
        self._configuration: tuple[str, ...] = ()
        """The fingerprints of the configuration before the client could read it."""
        self._subscribed = False
        self._closed = False
        self._has_features = False
        self._early: list[tuple[str, Any]] = []
        """Arguments of ``on_started`` from before the features were loaded."""

    # -- properties ------------------------------------------------------------------------------------------------

    def introduce(self, params: Mapping[str, Any], encoding: str) -> None:
        """Take the parameters of ``initialize``, and the negotiated position encoding."""
        info = params.get("clientInfo")
        if isinstance(info, dict):
            self.name, self.version = str(info.get("name", "")), str(info.get("version", ""))
        process = params.get("processId")
        self.process = process if isinstance(process, int) else None
        capabilities = params.get("capabilities")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.encoding = encoding
        self.documents = Documents(encoding)
        self.options = _options(params.get("initializationOptions"))
        self.folders = path_quoting.folders_of(params)

    def begin_watching(self) -> None:
        """Note the state of the configuration before the client can read it."""
        self._configuration = fingerprints(self.folders)

    def can(self, path: str) -> bool:
        """Return whether the client declared a capability, by its dotted name: ``window.showDocument.support``."""
        return bool(self.capability(path))

    def capability(self, path: str) -> Any:
        """Return the value that the client declared for a dotted name; None if it declared none."""
        value: Any = self._capabilities
        for name in path.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    @property
    def subscribed(self) -> bool:
        """Whether the client shows events itself, so that it gets no progress, messages and questions."""
        return self._subscribed or self.options.subscribes

    def has(self, path: Path) -> bool:
        """Return whether a path is a workspace folder, below one, or above one."""
        return any(path == folder or folder in path.parents or path in folder.parents for folder in self.folders)

    def distrusts(self, workspace: Path) -> bool:
        """Return whether the trust in a workspace is revoked for this session. Any thread may call this."""
        return not self.options.trusted and workspace not in self.regained

    def watch(self, workspace: Path) -> None:
        """Watch the configuration of a workspace that is not a folder of the editor, but contains an open file."""
        if workspace not in self._also_watched and len(self._also_watched) < MOST_WATCHED:
            self._also_watched += (workspace,)

    # -- messages --------------------------------------------------------------------------------------------------

    def attach(self, outbox: Outbox, loop: asyncio.AbstractEventLoop) -> None:
        """Send messages to ``outbox`` and run hooks in ``loop``."""
        self._outbox, self._loop = outbox, loop

    def notify(self, method: str, params: Any) -> None:
        """Send a notification; ``params``: builtins, lsprotocol objects or a structure. Any thread may call this."""
        self.send(json_rpc.notification(method, params))

    def notify_when_room(self, method: str, params: Any) -> None:
        """Wait until the client has read most messages, then send a notification; not in the loop's thread.

        Errors: ``BrokenPipeError`` if the client is gone.
        """
        if self._outbox is None:
            raise BrokenPipeError
        self._outbox.send_when_room(framing.frame(self.encode(json_rpc.notification(method, params))))

    async def ask(self, method: str, params: Any, limit: float = ASK_SECONDS) -> Any:
        """Send a request and return the answer as parsed JSON.

        Errors: ``EditorRefused``; ``TimeoutError`` after ``limit`` seconds, which cancels the request.
        """
        identifier = f"understudy:{next(self._numbers)}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[identifier] = future
        try:
            self.send({"id": identifier, **json_rpc.notification(method, params)})
            async with asyncio.timeout(limit):
                return await future
        finally:
            del self._asked[identifier]
            if future.cancelled() and not self._closed:
                self.notify(json_rpc.CANCEL, {"id": identifier})

    def answered(self, identifier: Any, result: Any, error: Any) -> None:
        """Handle the client's answer to a request of the server; ignore unexpected ones."""
        future = self._asked.get(identifier) if isinstance(identifier, str) else None
        if future is None or future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            details = error if isinstance(error, dict) else {}
            code = details.get("code")
            future.set_exception(
                EditorRefused(code if isinstance(code, int) else 0, str(details.get("message", error)))
            )

    async def call(self, name: str, params: Any, *, as_command: bool = False) -> Any:
        """Return the result of a request of the contract, by its name without prefix. Errors: ``UnderstudyError``.

        ``params`` is parsed JSON or the structure. Cancelling this coroutine cancels the request. ``as_command``: with
        what the features do when the editor sends the request as a command.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        call = self.new_request(method_table.PREFIX + name, params, functools.partial(settle, loop, future), None)
        if as_command:
            self.run_hooks(self.on_command_begun, call)
            before = self.before_command.get(name)
            if before is not None:
                await before(params)
        self.requests.begin(call)
        result, problem = None, None
        try:
            result = await asyncio.shield(future)
        except asyncio.CancelledError:
            call.cancel()
            future.cancel()
            raise
        except UnderstudyError as error:
            problem = error
        if as_command:
            self.run_hooks(self.on_command, call, result, problem)
        if problem is not None:
            raise problem
        return result

    def wait_in_loop(self, work: Coroutine[Any, Any, Any], limit: float) -> Any:
        """Run a coroutine in the loop's thread and return its result. Call this only in other threads.

        Errors: ``timed_out`` after ``limit`` seconds; ``cancelled`` when the session ends; those of ``work``.
        """
        if self._loop is None or self._closed or self._loop.is_closed():
            work.close()
            raise _gone()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(limit)
        except TimeoutError:
            future.cancel()
            raise UnderstudyError(
                ErrorKind.TIMED_OUT, f"The editor did not answer within {limit:g} s.", hint="Try again."
            ) from None
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            raise _gone() from None

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine in the background; log its exceptions."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def respond(self, identifier: Any, result: Any, error: tuple[int, str, Any] | None) -> None:
        """Answer a request of the client; ``error``: code, message, data. Any thread may call this."""
        message = json_rpc.result(identifier, result) if error is None else json_rpc.error(identifier, *error)
        self.send(message)

    def send(self, message: Any) -> None:
        """Send a whole message. Any thread may call this."""
        if self._outbox is not None:
            self._outbox.send(framing.frame(self.encode(message)))

    def encode(self, message: Any) -> bytes:
        """Return a message of builtins, lsprotocol objects and structures of the model as JSON."""
        return wire.encode(self.to_wire(message))

    def to_wire(self, value: Any) -> Any:
        """Convert lsprotocol objects to builtins."""
        if isinstance(value, msgspec.Struct):
            return value
        if isinstance(value, dict):
            return {key: self.to_wire(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.to_wire(item) for item in value]
        if value is None or isinstance(value, str | int | float | bool):
            return value
        return self.unstructure(value)

    # -- events ----------------------------------------------------------------------------------------------------

    def subscribe(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Start sending events to the client instead of the features, which then get only changes. Any thread."""
        with self._lock:
            if self._closed:
                return
            if self._following is None or not self._subscribed:
                self._subscribed = True
                if self._following is not None:
                    self._following.close()
                self._following = Subscriptions(self._send_on, self._watched, self._configuration)
                self._following.announce_changes()
            self._following.follow(delegation, after)

    def unsubscribe(self, delegation: str | None) -> None:
        """Stop sending events to the client. Any thread may call this."""
        with self._lock:
            if self._subscribed and self._following is not None:
                self._following.unfollow(delegation)

    def features_loaded(self, *, initialized: bool) -> None:
        """Run the hooks for everything that happened before the features were loaded."""
        with self._lock:
            self._has_features = True
            early, self._early = self._early, []
        for delegation, params in early:
            self.run_hooks(self.on_started, delegation, params)
        if initialized:
            self._ready({delegation: 0 for delegation, _ in early})
        for uri in self.documents.open_uris():
            self.run_hooks(self.on_document, "open", uri)

    def _ready(self, after: Mapping[str, int]) -> None:
        with self._lock:
            if self._following is None and not self._closed:
                self._following = Subscriptions(self._deliver, self._watched, self._configuration)
                self._following.announce_changes()
                if self.on_events and not self.options.subscribes:
                    # A delegation that was started early may have finished; ``after`` includes its events nevertheless.
                    self._following.follow(None, after)
        self.run_hooks(self.on_ready)

    def started(self, delegation: str, params: Any) -> None:
        """Note that this client started a delegation. Any thread may call this."""
        with self._lock:
            if not self._has_features:
                self._early.append((delegation, params))
                return
        self.in_loop(self.run_hooks, self.on_started, delegation, params)

    def in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function soon in the loop's thread. Any thread may call this."""
        if self._loop is not None and not self._closed:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """Cancel all requests, background tasks and subscriptions of this client."""
        with self._lock:
            self._closed = True
            if self._following is not None:
                self._following.close()
        self.requests.cancel_all()
        self.requests.close()
        for task in list(self._tasks):
            task.cancel()
        for future in list(self._asked.values()):
            future.cancel()

    def run_hooks(self, hooks: list[Callable[..., None]], *arguments: Any) -> None:
        """Call every hook; log exceptions as internal errors."""
        for hook in hooks:
            try:
                hook(*arguments)
            except Exception as error:
                error_answers.internal_error(f"lsp hook {hook}", error)

    def _watched(self) -> tuple[Path, ...]:
        return (*self.folders, *(path for path in self._also_watched if path not in self.folders))

    def _send_on(self, name: str, params: Any) -> None:
        """Forward a notification to the client, in the subscription's thread, as fast as the client reads."""
        self.notify_when_room(method_table.PREFIX + name, params)
        if name == "changed":
            self._wait_in_loop(self.run_hooks, self.on_changed, frozenset(params.collections))

    def _deliver(self, name: str, params: Any) -> None:
        """Pass events to the features in the loop's thread, and wait until they have handled them."""
        if name == "changed":
            self._wait_in_loop(self.run_hooks, self.on_changed, frozenset(params.collections))
        else:
            self._wait_in_loop(self.run_hooks, self.on_events, params.id, list(params.events))

    def _wait_in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        async def run() -> None:
            function(*arguments)

        try:
            self.wait_in_loop(run(), _DELIVER_SECONDS)
        except UnderstudyError as error:
            if error.kind is ErrorKind.CANCELLED:  # the session has ended
                raise BrokenPipeError from error

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, UnderstudyError | EditorRefused | TimeoutError):
                log.warning("%s: %s", task.get_name(), error)
            else:
                error_answers.internal_error(f"lsp {task.get_name()}", error)


def _no_lsprotocol(value: Any, _: Any = None) -> Any:
    raise TypeError(f"{type(value).__name__} cannot be converted before lsprotocol is loaded")


def _gone() -> UnderstudyError:
    return UnderstudyError(ErrorKind.CANCELLED, "The editor disconnected.", hint="Repeat the request in a new session.")


def _options(declared: Any) -> Options:
    options = Options()
    if isinstance(declared, dict):
        for name in Options.__struct_fields__:
            if isinstance(declared.get(name), bool):
                setattr(options, name, declared[name])
    return options
