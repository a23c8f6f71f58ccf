"""The editor at the other end, as the features see it: what it can do, what is open in it, how to reach it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.api import faults, table
from understudy.api.subscriptions import Subscriptions
from understudy.faces.lsp import framing, places
from understudy.faces.lsp.calls import Calls
from understudy.faces.lsp.documents import Documents
from understudy.model import wire
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    import cattrs

    from understudy.faces.lsp.outbox import Outbox

log = logging.getLogger(__name__)

ASK_SECONDS = 30.0
"""How long a client may take for an answer that needs no person."""
WITHDRAWN_SECONDS = 5.0
"""How long a request that was withdrawn may still take for its answer."""
MOST_WATCHED = 64
"""Workspaces besides the folders whose configuration is looked at every second."""
_DELIVER_SECONDS = 60.0


class Refused(Exception):  # noqa: N818 - it is an answer, not a fault
    """The client answered a request of ours with an error."""

    def __init__(self, code: int, message: str) -> None:
        """Take over the client's code and words."""
        super().__init__(f"{message} ({code})")
        self.code = code


class Options(msgspec.Struct, rename="camel"):
    """``initializationOptions``; what is not named here is ignored, what has the wrong type counts as absent."""

    trusted: bool = True
    """False withdraws, for this session, the trust that a workspace has; true gives none."""
    review: bool = True
    """False: the client shows results itself, so hunks become neither diagnostics nor lenses nor code actions."""
    subscribes: bool = False
    """The client will subscribe to events: nothing is told or asked until it has, either."""


