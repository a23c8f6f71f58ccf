"""Run the language server of one editor: descriptors, stream and session; features are loaded on demand."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from understudy.api import error_answers
from understudy.api.serving import waiting_delegations
from understudy.frontends import json_rpc
from understudy.frontends.lsp.editor.accepted_text import AcceptedText
from understudy.frontends.lsp.editor.client import Client
from understudy.frontends.lsp.editor.requests import ApiRequest
from understudy.frontends.lsp.session import Session, StandardRequests
from understudy.frontends.lsp.transport import framing
from understudy.frontends.lsp.transport.outbox import Outbox

if TYPE_CHECKING:
    import cattrs

log = logging.getLogger(__name__)
CHUNK = 64 * 1024
POLL_SECONDS = 5.0
"""How often to check on systems without pidfd_open(2), which Linux has since 5.3."""


class Server:
    """The process: it lives as long as the session of its one client."""

    def __init__(self) -> None:
        """Prepare a session; nothing runs yet."""
        self.client = Client()
        self.client.new_request = functools.partial(ApiRequest, self.client)
        self.accepted_text = AcceptedText(self.client)
        self.session = Session(self.client, self, self._load)
        self._exit_code = 1
        self._leaving: asyncio.Event | None = None
        self._stop_watching: Callable[[], None] | None = None

    def watch_parent(self, process: int | None) -> None:
        """End the session when the client's process dies; None: the client did not name one."""
        if process is not None:
            self._stop_watching = watch(process, lambda: self.leave(1))

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
            await self.accepted_text.end()
            await asyncio.to_thread(outbox.close)
        return self._exit_code

    async def _load(self) -> StandardRequests:
        """Import pygls and lsprotocol in a thread, then register the features in the loop's."""
        converter = await asyncio.to_thread(_prepare)
        from understudy.frontends.lsp.pygls_server import PyglsServer

        return PyglsServer(self.client, converter).protocol


def _prepare() -> cattrs.Converter:
    from understudy.frontends.lsp import pygls_server

    return pygls_server.prepare()


class Stream:
    """Read from the client, except while it does not read its answers or the session is blocked."""

    def __init__(self, descriptor: int, server: Server, outbox: Outbox) -> None:
        """Prepare; ``begin`` starts reading."""
        self._descriptor = descriptor
        self._server = server
        self._outbox = outbox
        self._frames = framing.Frames()
        self._loop = asyncio.get_running_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._polled = False
        self._reading: asyncio.Task[None] | None = None
        self._ended = False

    def begin(self) -> None:
        """Start to read."""
        try:
            self._loop.add_reader(self._descriptor, self._readable)
            self._polled = True
        except (OSError, ValueError):
            # Regular files and the null device cannot be polled, and reading them does not block.
            self._reading = self._loop.create_task(self._read_on())

    def end(self) -> None:
        """Stop reading."""
        self._ended = True
        self._flowing.set()
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

    async def _read_on(self) -> None:
        while not self._ended:
            self._readable()
            await self._flowing.wait()
            await asyncio.sleep(0)

    def _take(self, data: bytes) -> None:
        if not data or self._outbox.gone:
            self.end()
            self._server.leave(1)
            return
        self._handle(data)

    def _handle(self, data: bytes) -> None:
        """Handle the messages that ``data`` completes, up to the first one that blocks the session."""
        session = self._server.session
        for body in self._frames.feed(data):
            if self._ended:
                return
            if isinstance(body, framing.Broken):
                session.refuse(None, error_answers.PARSE_ERROR, f"{body}.")
            elif not session.handle(body):
                self._frames.give_back(body)
            if session.blocked_until is not None:
                self._pause(session.blocked_until)
                return
        if self._outbox.full and not self._ended:
            self._pause(self._loop.run_in_executor(None, self._outbox.wait_for_room))

    def _pause(self, until: asyncio.Future[None]) -> None:
        self._flowing.clear()
        if self._polled:
            self._loop.remove_reader(self._descriptor)
        until.add_done_callback(self._resume)

    def _resume(self, _: asyncio.Future[None]) -> None:
        if self._ended:
            return
        self._flowing.set()
        if self._polled:
            self._loop.add_reader(self._descriptor, self._readable)
        self._handle(b"")


def run() -> int:
    """Serve on stdin and stdout."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    reading, writing = json_rpc.take_stdio()
    waiting_delegations.watch()
    code = asyncio.run(Server().serve(reading, writing))
    sys.stderr.flush()
    return code


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    """Shut down cleanly on SIGTERM and SIGINT, if this is the main thread."""
    taken = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(RuntimeError, ValueError):  # not the main thread, or a platform without signals
            loop.add_signal_handler(number, stop)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


def watch(process: int, died: Callable[[], None]) -> Callable[[], None]:
    """Call ``died`` in the running loop when the process ends; return a function that stops watching.

    A process that does not exist here is not watched: the editor may run in another container, with other process ids.
    In that case the end of the stream ends the session.
    """
    loop = asyncio.get_running_loop()
    if not alive(process):
        return lambda: None
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(process)
        except OSError:
            pass
        else:
            loop.add_reader(descriptor, died)

            def stop() -> None:
                loop.remove_reader(descriptor)
                with contextlib.suppress(OSError):
                    os.close(descriptor)

            return stop
    task = loop.create_task(_poll(process, died))

    def end() -> None:
        task.cancel()

    return end


def alive(process: int) -> bool:
    """Return whether there is such a process."""
    if process <= 0:
        return False
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


async def _poll(process: int, died: Callable[[], None]) -> None:
    while alive(process):  # noqa: ASYNC110 - such systems have no event for it
        await asyncio.sleep(POLL_SECONDS)
    died()
