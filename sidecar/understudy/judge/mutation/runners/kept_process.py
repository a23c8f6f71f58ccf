"""Keep a program running that runs tests each time it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from understudy.model.errors import UnderstudyError
from understudy.process.program_spec import Program
from understudy.process.programs.children import Child, start

_MOST_LINE_BYTES = 16 * 1024 * 1024


class KeptProcess:
    """One process of a program that reads requests, each a JSON object on a line, and prints the word of each.

    It is started by ``start``, or when it is first needed.
    """

    def __init__(self, program: Program, first: Mapping[str, Any] | None = None) -> None:
        """Start nothing yet; ``first`` is a message before the first request."""
        self._program = msgspec.structs.replace(program, keep_stdin=True)
        self._first = first
        self._child: Child | None = None
        self.exceeded = False
        """Whether it was ended because it exceeded a limit."""

    async def start(self) -> None:
        """Start the process before the first request; if that is not possible, the first request fails."""
        with contextlib.suppress(UnderstudyError):
            await self._start()

    async def ask(self, request: Mapping[str, Any], seconds: float) -> bool:
        """Send a request; return whether it was done within ``seconds``. If not, the process is ended.

        The next request starts another one.
        """
        word = secrets.token_hex(12)
        try:
            async with asyncio.timeout(seconds):
                child = self._child or await self._start()
                await self._send(child, {**request, "word": word})
                async for line in child.stdout_lines(_MOST_LINE_BYTES):
                    if line.strip() == word.encode():
                        return True
        except (TimeoutError, UnderstudyError):
            pass
        except BaseException:
            await self.close()
            raise
        await self.close()
        return False

    @property
    def running(self) -> bool:
        """Return whether the process is there for the next request."""
        return self._child is not None

    async def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            try:
                await child.end(0)
                self.exceeded = child.limit_error() is not None
            finally:
                child.close()

    async def _start(self) -> Child:
        self._child = await start(self._program)
        if self._first is not None:
            await self._send(self._child, self._first)
        return self._child

    @staticmethod
    async def _send(child: Child, message: Mapping[str, Any]) -> None:
        assert child.stdin is not None  # noqa: S101 - started with keep_stdin
        await child.stdin.write(json.dumps(message).encode() + b"\n")