class Client:
    """The editor.

    All methods but ``notify``, ``notify_when_room``, ``subscribe`` and ``unsubscribe`` belong to the event loop's
    thread. Features add themselves to the lists of hooks before the client says ``initialized``; a hook that raises is
    written down and changes nothing.
    """

    def __init__(self, converter: cattrs.Converter) -> None:
        """Know nothing yet; ``attach`` and ``introduce`` follow."""
        self.name = ""
        self.version = ""
        self.options = Options()
        self.encoding = "utf-16"
        self.documents = Documents("utf-16")
        self.folders: tuple[Path, ...] = ()
        self.calls = Calls(self)
        self.on_ready: list[Callable[[], None]] = []
        """After ``initialized``."""
        self.on_document: list[Callable[[str, str], None]] = []
        """``(what, uri)``, what: ``open``, ``change``, ``save`` or ``close``; the documents are as after it."""
        self.on_events: list[Callable[[str, list[Any]], None]] = []
        """``(delegation, events)`` of every delegation while the client has not subscribed; beginning with what
        still runs."""
        self.on_changed: list[Callable[[frozenset[str]], None]] = []
        """Names of collections that should be read again (``understudy/changed``)."""
        self.on_folders: list[Callable[[], None]] = []
        self.on_started: list[Callable[[str, Any], None]] = []
        """``(delegation, parameters)`` of what this client started, sent back or retried; parameters as they came."""
        self.regained: set[Path] = set()
        """Workspaces that the person trusts although the editor withdrew trust at the beginning."""
        self._also_watched: tuple[Path, ...] = ()
        self._capabilities: Mapping[str, Any] = {}
        self._converter = converter
        self._outbox: Outbox | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[str, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()
        self._following: Subscriptions | None = None
        self._subscribed = False
        self._closed = False

    # -- what it is ------------------------------------------------------------------------------------------------

    def introduce(self, params: Mapping[str, Any], encoding: str) -> None:
        """Take over what ``initialize`` says; ``encoding`` is the one agreed on."""
        info = params.get("clientInfo")
        if isinstance(info, dict):
            self.name, self.version = str(info.get("name", "")), str(info.get("version", ""))
        capabilities = params.get("capabilities")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.encoding = encoding
        self.documents = Documents(encoding)
        self.options = _options(params.get("initializationOptions"))
        self.folders = places.folders_of(params)

    def can(self, path: str) -> bool:
        """Tell whether the client declared a capability, by its dotted name: ``window.showDocument.support``."""
        return bool(self.capability(path))

    def capability(self, path: str) -> Any:
        """Return what the client declared at a dotted name, None where it did not."""
        found: Any = self._capabilities
        for name in path.split("."):
            if not isinstance(found, dict):
                return None
            found = found.get(name)
        return found

    @property
    def subscribed(self) -> bool:
        """Whether the client shows events itself: then no progress, message or question is sent to it."""
        return self._subscribed or self.options.subscribes

    def has(self, path: Path) -> bool:
        """Tell whether a path is one of the workspace folders, below one, or above one."""
        return any(path == own or own in path.parents or path in own.parents for own in self.folders)

    def distrusts(self, workspace: Path) -> bool:
        """Tell whether the trust in a workspace is withdrawn for this session; from any thread."""
        return not self.options.trusted and workspace not in self.regained

    def watch(self, workspace: Path) -> None:
        """Notice changes of the configuration of a workspace that is no folder, but holds an open file."""
        if workspace not in self._also_watched and len(self._also_watched) < MOST_WATCHED:
            self._also_watched += (workspace,)

    # -- how to reach it -------------------------------------------------------------------------------------------

    def attach(self, outbox: Outbox, loop: asyncio.AbstractEventLoop) -> None:
        """Write to ``outbox``."""
        self._outbox, self._loop = outbox, loop

    def notify(self, method: str, params: Any) -> None:
        """Send a notification; ``params`` is made of builtins, lsprotocol objects or a structure of ours."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def notify_when_room(self, method: str, params: Any) -> None:
        """Send a notification when the client has read most of what came before; not in the loop's thread."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if self._outbox is None:
            raise BrokenPipeError
        self._outbox.send_when_room(framing.frame(self.encode(message)))

    async def ask(self, method: str, params: Any, limit: float = ASK_SECONDS) -> Any:
        """Send a request and return the answer as parsed JSON.

        Errors: ``Refused``; ``TimeoutError`` after ``limit`` seconds, when the client has been told that it may stop.
        """
        identifier = f"understudy:{next(self._numbers)}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[identifier] = future
        try:
            self.send({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})
            async with asyncio.timeout(limit):
                return await future
        finally:
            del self._asked[identifier]
            if future.cancelled() and not self._closed:
                self.notify("$/cancelRequest", {"id": identifier})

    def answered(self, identifier: Any, result: Any, error: Any) -> None:
        """Take the client's answer to a request of ours; one that nobody waits for is nothing."""
        future = self._asked.get(identifier) if isinstance(identifier, str) else None
        if future is None or future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            known = error if isinstance(error, dict) else {}
            code = known.get("code")
            future.set_exception(Refused(code if isinstance(code, int) else 0, str(known.get("message", error))))

    async def call(self, name: str, params: Any) -> Any:
        """Return the answer of the table to a request, by its name without prefix; raises ``UnderstudyError``.

        ``params`` is parsed JSON or the structure. Cancelling withdraws the request; what it came to by then is
        returned all the same, since it may have begun something.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any, error: UnderstudyError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def answer(result: Any, error: UnderstudyError | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, error)

        call = self.calls.begin(table.PREFIX + name, params, answer)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            call.withdraw()
            async with asyncio.timeout(WITHDRAWN_SECONDS):
                return await future

    def wait_in_loop(self, work: Coroutine[Any, Any, Any], limit: float) -> Any:
        """Run something in the loop's thread and return its result; from any other thread.

        Errors: ``timed_out`` after ``limit`` seconds, ``cancelled`` when the session ends; what ``work`` raises.
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
        """Run something beside the requests; what it raises is written down."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def send(self, message: Any) -> None:
        """Send a whole message, from whatever thread."""
        if self._outbox is not None:
            self._outbox.send(framing.frame(self.encode(message)))

    def encode(self, message: Any) -> bytes:
        """Return a message of builtins, lsprotocol objects and structures of ours as JSON."""
        return wire.encode(self._plain(message))

    def to_wire(self, value: Any) -> Any:
        """Return lsprotocol objects as what JSON knows."""
        return self._plain(value)

    # -- what happens ----------------------------------------------------------------------------------------------

    def subscribe(self, delegation: str | None, after: Mapping[str, int]) -> None:
        """Send events to the client from now on; the features hear only of changes then. From any thread."""
        with self._lock:
            if self._closed:
                return
            if self._following is None or not self._subscribed:
                self._subscribed = True
                if self._following is not None:
                    self._following.close()
                self._following = Subscriptions(self._send_on, self._watched)
                self._following.announce_changes()
            self._following.follow(delegation, after)

    def unsubscribe(self, delegation: str | None) -> None:
        """Stop sending them; from any thread."""
        with self._lock:
            if self._subscribed and self._following is not None:
                self._following.unfollow(delegation)

    def ready(self) -> None:
        """Begin: the client said ``initialized``."""
        with self._lock:
            if self._following is None and not self._closed:
                self._following = Subscriptions(self._deliver, self._watched)
                self._following.announce_changes()
                if self.on_events and not self.options.subscribes:
                    self._following.follow(None, {})
        self.run_hooks(self.on_ready)

    def started(self, delegation: str, params: Any) -> None:
        """Take note that this client started something; from any thread."""
        if self._loop is not None and not self._closed and self.on_started:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.run_hooks, self.on_started, delegation, params)

    def close(self) -> None:
        """End everything that runs for this client."""
        with self._lock:
            self._closed = True
            if self._following is not None:
                self._following.close()
        self.calls.withdraw_all()
        for task in list(self._tasks):
            task.cancel()
        for future in list(self._asked.values()):
            future.cancel()

    def run_hooks(self, hooks: list[Callable[..., None]], *arguments: Any) -> None:
        """Call every hook."""
        for hook in hooks:
            try:
                hook(*arguments)
            except Exception as error:
                faults.internal(f"lsp hook {hook}", error)

    def _watched(self) -> tuple[Path, ...]:
        return (*self.folders, *(path for path in self._also_watched if path not in self.folders))

    def _send_on(self, name: str, params: Any) -> None:
        """Pass a notification on to the client, in the subscription's thread, as fast as the client reads."""
        self.notify_when_room(table.PREFIX + name, params)
        if name == "changed":
            self._in_loop(self.run_hooks, self.on_changed, frozenset(params.collections))

    def _deliver(self, name: str, params: Any) -> None:
        """Hand events to the features, in the loop's thread, and wait until they have seen them."""
        if name == "changed":
            self._in_loop(self.run_hooks, self.on_changed, frozenset(params.collections))
        else:
            self._in_loop(self.run_hooks, self.on_events, params.id, list(params.events))

    def _in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._loop is None:
            raise BrokenPipeError
        done = threading.Event()

        def run() -> None:
            try:
                function(*arguments)
            finally:
                done.set()

        try:
            self._loop.call_soon_threadsafe(run)
        except RuntimeError as error:  # the loop is closed
            raise BrokenPipeError from error
        done.wait(_DELIVER_SECONDS)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, UnderstudyError | Refused | TimeoutError):
                log.warning("%s: %s", task.get_name(), error)
            else:
                faults.internal(f"lsp {task.get_name()}", error)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, msgspec.Struct):
            return value
        if isinstance(value, dict):
            return {key: self._plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        if value is None or isinstance(value, str | int | float | bool):
            return value
        return self._converter.unstructure(value)


def _gone() -> UnderstudyError:
    return UnderstudyError(ErrorKind.CANCELLED, "The editor is gone.", hint="Decide again in the next session.")


def _options(given: Any) -> Options:
    found = Options()
    if isinstance(given, dict):
        for name in Options.__struct_fields__:
            if isinstance(given.get(name), bool):
                setattr(found, name, given[name])
    return found
