"""Messages of one client for the SDK's connection, with bounds: each request that arrives is answered exactly once.

The SDK's own transport reads lines of any length, drops what is not JSON, and its connection ends on a response that it
does not expect. Here, every malformed message is answered or dropped before the connection sees it.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import Any

from acp.meta import AGENT_METHODS

from understudy.api import error_answers
from understudy.api.serving.thread_pool import ThreadPool, settle
from understudy.frontends import json_lines, json_rpc

LONGEST_MESSAGE = 16 * 1024 * 1024
"""Bytes; editors embed whole files in a prompt."""
MOST_IN_FLIGHT = 100
FINISH_SECONDS = 10.0
"""How long requests other than prompts may finish after the end of the stream."""
_READ_BYTES = 65_536
_READ_AHEAD = 64
"""Chunks that are read before the connection takes them."""
_LONGEST_DATA = 20_000
"""Characters of the details of an error."""


class MessageTransport:
    """``acp._transport.Transport`` over two file descriptors, which are read and written by threads."""

    def __init__(self, reading: int, writing: int) -> None:
        """Start reading; must be called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._writing = writing
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(_READ_AHEAD)
        self._messages: list[dict[str, Any]] = []
        self._lines = json_lines.Lines(LONGEST_MESSAGE)
        self._writer = ThreadPool(1)
        self._in_flight: list[tuple[Any, str]] = []
        self._answered = asyncio.Event()
        self._ended = False
        self.broken = False
        """Whether the client no longer reads."""
        threading.Thread(target=self._read, args=(reading,), name="client", daemon=True).start()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message that the connection can handle, None after the last one."""
        while not self._messages:
            if self._ended or self.broken:
                await self._finish()
                return None
            chunk = await self._chunks.get()
            self._ended = not chunk
            for line in self._lines.feed(chunk) if chunk else self._lines.end():
                await self._take(line)
        return self._messages.pop(0)

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; raise ``ConnectionError`` if the client is gone."""
        line = _line_of(message)
        future: asyncio.Future[None] = self._loop.create_future()
        # Queued before the first await, so that messages leave in the order of the calls.
        self._writer.submit(lambda: self._write(line, future))
        await future
        if "method" not in message:
            self._forget(message.get("id"))

    async def close(self) -> None:
        """Send nothing more."""
        self.broken = True
        self._writer.close()

    def _read(self, reading: int) -> None:
        while True:
            try:
                chunk = os.read(reading, _READ_BYTES)
            except OSError:
                chunk = b""
            try:
                asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop).result()
            except RuntimeError:
                return  # the loop has ended
            if not chunk:
                return

    def _write(self, line: bytes, future: asyncio.Future[None]) -> None:
        error: ConnectionError | None = None
        left = memoryview(line)
        while left and error is None:
            try:
                left = left[os.write(self._writing, left) :]
            except OSError as why:
                self.broken = True
                error = ConnectionError(f"The client is gone: {why.strerror}.")
        settle(self._loop, future, None, error)

    async def _take(self, line: bytes | None) -> None:
        """Keep a message for the connection, or answer it."""
        if line is None:
            await self._refuse(None, error_answers.PARSE_ERROR, f"A message may have {LONGEST_MESSAGE} bytes at most.")
            return
        if not line.strip():
            return
        try:
            message = json_lines.parse(line)
        except json_lines.Malformed as why:
            await self._refuse(None, error_answers.PARSE_ERROR, f"This is not JSON: {why}.")
            return
        if not isinstance(message, dict):
            await self._refuse(None, error_answers.INVALID_REQUEST, "A message must be one JSON object.")
        elif "method" not in message:
            await self._take_response(message)
        elif "id" not in message:
            if isinstance(message["method"], str):
                self._messages.append(message)
        elif not json_rpc.is_strict_id(message["id"]) or not isinstance(message["method"], str):
            reason = "A request needs a method, and an id that is a string or an integer."
            identifier = message["id"] if json_rpc.is_strict_id(message["id"]) else None
            await self._refuse(identifier, error_answers.INVALID_REQUEST, reason)
        elif len(self._in_flight) >= MOST_IN_FLIGHT:
            reason = f"Too many requests in flight (limit {MOST_IN_FLIGHT}). Wait until some of them are answered."
            await self._refuse(message["id"], error_answers.UNDERSTUDY_ERROR, reason)
        else:
            self._in_flight.append((message["id"], message["method"]))
            self._messages.append(message)

    async def _take_response(self, message: dict[str, Any]) -> None:
        """Keep the client's answer to a request of this agent; one that is malformed becomes an error."""
        identifier = message.get("id")
        if isinstance(identifier, bool) or not isinstance(identifier, int):
            if "id" in message and "result" not in message and "error" not in message:
                await self._refuse(
                    identifier if json_rpc.is_strict_id(identifier) else None,
                    error_answers.INVALID_REQUEST,
                    "No method.",
                )
            return
        if "error" in message and "result" not in message and not isinstance(message["error"], dict):
            message = {"id": identifier, "error": {"code": error_answers.INVALID_REQUEST, "message": "malformed"}}
        self._messages.append(message)

    async def _refuse(self, identifier: Any, code: int, why: str) -> None:
        try:
            await self.send(json_rpc.error(identifier, code, why))
        except ConnectionError:
            return

    def _forget(self, identifier: Any) -> None:
        for number, (request_id, _) in enumerate(self._in_flight):
            if request_id == identifier and type(request_id) is type(identifier):
                del self._in_flight[number]
                self._answered.set()
                return

    async def _finish(self) -> None:
        """Wait until requests are answered that were made before the stream ended, but not for prompts."""
        deadline = self._loop.time() + FINISH_SECONDS
        while not self.broken and any(method != AGENT_METHODS["session_prompt"] for _, method in self._in_flight):
            self._answered.clear()
            try:
                await asyncio.wait_for(self._answered.wait(), deadline - self._loop.time())
            except TimeoutError:
                return


def _line_of(message: dict[str, Any]) -> bytes:
    """Return a message as a line; what pydantic reports about invalid parameters need not be JSON, or short."""
    error = message.get("error")
    if isinstance(error, dict) and isinstance(error.get("data"), dict) and "errors" in error["data"]:
        errors = error["data"]["errors"]
        details = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in errors[:20]]
        message = {**message, "error": {**error, "data": {"errors": [text[:200] for text in details]}}}
    elif isinstance(error, dict) and len(json.dumps(error.get("data"), default=str)) > _LONGEST_DATA:
        message = {**message, "error": {**error, "data": None}}
    return json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
