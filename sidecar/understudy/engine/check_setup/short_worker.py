"""Ask a short worker process (``understudy worker --<option>``) one question, and answer as one.

Only that process reads keys, starts agents and runs programs of a project: a process that serves clients does not. The
worker reads the request from standard input and prints the answer as one line of JSON. It ends when the requesting
process ends.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.wire import ready
from understudy.process.program_spec import OWN, Program
from understudy.process.programs import children

MAX_BYTES = 4 * 1024 * 1024
"""The size of a request or an answer: a server may list thousands of models."""
_POLL_SECONDS = 0.2
"""How often to check whether the client still waits."""
_Request = TypeVar("_Request", bound=msgspec.Struct)
_Answer = TypeVar("_Answer", bound=msgspec.Struct)


class _Reply(msgspec.Struct):
    """The answer of the worker, or its error."""

    answer: msgspec.Raw = msgspec.Raw(b"null")
    error: ErrorInfo | None = None


def ask(
    option: str,
    request: msgspec.Struct,
    answer: type[_Answer],
    cancelled: Callable[[], bool],
    *,
    what: str,
    seconds: float,
    hint: str,
) -> _Answer:
    """Run ``request`` in a worker, for at most ``seconds``; ``what`` names it, and ``hint`` helps after a timeout.

    Errors: those of the worker, ``cancelled``, ``timed_out``, ``tool_crashed``.
    """
    completed = asyncio.run(_run(option, msgspec.json.encode(request), cancelled, seconds))
    if completed is None:
        raise UnderstudyError(ErrorKind.CANCELLED, f"The {what} was cancelled.")
    if completed.limit_error is not None:
        raise completed.limit_error
    if completed.timed_out:
        raise UnderstudyError(ErrorKind.TIMED_OUT, f"The {what} was still running after {seconds:g} s.", hint=hint)
    try:
        reply = msgspec.json.decode(completed.stdout, type=ready(_Reply))
        if reply.error is not None:
            raise UnderstudyError.from_info(reply.error)
        return msgspec.json.decode(reply.answer, type=ready(answer))
    except msgspec.MsgspecError:
        tail = completed.stderr[-400:].decode("utf-8", "replace").strip()
        raise UnderstudyError(
            ErrorKind.TOOL_CRASHED,
            f"The worker of the {what} exited with code {completed.code}: {tail}",
            hint="Try again. If it happens every time, please report it.",
        ) from None


async def _run(option: str, request: bytes, cancelled: Callable[[], bool], seconds: float) -> children.Completed | None:
    """Return how the worker ended; None if it was cancelled."""
    running = asyncio.ensure_future(
        children.run(
            Program(
                [sys.executable, "-P", "-m", "understudy", "worker", option],
                Path("/"),
                # The worker is Understudy itself: it needs the whole environment to resolve keys by name.
                dict(os.environ),
                OWN,
                mark=f"test-{secrets.token_hex(8)}",
                stdin=request,
            ),
            timeout_seconds=seconds,
            output_limit=MAX_BYTES,
        )
    )
    try:
        while not running.done():
            await asyncio.wait([running], timeout=_POLL_SECONDS)
            if not running.done() and cancelled():
                return None
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
    return running.result()


def answer_request(request: type[_Request], answer: Callable[[_Request], msgspec.Struct]) -> int:
    """Print what ``answer`` returns for the request on standard input, or its error; return the exit code."""
    data = sys.stdin.buffer.read(MAX_BYTES)
    # Output of libraries must not end up in the answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        reply = _Reply(msgspec.Raw(msgspec.json.encode(answer(msgspec.json.decode(data, type=ready(request))))))
    except UnderstudyError as error:
        reply = _Reply(error=error.info())
    with os.fdopen(answers, "wb") as output:
        output.write(msgspec.json.encode(reply))
    return 0
