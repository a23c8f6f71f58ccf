"""Read and write a child's pipes on an event loop, with bounded memory and without blocking the child by accident."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.process.call_checks import open_log

LONGEST_PATH = 100
"""``sun_path`` holds 108 bytes on Linux and 104 on macOS, the final zero included (unix(7))."""
_LONGEST_NAME = 12
_HIGH_WATER = 256 * 1024
"""Unread bytes at which reading pauses, so that the child waits instead of our memory growing."""

_AFTER_END_SECONDS = 0.5
"""How long a pipe may stay silent after its guardian's end before it is closed: an escaped process may keep it open."""


class CappedFile:
    """A log file (mode 0600) of limited size; if it is full, its last line says so."""

    def __init__(self, path: Path, cap_bytes: int) -> None:
        """Open for appending, without following a link; raise ``state_unavailable`` if that fails."""
        self._descriptor = open_log(path)
        self._cap = cap_bytes
        self._left = cap_bytes

    def write(self, data: bytes) -> None:
        """Write what fits; a full disk ends only the log."""
        if self._left <= 0:
            return
        kept = data[: self._left]
        self._left -= len(kept)
        if len(kept) < len(data) or self._left == 0:
            self._left = 0
            kept += b"\n[understudy: output beyond %d bytes is not kept]\n" % self._cap
        try:
            os.write(self._descriptor, kept)
        except OSError:
            self._left = 0

    def close(self) -> None:
        """Close the file; may be called more than once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._left = 0


class Tail:
    """The last ``limit`` bytes of a stream, and the total number of bytes."""

    def __init__(self, limit: int) -> None:
        """Begin empty."""
        self._limit = limit
        self._kept = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Add data; memory stays below twice the limit."""
        self.total += len(data)
        self._kept += data[-self._limit :] if self._limit else b""
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def bytes(self) -> bytes:
        """Return the last bytes."""
        return bytes(self._kept[-self._limit :]) if self._limit else b""


class Output(asyncio.Protocol):
    """One output stream of a child: buffered for its reader, or drained into a bounded ``tail``."""

    def __init__(self, tail: Tail | None, file: CappedFile | None) -> None:
        """Buffer for a reader if ``tail`` is ``None``; copy everything to ``file`` if there is one."""
        self._tail = tail
        self._file = file
        self._buffer = bytearray()
        self._searched = 0
        self._transport: asyncio.ReadTransport | None = None
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._heard = 0
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the pipe."""
        if isinstance(transport, asyncio.ReadTransport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Handle what the child wrote."""
        self._heard += 1
        if self._file:
            self._file.write(data)
        if self._tail is not None:
            self._tail.add(data)
            return
        self._buffer += data
        self._wake()
        if len(self._buffer) > _HIGH_WATER and self._transport and not self._paused:
            self._transport.pause_reading()
            self._paused = True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter: it is the end
        """Note the end of the stream."""
        if self._file:
            self._file.close()
        if not self.closed.done():
            self.closed.set_result(None)
        self._wake()

    async def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes as soon as some are available; ``b""`` at the end."""
        while not self._buffer and not self.closed.done():
            await self._more()
        return self._take(min(size, len(self._buffer)))

    async def read_line(self, limit: int) -> tuple[bytes, bool] | None:
        """Return a line without its newline, and whether it had one; ``None`` at the end of the stream.

        Raises ``malformed_output`` after ``limit`` bytes without a newline.
        """
        while True:
            at = self._buffer.find(b"\n", self._searched)
            if (at if at >= 0 else len(self._buffer)) > limit:
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    f"A line of the program's output is longer than {limit} bytes.",
                    hint="The program does not write one message per line; its raw output is in the delegation's log.",
                )
            if at >= 0:
                line = self._take(at + 1)
                return line[:-1], True
            self._searched = len(self._buffer)
            if self.closed.done():
                return (self._take(len(self._buffer)), False) if self._buffer else None
            await self._more()

    def close(self) -> None:
        """Stop reading; the child's next write fails."""
        if self._transport:
            self._transport.close()

    def release(self) -> None:
        """Close from any thread; no more reads follow."""
        if not self.closed.done():
            with contextlib.suppress(RuntimeError):  # the loop is closed, and its pipes with it
                self._loop.call_soon_threadsafe(self.close)

    async def drain_and_close(self) -> None:
        """Wait for the end of the pipe, or for silence, and close it; call this after its processes have died.

        A pipe that its reader has paused is left to the reader.
        """
        heard = -1
        while not self.closed.done() and (self._paused or heard != self._heard):
            heard = self._heard
            await asyncio.wait([self.closed], timeout=_AFTER_END_SECONDS)
        self.close()

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._searched = 0
        if self._paused and len(self._buffer) <= _HIGH_WATER // 2 and self._transport:
            self._resume()
        return taken

    async def _more(self) -> None:
        if self._waiter is not None:
            raise UnderstudyError(
                ErrorKind.INTERNAL, "Two readers wait for the same stream.", hint="Report this as a bug in Understudy."
            )
        # A reader wants a line longer than the high-water mark: then its limit applies instead of the mark.
        if self._paused:
            self._resume()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _resume(self) -> None:
        self._paused = False
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Input(asyncio.BaseProtocol):
    """The child's standard input."""

    def __init__(self) -> None:
        """Begin unconnected."""
        self._transport: asyncio.WriteTransport | None = None
        self._ready = asyncio.Event()
        self._ready.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the pipe."""
        if isinstance(transport, asyncio.WriteTransport):
            self._transport = transport

    def pause_writing(self) -> None:
        """Pause writers: the child reads more slowly than we write."""
        self._ready.clear()

    def resume_writing(self) -> None:
        """Resume writers."""
        self._ready.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter: it is the end
        """Wake writers, so that they notice the end."""
        self._transport = None
        self._ready.set()

    def feed(self, data: bytes) -> None:
        """Write everything in the background; a child that never reads does not block the caller."""
        if self._transport:
            self._transport.write(data)

    async def write(self, data: bytes) -> None:
        """Write, and wait while the child is behind; raise ``tool_crashed`` if it has closed its input."""
        await self._ready.wait()
        if self._transport is None or self._transport.is_closing():
            raise UnderstudyError(
                ErrorKind.TOOL_CRASHED,
                "The program no longer reads its input.",
                hint="It has ended or closed its input; see its last output.",
            )
        self._transport.write(data)
        await self._ready.wait()

    def close(self) -> None:
        """Write the buffered data, then close, so that the child reads the end of its input."""
        if self._transport:
            self._transport.close()

    def abort(self) -> None:
        """Close at once and drop buffered data; do nothing if it is closed."""
        transport = self._transport
        # asyncio would report the end of a pipe twice, and fail the second time.
        if transport and (transport.get_write_buffer_size() or not transport.is_closing()):
            transport.abort()


def socket_folder(folder: Path) -> Path:
    """Return a private folder for sockets: ``folder``, or a new one with a shorter path where that is too long.

    The folder belongs to one run, which removes it.
    """
    if len(os.fsencode(folder)) + 1 + _LONGEST_NAME <= LONGEST_PATH:
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder
    short = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="understudy-", dir=short if len(os.fsencode(short)) < 50 else "/tmp"))  # noqa: S108 - mkdtemp makes it private
