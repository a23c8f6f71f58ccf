"""The owner's side of a pane: wait for the program in it, show bytes, hear what the user types.

async with PaneSocket(folder) as waiting:
    argv = waiting.argv()               # what the pane runs
    link = await waiting.connected(10)
    await link.show(b"…")
    async for heard in link.heard(): …  # bytes that were typed, or a new size; ends when the pane is gone
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready
from understudy.process import identity

MOST_FRAME_BYTES = 64 * 1024
_TERM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_PROGRAM = Path(__file__).with_name("pane_program.py")


class Size(msgspec.Struct, frozen=True):
    """The size of a terminal in characters."""

    rows: int
    columns: int


class _Hello(msgspec.Struct):
    pid: int
    term: str
    rows: int
    columns: int


class PaneLink:
    """The connection to the program in a pane."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: _Hello) -> None:
        """Take a connection on which the program has said hello."""
        self._reader = reader
        self._writer = writer
        self._program = identity.of(hello.pid)
        self.term = hello.term if _TERM.fullmatch(hello.term) else "screen"
        """The type of the pane's terminal, for ``TERM``."""
        self.size = _bounded(hello.rows, hello.columns)

    async def show(self, data: bytes) -> None:
        """Show ``data``; wait while the pane is behind. A pane that is gone shows nothing."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def heard(self) -> AsyncIterator[bytes | Size]:
        """Yield what was typed and new sizes until the pane is gone."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await self._reader.readexactly(5)
                length = int.from_bytes(head[1:], "big")
                if length > MOST_FRAME_BYTES:
                    return
                data = await self._reader.readexactly(length)
                if head[:1] == b"I":
                    yield data
                elif head[:1] == b"S" and length == 4:
                    self.size = _bounded(*struct.unpack("!HH", data))
                    yield self.size

    def drop(self) -> None:
        """Close the pane without waiting for it."""
        self._writer.close()

    async def close(self, seconds: float) -> None:
        """Close the pane: its program ends by itself, or is killed after ``seconds``."""
        self._writer.close()
        deadline = asyncio.get_running_loop().time() + seconds
        while self._program is not None and identity.alive(self._program):
            if asyncio.get_running_loop().time() >= deadline:
                identity.end(self._program)
                return
            await asyncio.sleep(0.01)


class PaneSocket:
    """Waits for the program in a pane."""

    def __init__(self, folder: Path) -> None:
        """Prepare a socket in ``folder``, which only this user can enter."""
        self._path = folder / "pane.sock"
        self._server: asyncio.Server | None = None
        self._first: asyncio.Future[PaneLink] = asyncio.get_running_loop().create_future()

    def argv(self) -> list[str]:
        """Return the command that a pane must run."""
        return [sys.executable, "-I", "-S", str(_PROGRAM), str(self._path)]

    async def connected(self, seconds: float) -> PaneLink:
        """Wait for the program; raise ``tool_crashed`` if it does not come in time."""
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._first)
        except TimeoutError:
            raise UnderstudyError(
                ErrorKind.TOOL_CRASHED,
                f"tmux opened a pane, but nothing came from it within {seconds:g} s.",
                hint="It was closed at once, or the machine is very busy. Try again.",
            ) from None

    async def __aenter__(self) -> Self:
        """Listen."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._take, path=str(self._path), limit=MOST_FRAME_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening; a connection that was made stays open, unless an error kept it from being used."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)
        if kind is not None and self._first.done() and not self._first.cancelled():
            self._first.result().drop()
        self._first.cancel()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hello = msgspec.json.decode(await reader.readline(), type=ready(_Hello))
        except (msgspec.MsgspecError, ValueError, ConnectionError):
            writer.close()
            return
        # Its process is killed in the end, so it must be the one that says so, where the kernel knows.
        if self._first.done() or identity.peer_pid(writer.get_extra_info("socket")) not in {hello.pid, None}:
            writer.close()
            return
        self._first.set_result(PaneLink(reader, writer, hello))


def _bounded(rows: int, columns: int) -> Size:
    return Size(rows=min(max(rows, 2), 1000), columns=min(max(columns, 10), 2000))
