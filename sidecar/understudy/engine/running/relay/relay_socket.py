"""The socket through which the MCP server of an agent calls its worker: one line of JSON each way per connection.

The folder of the socket has a random token, mode 0600, which every request repeats, and a file that names the MCP
server for agents that read one. On Linux, a request counts only from a process of this worker's agent: the kernel
names the process at the other end, and it must descend from this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import secrets
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from understudy.model.relay.relay_tools import SERVER
from understudy.model.text import foreign_json
from understudy.model.wire import ready
from understudy.process import unix_sockets
from understudy.process.guardian import lineage
from understudy.runners.runner import McpServer

SOCKET, TOKEN, CONFIG = "socket", "token", "mcp.json"
MOST_LINE_BYTES = 1 << 20
MOST_CALLS = 32
"""Calls at one time; further ones are refused."""
HELLO_SECONDS = 10.0
"""How long a connection may take to say what it wants."""
_NOT_YOURS = "These tools belong to another agent."


class Request(msgspec.Struct, rename="camel"):
    """One request: the list of tools, or a call of one."""

    token: str
    tool: str | None = None
    """None: list the tools."""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class Response(msgspec.Struct, rename="camel", omit_defaults=True):
    """The answer to a request."""

    ok: bool
    text: str = ""
    tools: list[dict[str, Any]] | None = None


class RelaySocket:
    """The socket of one run, for one event loop."""

    def __init__(self, folder: Path, answer: Callable[[Request], Awaitable[Response]]) -> None:
        """Listen in ``folder``, or in one with a shorter path; ``answer`` answers what is allowed."""
        self._wanted = folder
        self._answer = answer
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self._token = secrets.token_hex(32)
        self._calls: set[asyncio.Task[Any]] = set()

    async def open(self) -> Path:
        """Listen, unless that was done; return the folder."""
        if self._folder is not None:
            return self._folder
        folder = unix_sockets.socket_folder(self._wanted)
        place = folder / SOCKET
        place.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._take, path=str(place), limit=MOST_LINE_BYTES)
        place.chmod(0o600)
        _write_private(folder / TOKEN, self._token)
        server = self.server_in(folder)
        config = {"mcpServers": {server.name: {"command": server.argv[0], "args": server.argv[1:]}}}
        _write_private(folder / CONFIG, json.dumps(config))
        self._folder = folder
        return folder

    @staticmethod
    def server_in(folder: Path) -> McpServer:
        """Return the MCP server that calls the socket in ``folder``; -P: the worktree must not shadow a module."""
        return McpServer(name=SERVER, argv=[sys.executable, "-P", "-m", "understudy", "mcp", "--relay", str(folder)])

    async def close(self) -> None:
        """Stop listening, end the calls, and remove the folder."""
        folder, self._folder = self._folder, None
        if self._server is not None:
            self._server.close()
            self._server = None
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        if folder is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(folder)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._calls.add(task)
        try:
            response = await self._respond(reader, writer)
            if response is not None:
                writer.write(msgspec.json.encode(response) + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass  # it is gone, or this is the end
        finally:
            writer.close()
            if task is not None:
                self._calls.discard(task)

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Response | None:
        # Before anything is read: a process that has ended by then may have left its id to another one.
        if not _is_ours(writer):
            return Response(ok=False, text=_NOT_YOURS)
        if len(self._calls) > MOST_CALLS:
            return Response(ok=False, text="Too many calls at once.")
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                request = foreign_json.decode(
                    await reader.readline(), lambda data: msgspec.json.decode(data, type=ready(Request))
                )
        except (TimeoutError, ValueError, RecursionError, msgspec.MsgspecError):
            return Response(ok=False, text="Not a request.")
        if not hmac.compare_digest(request.token.encode(), self._token.encode()):
            return Response(ok=False, text=_NOT_YOURS)
        work = asyncio.ensure_future(self._answer(request))
        gone = asyncio.ensure_future(reader.read(1))  # nothing follows: this ends when the caller does
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            for unneeded in (work, gone):
                unneeded.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Return whether the process at the other end descends from this one; true where the kernel does not tell."""
    pid = unix_sockets.peer_pid(writer.get_extra_info("socket"))
    return pid is None or lineage.is_below(pid, os.getpid())


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
