"""The parts put together: descriptors, the stream, pygls, the features."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

import understudy
from understudy.api import codes, table
from understudy.faces.lsp import features, framing, gather, lenient, watching
from understudy.faces.lsp.client import Client
from understudy.faces.lsp.outbox import Outbox
from understudy.faces.lsp.protocol import Protocol
from understudy.model.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.faces.lsp.surface import Surface

log = logging.getLogger(__name__)

CHUNK = 64 * 1024


class Server(LanguageServer):
    """The language server of one editor.

    Features register standard methods with ``feature`` and add to the lists below before the client says hello.
    """

    protocol: Protocol
    review: Surface
    """Where results are shown and decided on."""

    def __init__(self) -> None:
        """Register everything; nothing runs yet."""
        self.declarations: list[Callable[[types.ServerCapabilities], None]] = []
        """Called with the capabilities before they are sent, to add what pygls' builder does not know."""
        self.before: dict[str, list[Callable[[Any], Awaitable[None]]]] = {}
        """By a command's name without prefix: awaited with its parameters before it runs."""
        self.on_progress_cancel: list[Callable[[str | int], None]] = []
        self.on_command: list[Callable[[str, Any, Any, UnderstudyError | None], None]] = []
        """``(wire name, parameters, result, error)`` of a request of the contract that came as a command."""
        converter = lenient.converter()
        super().__init__(
            "Understudy",
            understudy.__version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=Protocol,
            converter_factory=lambda: converter,
        )
        self.client = self.protocol.client = Client(converter)
        self.gathered = gather.Gatherer(self.client)
        self._exit_code = 1
        self._leaving: asyncio.Event | None = None
        self._stop_watching: Callable[[], None] | None = None
        for name in table.METHODS:
            self.command(table.PREFIX + name)(self._command(name))
        features.register(self)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Write it down: pygls would pop it up in the editor, and, when the editor is gone, never end."""
        log.warning("%s: %s", getattr(source, "__name__", source), error)

    def declare(self, capabilities: types.ServerCapabilities) -> None:
        """Complete the capabilities."""
        capabilities.workspace = types.WorkspaceOptions(
            workspace_folders=types.WorkspaceFoldersServerCapabilities(supported=True, change_notifications=True)
        )
        capabilities.experimental = {
            "understudy": {
                "protocolVersion": table.PROTOCOL_VERSION,
                "version": understudy.__version__,
                "requests": [table.PREFIX + name for name in table.METHODS],
                "notifications": [table.PREFIX + name for name in table.NOTIFICATIONS],
            }
        }
        for declaration in self.declarations:
            declaration(capabilities)

    def watch_parent(self, process: int | None) -> None:
        """Leave when the process that named itself dies."""
        self.process_id = process
        if process is not None:
            self._stop_watching = watching.watch(process, lambda: self.leave(1))

    def leave(self, code: int) -> None:
        """End the session; the first caller decides the exit code."""
        if self._leaving is not None and not self._leaving.is_set():
            self._exit_code = code
            self._leaving.set()

    async def serve(self, reading: int, writing: int) -> int:
        """Serve on two descriptors until the session ends; return the exit code."""
        loop = asyncio.get_running_loop()
        self._leaving = asyncio.Event()
        outbox = Outbox(writing)
        self.client.attach(outbox, loop)
        stream = Stream(reading, self, outbox)
        try:
            with _signals(loop, lambda: self.leave(1)):
                stream.begin()
                await self._leaving.wait()
        finally:
            stream.end()
            if self._stop_watching is not None:
                self._stop_watching()
            self.client.close()
            await asyncio.to_thread(outbox.close)
        return self._exit_code

    def answer(self, method: str, handler: Callable[[Any], Awaitable[Any]], options: Any = None) -> None:
        """Answer a standard request with an ``async`` method of a feature, which pygls cannot mark as it wants."""

        async def answered(params: Any) -> Any:
            return await handler(params)

        self.feature(method, options)(answered)

    def _command(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def run(*arguments: Any) -> Any:
            params = arguments[0] if arguments else None
            for prepare in self.before.get(name, ()):
                await prepare(params)
            try:
                result = await self.client.call(name, params)
            except UnderstudyError as error:
                self.client.run_hooks(self.on_command, table.PREFIX + name, params, None, error)
                raise
            self.client.run_hooks(self.on_command, table.PREFIX + name, params, result, None)
            return result

        return run


class Stream:
    """The way in. Nothing is read while the client does not read what it is owed."""

    def __init__(self, descriptor: int, server: Server, outbox: Outbox) -> None:
        """Read nothing yet."""
        self._descriptor = descriptor
        self._server = server
        self._outbox = outbox
        self._frames = framing.Frames()
        self._bodies: Iterator[bytes | framing.Broken] = iter(())
        self._loop = asyncio.get_running_loop()
        self._polled = False
        self._ended = False

    def begin(self) -> None:
        """Read from now on."""
        try:
            self._loop.add_reader(self._descriptor, self._readable)
            self._polled = True
        except (OSError, ValueError):
            # A regular file cannot be polled, nor the null device.
            threading.Thread(target=self._read_on, name="reader", daemon=True).start()

    def end(self) -> None:
        """Read no more."""
        self._ended = True
        if self._polled:
            self._loop.remove_reader(self._descriptor)

    def _readable(self) -> None:
        try:
            data = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._take(data)

    def _read_on(self) -> None:
        while not self._ended:
            try:
                data = os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                select.select([self._descriptor], [], [], 1.0)
                continue
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):
                asyncio.run_coroutine_threadsafe(self._taken(data), self._loop).result()
            if not data:
                return

    async def _taken(self, data: bytes) -> None:
        self._take(data)

    def _take(self, data: bytes) -> None:
        if not data or self._outbox.gone:
            self.end()
            self._server.leave(1)
            return
        protocol = self._server.protocol
        for body in self._frames.feed(data):
            if self._ended:
                return
            if isinstance(body, framing.Broken):
                protocol.refuse(None, codes.PARSE_ERROR, f"{body}.")
            elif not protocol.dispatch(body):
                self._frames.give_back(body)
        if self._outbox.full and self._polled and not self._ended:
            self._loop.remove_reader(self._descriptor)
            self._loop.run_in_executor(None, self._outbox.wait_for_room).add_done_callback(self._resume)

    def _resume(self, _: Any) -> None:
        if not self._ended:
            self._loop.add_reader(self._descriptor, self._readable)


def run() -> int:
    """Serve on stdin and stdout."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # pygls writes every body at INFO, and bodies hold prompts and keys.
    logging.getLogger("pygls").setLevel(logging.ERROR)
    reading, writing = descriptors()
    code = asyncio.run(Server().serve(reading, writing))
    sys.stderr.flush()
    return code


def descriptors() -> tuple[int, int]:
    """Move stdin and stdout aside, so that nothing that a library prints, and no child, meets the stream."""
    reading, writing = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    os.close(nowhere)
    sys.stdout = sys.stderr
    return reading, writing


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    """Leave in order at SIGTERM and SIGINT, where this is the main thread."""
    taken = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(RuntimeError, ValueError):  # also where the platform's loop knows no signals
            loop.add_signal_handler(number, stop)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
