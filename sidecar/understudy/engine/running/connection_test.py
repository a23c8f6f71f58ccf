"""Test a delegator or a model server in a short worker process, which alone reads keys and starts agents."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import msgspec

from understudy.engine.short_workers import short_worker
from understudy.model.config.config_entries import ConnectionTestStep
from understudy.model.config.delegators import Delegator, Model, ModelServer
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError

OPTION = "--connection-test"
SECONDS = 180.0
"""More than the sum of the limits of all steps; only a worker that hangs exceeds it."""


class ConnectionTestRequest(msgspec.Struct, kw_only=True):
    """The request to the worker, with everything except keys."""

    kind: Literal["round_trip", "server", "models"]
    delegator: Delegator | None = None
    model_server: ModelServer | None = None
    tool_definition: ToolDefinition | None = None


class ConnectionTestAnswer(msgspec.Struct, kw_only=True):
    """The result of the worker, or its error."""

    steps: list[ConnectionTestStep] = []
    models: list[Model] = []
    error: ErrorInfo | None = None


def ask(request: ConnectionTestRequest, cancelled: Callable[[], bool]) -> ConnectionTestAnswer:
    """Run ``request`` in a worker. Raises its error, ``cancelled``, ``timed_out`` and ``tool_crashed``."""
    answer = short_worker.ask(
        OPTION,
        request,
        ConnectionTestAnswer,
        cancelled,
        what="connection test",
        seconds=SECONDS,
        hint="Try the delegator with a small task instead.",
    )
    if answer.error is not None:
        raise UnderstudyError.from_info(answer.error)
    return answer


def run_worker() -> int:
    """Answer the request on standard input; return the exit code."""
    return short_worker.answer_request(_served)


def _served(data: bytes) -> ConnectionTestAnswer:
    try:
        return _answer(msgspec.json.decode(data, type=ConnectionTestRequest))
    except UnderstudyError as error:
        return ConnectionTestAnswer(error=error.info())


def _answer(request: ConnectionTestRequest) -> ConnectionTestAnswer:
    from understudy.engine.running import agent_test
    from understudy.runners.backends import server_test
    from understudy.secrets import keys

    delegator, server = request.delegator, request.model_server
    if request.kind == "round_trip" and delegator is not None:
        return ConnectionTestAnswer(steps=agent_test.round_trip(delegator, server, request.tool_definition))
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
        return ConnectionTestAnswer(models=server_test.list_models(server, key=lambda: key))
    probed = server_test.probe(
        server,
        model=(delegator.model or None) if delegator is not None else None,
        delegator=delegator,
        key=lambda: key,
        round_trip=delegator is not None,
    )
    return ConnectionTestAnswer(steps=probed.steps)
