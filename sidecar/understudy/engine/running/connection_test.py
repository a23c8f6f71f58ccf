"""Test a delegator or a model server in a short worker process (``understudy worker --connection-test``).

Only that process reads keys, starts agents and sends requests: a process that serves clients has no keys and starts no
agents. The worker reads the request from standard input and prints the answer as one line of JSON. It ends when the
requesting process ends.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from understudy.model.config.config_entries import ConnectionTestStep
from understudy.model.config.delegators import Delegator, Model, ModelServer
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.wire import ready
from understudy.process import children

SECONDS = 180.0
"""More than the sum of the limits of all steps; only a worker that hangs exceeds it."""
MAX_BYTES = 4 * 1024 * 1024
"""The size of a request or an answer: a server may list thousands of models."""
_POLL_SECONDS = 0.2
"""How often to check whether the client still waits."""


class ConnectionTestRequest(msgspec.Struct, kw_only=True):
    """The request to the worker, with everything except keys."""

    kind: Literal["round_trip", "server", "models"]
    delegator: Delegator | None = None
    model_server: ModelServer | None = None


class ConnectionTestAnswer(msgspec.Struct, kw_only=True):
    """The result of the worker, or its error."""

    steps: list[ConnectionTestStep] = []
    models: list[Model] = []
    error: ErrorInfo | None = None


def ask(request: ConnectionTestRequest, cancelled: Callable[[], bool]) -> ConnectionTestAnswer:
    """Run ``request`` in a worker. Raises its error, ``cancelled``, ``timed_out`` and ``tool_crashed``."""
    answer = asyncio.run(_ask(request, cancelled))
    if answer.error is not None:
        raise UnderstudyError.from_info(answer.error)
    return answer


async def _ask(request: ConnectionTestRequest, cancelled: Callable[[], bool]) -> ConnectionTestAnswer:
    running = asyncio.ensure_future(
        children.run(
            [sys.executable, "-P", "-m", "understudy", "worker", "--connection-test"],
            cwd=Path("/"),
            # The worker is Understudy itself: it needs the whole environment to resolve keys by name.
            env=dict(os.environ),
            mark=f"test-{secrets.token_hex(8)}",
            stdin=msgspec.json.encode(request),
            timeout_seconds=SECONDS,
            output_limit=MAX_BYTES,
        )
    )
    try:
        while not running.done():
            await asyncio.wait([running], timeout=_POLL_SECONDS)
            if not running.done() and cancelled():
                raise UnderstudyError(ErrorKind.CANCELLED, "The connection test was cancelled.")
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
    done = running.result()
    if done.timed_out:
        raise UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"The connection test was still running after {SECONDS:g} s.",
            hint="Try the delegator with a small task instead.",
        )
    try:
        return msgspec.json.decode(done.stdout, type=ready(ConnectionTestAnswer))
    except msgspec.MsgspecError:
        tail = done.stderr[-400:].decode("utf-8", "replace").strip()
        raise UnderstudyError(
            ErrorKind.TOOL_CRASHED,
            f"The worker of the connection test exited with code {done.code}: {tail}",
            hint="Try again. If it happens every time, please report it.",
        ) from None


def serve() -> int:
    """Answer the request on standard input; return the exit code."""
    data = sys.stdin.buffer.read(MAX_BYTES)
    # Output of libraries must not end up in the answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        answer = _answer(msgspec.json.decode(data, type=ConnectionTestRequest))
    except UnderstudyError as error:
        answer = ConnectionTestAnswer(error=error.info())
    with os.fdopen(answers, "wb") as output:
        output.write(msgspec.json.encode(answer))
    return 0


def _answer(request: ConnectionTestRequest) -> ConnectionTestAnswer:
    from understudy.engine.running import agent_test
    from understudy.runners.backends import server_test
    from understudy.secrets import keys

    delegator, server = request.delegator, request.model_server
    if request.kind == "round_trip" and delegator is not None:
        return ConnectionTestAnswer(steps=[agent_test.round_trip(delegator, server)])
    if server is None:
        raise UnderstudyError(ErrorKind.INVALID_PARAMS, "The request names no model server.")
    try:
        key = None if server.api_key is None else keys.resolve(server.api_key, os.environ)
    except UnderstudyError as error:
        if request.kind == "models":
            raise
        return ConnectionTestAnswer(
            steps=[ConnectionTestStep(name="key", ok=False, message=error.message, seconds=0.0)]
        )
    if request.kind == "models":
        return ConnectionTestAnswer(models=asyncio.run(server_test.list_models(server, key=lambda: key)))
    found = asyncio.run(
        server_test.probe(
            server,
            model=(delegator.model or None) if delegator is not None else None,
            delegator=delegator,
            key=lambda: key,
            round_trip=delegator is not None,
        )
    )
    return ConnectionTestAnswer(steps=found.steps)
