"""Answer a client's first request before the official SDK is imported, which takes most of the time of a start.

A client that starts a server waits for this answer, and some begin without the server's tools if it takes long. The
SDK gets the request afterwards, like any other, and its own answer, which is the same, is left out. If the SDK refuses
the request, the server ends: its client was told that it may go on, and the SDK would refuse all that follows.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, BinaryIO

import msgspec

from understudy import __version__
from understudy.model.text import foreign_json
from understudy.model.wire import ready

INSTRUCTIONS = (
    "Understudy gives work to cheaper agents and models, each in its own worktree, and verifies the results. "
    "The user's files change only when a result is accepted."
)

VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
"""Versions of the protocol in which ``initialize`` is answered like this; the SDK answers in all others."""


class _Client(msgspec.Struct):
    name: str
    version: str


class _Params(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: dict[str, dict[str, Any]]
    client_info: _Client


class _Request(msgspec.Struct):
    jsonrpc: str
    id: int | str
    method: str
    params: _Params


@dataclass
class Wire:
    """Standard input and output of the server, after the first line."""

    reader: BinaryIO
    writer: BinaryIO
    first: bytes
    """The first line, which the SDK gets, too."""
    answered: int | str | None
    """The ID of the request in it, if it has been answered."""

    async def lines(self) -> AsyncIterator[str]:
        """Yield all lines, the first included."""
        import anyio

        yield self.first.decode("utf-8", "replace")
        async for line in anyio.wrap_file(TextIOWrapper(self.reader, encoding="utf-8", errors="replace")):
            yield line

    async def write(self, text: str) -> None:
        """Write a line, unless it answers the request that has been answered; end the process if it refuses that."""
        import anyio.to_thread

        answer = {} if self.answered is None else msgspec.json.decode(text)
        if self.answered is not None and answer.get("id") == self.answered:
            self.answered = None
            if "error" in answer:
                reason = answer["error"].get("message")
                sys.stderr.write(f"understudy mcp: The client's `initialize` request is invalid: {reason}.\n")
                sys.stderr.flush()
                os._exit(1)  # a thread waits for the client's next line, and nothing can interrupt it
            return
        await anyio.to_thread.run_sync(self.writer.write, text.encode())

    async def flush(self) -> None:
        """Send what was written."""
        import anyio.to_thread

        await anyio.to_thread.run_sync(self.writer.flush)


def exchanged() -> Wire | None:
    """Read the first line from standard input, and answer it; None if there is none.

    From then on, nothing else in this process reads or writes what the client does.
    """
    reader = os.fdopen(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), "rb")
    writer = os.fdopen(fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    line = reader.readline()
    if not line:
        return None
    answered = of(line)
    if answered is not None:
        writer.write(answered[1])
        writer.flush()
    return Wire(reader, writer, line, answered and answered[0])


def of(line: bytes) -> tuple[int | str, bytes] | None:
    """Return the ID of an ``initialize`` request and the line that answers it; None for any other line."""
    try:
        request = foreign_json.decode(line, lambda data: msgspec.json.decode(data, type=ready(_Request)))
    except foreign_json.UNREADABLE:
        return None
    version = request.params.protocol_version
    if (request.jsonrpc, request.method) != ("2.0", "initialize") or version not in VERSIONS:
        return None
    result = {
        "capabilities": {
            "resources": {"listChanged": False, "subscribe": False},
            "tools": {"listChanged": False},
        },
        "instructions": INSTRUCTIONS,
        "protocolVersion": version,
        "serverInfo": {"name": "understudy", "title": "Understudy", "version": __version__},
    }
    return request.id, msgspec.json.encode({"jsonrpc": "2.0", "id": request.id, "result": result}) + b"\n"
