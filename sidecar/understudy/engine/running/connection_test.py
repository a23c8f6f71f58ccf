"""Test a delegator or a model server in a short worker process, which alone reads keys and starts agents.

The agent's folder contains no file of a workspace, and the user is not asked: everything except an answer
is refused in the agent's own protocol. It costs as much as a short question.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from understudy.engine.check_setup import short_worker
from understudy.model.config.config_entries import ConnectionTestStep
from understudy.model.config.delegators import AppliesTo, Delegator, Limits, Model, ModelServer, Recipe, Scope
from understudy.model.config.tool_definitions import ToolDefinition
from understudy.model.delegation.events import AgentStarted, Event, Note, Session, UsageReport
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    from understudy.runners import runner as base

OPTION = "--connection-test"
SECONDS = 180.0
"""More than the sum of the limits of all steps; only a worker that hangs exceeds it."""
ROUND_TRIP_SECONDS = 90.0
"""A cold agent on a busy machine takes half a minute; for slower ones, the result suggests trying a small task."""
PROMPT = "Answer with the single word: ready. Use no tools and change nothing."
_SHOWN_CHARACTERS = 60
_READ_BYTES = 1 << 20
"""Bytes of the output that are compared with the rules of a definition."""
_OUTPUT = "output"


class ConnectionTestRequest(msgspec.Struct, kw_only=True):
    """The request to the worker, with everything except keys."""

    kind: Literal["round_trip", "server", "models"]
    delegator: Delegator | None = None
    model_server: ModelServer | None = None
    tool_definition: ToolDefinition | None = None


class ConnectionTestAnswer(msgspec.Struct, kw_only=True):
    """The result of the worker."""

    steps: list[ConnectionTestStep] = []
    models: list[Model] = []


def ask(request: ConnectionTestRequest, cancelled: Callable[[], bool]) -> ConnectionTestAnswer:
    """Run ``request`` in a worker. Raises its error, ``cancelled``, ``timed_out`` and ``tool_crashed``."""
    return short_worker.ask(
        OPTION,
        request,
        ConnectionTestAnswer,
        cancelled,
        what="connection test",
        seconds=SECONDS,
        hint="Try the delegator with a small task instead.",
    )


def run_worker() -> int:
    """Answer the request on standard input; return the exit code."""
    return short_worker.answer_request(ConnectionTestRequest, _answer)


def _answer(request: ConnectionTestRequest) -> ConnectionTestAnswer:
    from understudy.runners.backends import server_test
    from understudy.secrets import keys

    delegator, server = request.delegator, request.model_server
    if request.kind == "round_trip" and delegator is not None:
        return ConnectionTestAnswer(steps=round_trip(delegator, server, request.tool_definition))
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


def round_trip(
    delegator: Delegator, server: ModelServer | None, defined: ToolDefinition | None = None
) -> list[ConnectionTestStep]:
    """Ask ``delegator`` for one word and return the outcome as a step.

    For a tool that a file defines (``defined``), further steps tell what was understood of its output.
    """
    events: list[Event] = []
    with tempfile.TemporaryDirectory(prefix="understudy-trial-", ignore_cleanup_errors=True) as name:
        top = Path(name)
        asked = _ask(delegator, server, defined, top, events.append)
        if defined is None:
            return [asked]
        output = b""
        with contextlib.suppress(OSError), (top / _OUTPUT).open("rb") as file:
            output = file.read(_READ_BYTES)
    return [asked, *_understood(defined, events, output)]


def _ask(
    delegator: Delegator, server: ModelServer | None, defined: ToolDefinition | None, top: Path, emit: base.Emit
) -> ConnectionTestStep:
    from understudy.engine.running import preparation
    from understudy.git import command
    from understudy.runners import runner as base
    from understudy.runners.runner import runner_for
    from understudy.secrets import keys

    began = time.monotonic()
    try:
        runner = runner_for(delegator, server, defined)
        if "text" not in runner.capabilities.returns:
            return _step("It uses no model, so there is nothing to test.", began)
        tree = top / "tree"
        tree.mkdir()
        command.git_output("init", "--quiet", "--template=", git_dir=tree / ".git")
        prompt_file = top / "prompt.md"
        text = base.decorate(PROMPT, delegator.launch)
        prompt_file.write_text(text, encoding="utf-8")
        environment, known = preparation.resolve_environment(delegator.env or {})
        outcome = asyncio.run(
            runner.run(
                base.Task(
                    delegation_id=f"trial-{secrets.token_hex(8)}",
                    recipe=Recipe(
                        name="trial",
                        title="Trial",
                        returns="text",
                        applies_to=AppliesTo(on=[]),
                        scope=Scope.BUILTIN,
                    ),
                    prompt=text,
                    prompt_file=prompt_file,
                    worktree=tree,
                    delegator=delegator,
                    model_server=server,
                    limits=_limits(delegator.limits),
                    environment=environment,
                    stdout_log=None if defined is None else top / _OUTPUT,
                    secrets=known,
                    key=lambda: (
                        None if server is None or server.api_key is None else keys.resolve(server.api_key, os.environ)
                    ),
                ),
                emit,
            )
        )
    except UnderstudyError as error:
        return _step(_failure(error), began, ok=False)
    answer = " ".join((outcome.text or outcome.summary or "").split())
    if not answer:
        return _step("The agent finished without an answer.", began, ok=False)
    shown = answer if len(answer) <= _SHOWN_CHARACTERS else answer[: _SHOWN_CHARACTERS - 1] + "…"
    return _step(f"It replied in {time.monotonic() - began:.1f} s: “{shown}”", began)


def _limits(configured: Limits | None) -> Limits:
    limits = configured or Limits()
    seconds = min(limits.total_seconds or ROUND_TRIP_SECONDS, ROUND_TRIP_SECONDS)
    return msgspec.structs.replace(limits, total_seconds=seconds, first_event_seconds=seconds)


def _understood(defined: ToolDefinition, events: Sequence[Event], output: bytes) -> Iterator[ConnectionTestStep]:
    """Yield what the output of a tool was understood as: its events, what no rule uses, its usage, its session."""
    from understudy.runners.defined_tools.defined_tool import remarks

    kinds = Counter(str(event.__struct_config__.tag) for event in events if not isinstance(event, AgentStarted | Note))
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    notes = " ".join(event.text for event in events if isinstance(event, Note))
    yield ConnectionTestStep(
        name="events", ok=bool(kinds), message=" ".join(filter(None, (f"{counts or 'None'}.", notes))), seconds=0.0
    )
    for remark in remarks(defined, output):
        yield ConnectionTestStep(name="unused", ok=True, message=remark, seconds=0.0)
    for name, kind, expected in (
        ("usage", UsageReport, defined.reports_usage),
        ("session", Session, defined.names_session),
    ):
        matching = [event for event in events if isinstance(event, kind)]
        message = _shown(matching[-1]) if matching else "Nothing." if expected else "The definition describes none."
        # Some models do not report what they use, and not every run has a session.
        yield ConnectionTestStep(name=name, ok=True, message=message, seconds=0.0)


def _shown(event: UsageReport | Session) -> str:
    if isinstance(event, Session):
        return f"{event.session_id}."
    cost = f", {event.cost_usd} US dollars" if event.cost_usd is not None else ""
    return f"{event.input_tokens} tokens read, {event.output_tokens} written, turns: {event.turns}{cost}."


def _failure(error: UnderstudyError) -> str:
    """Return message and hint as sentences, without the lines of output that lead to an error in the first one."""
    hint = (error.hint or "").strip()
    message = str(error.message)
    first, _, rest = message.partition("\n")
    if any(line.strip() and first.endswith(line) for line in rest.splitlines()):
        message = first
    return f"{message}{'' if message.endswith(('.', '!', '?')) else '.'} {hint}" if hint else message


def _step(message: str, began: float, *, ok: bool = True) -> ConnectionTestStep:
    return ConnectionTestStep(name="round_trip", ok=ok, message=message, seconds=round(time.monotonic() - began, 3))
