"""What one attempt has reported so far: its limits, budget, cost, redaction and bounds, and how it ended.

``driver`` reads the sources of agents in an event loop, ``backends.direct`` a model server in a thread that waits.
Nothing here waits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from understudy.config.discovery import declarations
from understudy.model import wire
from understudy.model.capabilities import Capabilities, CostAddress
from understudy.model.delegation.delegations import Usage, no_usage
from understudy.model.delegation.events import (
    AgentStarted,
    Event,
    Note,
    Plan,
    Session,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UsageReport,
)
from understudy.model.errors import ErrorInfo, ErrorKind, UnderstudyError
from understudy.model.text.sanitize import strip_controls, strip_controls_json
from understudy.policy.budget import COST, Budget, Spending, estimate_tokens, estimate_tokens_of, priced
from understudy.runners.driver.source import AgentFinished, Heartbeat, Retrying, SourceItem, Unrecognized
from understudy.runners.runner import AFTER_RESULT_SECONDS, Emit, Outcome, Task
from understudy.secrets import Redactor, keys

MAX_EMITTED_CHARACTERS = 64 << 20
"""Characters of one attempt; the rest is only counted, because journals are kept for a long time."""
MAX_TEXT_CHARACTERS = 8 << 20
"""Characters of an answer."""
_OUTPUT_CHARACTERS = 64 << 10
"""Characters of one tool result."""
_SHOWN_NOISE = 200
_MESSAGE_CHARACTERS = 2000
_LOGGED = frozenset(
    {
        *(ErrorKind.TOOL_CRASHED, ErrorKind.TOOL_NO_RESULT, ErrorKind.MALFORMED_OUTPUT, ErrorKind.EMPTY_OUTPUT),
        *(ErrorKind.TIMED_OUT, ErrorKind.STALLED, ErrorKind.STREAM_TRUNCATED, ErrorKind.BAD_REQUEST),
    }
)

"""Failures that the program's own output can explain."""


def add_key_or_logs(error: UnderstudyError, task: Task) -> None:
    """Name in the hint the key that was refused; attach the logs of a program that failed."""
    if error.kind is ErrorKind.AUTH_FAILED and task.model_server is not None:
        error.hint = keys.how_to_correct(task.model_server)
    logs = [path for path in (task.stderr_log, task.stdout_log) if path is not None and path.is_file()]
    written = [str(path) for path in logs if path.stat().st_size]
    if error.kind in _LOGGED and written:
        error.log_paths = written


class Limit(Protocol):
    """The time of ``time.monotonic`` at which the next sign of work is too late; ``asyncio.Timeout`` is one."""

    def when(self) -> float | None:
        """Return it; None: never."""
        ...

    def reschedule(self, when: float | None) -> None:
        """Move it."""
        ...


class Attempt:
    """The state of one attempt: what its source has reported so far."""

    def __init__(self, task: Task, emit: Emit, subject: str, redactor: Redactor) -> None:
        """Begin it; ``subject`` and ``redactor`` are those of its source."""
        self._task = task
        self._emit_event = emit
        self._subject = subject
        self._redactor = redactor
        limits = task.limits
        self._first = limits.first_event_seconds or task.patience.first_event_seconds
        self._idle = limits.idle_seconds or task.patience.idle_seconds
        self._after_result = limits.after_result_seconds or AFTER_RESULT_SECONDS
        self._answer = redactor.text_stream()
        self._thought = redactor.text_stream()
        self._parts: list[str] = []
        self._text_characters = 0
        self._characters = 0
        """Characters of text and reasoning, to estimate the usage."""
        self._emitted = 0
        self._finished: AgentFinished | None = None
        self._retried: ErrorInfo | None = None
        """The failed request that the agent tries again, while nothing follows."""
        self._usage: UsageReport | None = None
        self._session: str | None = None
        self._calls = 0
        self._items = 0
        """Signs of work since the source started or restarted."""
        self._noise = 0
        self._first_noise = ""
        self._limit: Limit | None = None
        """None: its time is up, and nothing may extend it."""

    def take(self, item: SourceItem) -> None:
        """Take one item of the source; raise when the budget is exhausted."""
        if self._finished is not None:
            self._take_late(item)
            return
        grace = 0.0
        self._retried = item.failure if isinstance(item, Heartbeat) else None
        match item:
            case AgentStarted():  # Understudy's own event, not a sign of work
                self.take_event(item)
                return
            case Event():
                self.take_event(item)
            case AgentFinished():
                self._finished = item
            case Heartbeat():
                grace = item.grace_seconds
            case Retrying():
                self._items = 0
                self._move_limit(item.after_seconds + self._first)
                return
            case Unrecognized():
                self._take_noise(item)
                return
        self._items += 1
        self._restart_limit(grace)

    def _take_late(self, item: SourceItem) -> None:
        """Take what follows a result: events, and another result. Only these are signs of work now."""
        assert self._finished is not None  # noqa: S101 - the caller has asked
        if isinstance(item, AgentFinished):
            if self._finished.error is not None:
                return
            self._finished = item
        elif isinstance(item, Event):
            self.take_event(item)
        else:
            return
        self._restart_limit()

    def _restart_limit(self, grace: float = 0.0) -> None:
        if self._finished is not None:
            self._move_limit(self._after_result)
        else:
            self._move_limit(None if self._waits_for_user() else max(self._idle, grace))

    def _waits_for_user(self) -> bool:
        """Return whether the agent waits for the user, who may think until the question's own deadline."""
        return False

    def _move_limit(self, seconds: float | None) -> None:
        if self._limit is not None:
            self._limit.reschedule(None if seconds is None else time.monotonic() + seconds)

    # -- what is passed on -----------------------------------------------------------------------------------

    def _take_noise(self, item: Unrecognized) -> None:
        self._noise += 1
        if self._noise == 1:
            self._first_noise = shown = self._clean_text(item.text)[:_SHOWN_NOISE]
            self._emit(Note(level="info", text=f"Output that is not an event is kept in the log only: {shown}"))

    def take_event(self, event: Event) -> None:
        """Clean an event, count it, check the budget and pass it on."""
        if isinstance(event, Text | Thinking):
            self._characters += len(event.text)
            if isinstance(event, Text):
                self._say(self._answer.feed(event.text))
            else:
                self._think(self._thought.feed(event.text))
            self._check_estimate()
            return
        if isinstance(event, Note) and event.begins_again:
            self._forget_answer()
        self.report(event)
        if isinstance(event, UsageReport) and (used := self._usage) is not None:
            self._charge(Spending.of(used, used.cost_usd))

    def _forget_answer(self) -> None:
        """Pass on what was held back, and let none of it be part of the answer."""
        self.flush()
        self._parts, self._text_characters = [], 0

    def report(self, event: Event) -> None:
        """Clean an event and pass it on."""
        if isinstance(event, ToolResult) and len(event.output) > _OUTPUT_CHARACTERS:
            kept = event.output[:_OUTPUT_CHARACTERS]
            event.truncated_bytes = _utf8_bytes(event.output) - _utf8_bytes(kept)
            event.output = kept
        elif isinstance(event, ToolCall):
            self._calls += 1
        elif isinstance(event, Session):
            self._session = strip_controls(event.session_id)[:256]
        elif isinstance(event, UsageReport):
            event = self._usage = with_cost(event, self._task)
        self._emit(_clean(event, self._redactor))

    def _check_estimate(self) -> None:
        """Check an estimate against ``maxTokens`` while the source has not reported its usage."""
        limit = self._task.limits.max_tokens
        if limit is None or self._usage is not None:
            return
        self._charge(Spending(tokens=estimate_tokens(self._task.prompt) + estimate_tokens_of(self._characters)))

    def _charge(self, spending: Spending) -> None:
        """Raise ``budget_exhausted`` if the attempt has spent more than it may."""
        over = Budget(self._task.limits).charge(spending).exceeded()
        if over is not None:
            name = wire.camel(over.limit)
            reached = f"{over.spent} USD" if over.limit == COST else over.spent
            raise UnderstudyError(
                ErrorKind.BUDGET_EXHAUSTED,
                f"The attempt was stopped at {reached}: its limit `{name}` is {over.most}.",
                hint=f"Raise `{name}` in the delegator's limits, or delegate a smaller piece.",
            )

    def _say(self, text: str) -> None:
        if text:
            self._text_characters += len(text)
            if self._text_characters <= MAX_TEXT_CHARACTERS:
                self._parts.append(text)
            self._emit(Text(text=strip_controls(text)), len(text))

    def _think(self, text: str) -> None:
        if text:
            self._emit(Thinking(text=strip_controls(text)), len(text))

    def flush(self) -> None:
        """Pass on what was held back because it could have been the beginning of a secret."""
        self._think(self._thought.finish())
        self._say(self._answer.finish())

    def _emit(self, event: Event, characters: int = 0) -> None:
        if isinstance(event, ToolCall | ToolResult | Plan):
            characters = len(wire.encode(event))
        before = self._emitted
        self._emitted += characters
        if characters == 0 or self._emitted <= MAX_EMITTED_CHARACTERS:
            self._emit_event(event)
        elif before <= MAX_EMITTED_CHARACTERS:
            text = f"The agent's output exceeds {MAX_EMITTED_CHARACTERS} characters; the rest is not kept."
            self._emit_event(Note(level="warning", text=text))

    def _clean_text(self, text: str) -> str:
        # A key that contains an escape sequence is found only without it.
        return self._redactor.redact(strip_controls(self._redactor.redact(text)))

    # -- how it ended ----------------------------------------------------------------------------------------

    def outcome(self) -> Outcome:
        """Return the outcome; raise if there is none that can be used."""
        returns, who = self._task.recipe.returns, self._subject
        if self._finished is None:
            raise UnderstudyError(
                ErrorKind.TOOL_NO_RESULT,
                f"{who} exited without announcing a result.{self._unread()}",
                hint="Retry. If it happens again, run the agent in a terminal to see why.",
            )
        finished = self._finished
        text = self._redactor.redact(finished.text) if finished.text is not None else "".join(self._parts)
        if returns != "tree":
            if not text.strip():
                raise UnderstudyError(
                    ErrorKind.EMPTY_OUTPUT,
                    f"{who} finished without an answer.",
                    hint="Retry, or choose another delegator or model.",
                )
            if len(text) > MAX_TEXT_CHARACTERS or self._text_characters > MAX_TEXT_CHARACTERS:
                raise UnderstudyError(
                    ErrorKind.MALFORMED_OUTPUT,
                    f"The answer of {_inside(who)} is longer than {MAX_TEXT_CHARACTERS} characters.",
                    hint="Ask for a shorter answer.",
                )
        usage, estimated = self._used("".join(self._parts) or text)
        cost = self._usage.cost_usd if self._usage else None
        if self._task.limits.max_usd is not None and cost is None:
            text_of_note = "Nothing reported what this attempt cost, so `max_usd` could not be enforced."
            self._emit(Note(level="warning", text=text_of_note))
        return Outcome(
            text=text if returns == "file" else strip_controls(text[:MAX_TEXT_CHARACTERS]),
            summary=self._clean_text(finished.summary)[:_MESSAGE_CHARACTERS] if finished.summary else None,
            session_id=self._session,
            usage=usage,
            cost_usd=cost,
            estimated=estimated,
        )

    def _used(self, text: str) -> tuple[Usage, bool]:
        usage = no_usage()
        if self._usage is not None:
            for name in Usage.__struct_fields__:
                setattr(usage, name, getattr(self._usage, name))
            usage.tool_calls = usage.tool_calls or self._calls
            return usage, self._usage.estimated
        usage.input_tokens = estimate_tokens(self._task.prompt)
        usage.output_tokens = estimate_tokens(text)
        usage.turns = 1
        usage.tool_calls = self._calls
        return usage, True

    def too_slow(self) -> UnderstudyError:
        """Return the error of a source that sent nothing for too long."""
        who = self._subject
        if self._retried is not None:
            silence = f"Nothing followed for {self._idle:g} s (`idle_seconds`)."
            message = f"{self._retried.message.rstrip('.')}. {silence}"
            return self._failure(msgspec.structs.replace(self._retried, message=message))
        if self._items == 0 and self._first != self._idle:
            return UnderstudyError(
                ErrorKind.STALLED,
                f"{who} sent no event within {self._first:g} s (`first_event_seconds`).{self._unread()}",
                hint="Raise the limit if it starts slowly or loads a model; it may be waiting for a login.",
            )
        return UnderstudyError(
            ErrorKind.STALLED,
            f"{who} sent no event for {self._idle:g} s (`idle_seconds`).{self._unread()}",
            hint="Retry, or raise the limit.",
        )

    def unfinished(self) -> UnderstudyError:
        """Return the error of an attempt that took too long."""
        # To a tenth: what preparing took is subtracted from the limit.
        limit = f"{round(self._task.limits.total_seconds or 0, 1):g} s (`total_seconds`)"
        return UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"{self._subject} had not finished after {limit}.",
            hint="Raise the limit, or delegate a smaller piece.",
        )

    def _unread(self) -> str:
        """Return how many lines of output could not be read, and the first of them."""
        if not self._noise:
            return ""
        counted = "1 line of its output is" if self._noise == 1 else f"{self._noise} lines of its output are"
        return f" {counted} not events, the first: {self._first_noise}"

    def _failure(self, error: ErrorInfo) -> UnderstudyError:
        message = self._clean_text(error.message)[:_MESSAGE_CHARACTERS]
        hint = self._clean_text(error.hint)[:_MESSAGE_CHARACTERS] if error.hint else None
        return UnderstudyError(
            error.kind,
            message or f"{self._subject} reported a failure.",
            hint=hint,
            retry_at=error.retry_at,
            scope=error.scope,
            remedy=error.remedy,
        )


def _clean(event: Event, redactor: Redactor) -> Event:
    """Return ``event`` with terminal controls and known secrets removed from every string."""
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, str | list | dict):
            setattr(event, name, redactor.redact_json(strip_controls_json(value)))
    return event


def _utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _inside(subject: str) -> str:
    """Return a subject for use inside a sentence."""
    return subject[:1].lower() + subject[1:]


class _Settings(msgspec.Struct):
    env: dict[str, Any] = {}


def knows_cost(task: Task) -> bool:
    """Return whether the cost that the task's agent reports is true: some count at the prices of their vendor only."""
    tool = declarations.started_by(task.delegator)
    return tool is None or pays_vendor(tool, task, task.environment)


def pays_vendor(tool: Capabilities, task: Task, environment: Mapping[str, str]) -> bool:
    """Return whether ``tool`` talks to the server whose prices it counts with, in this environment."""
    if tool.cost_address is None:
        return True
    address = _address(tool.cost_address, task, environment)
    try:
        return not address or urlsplit(address).hostname == tool.cost_address.host
    except ValueError:
        return False


def _address(vendor: CostAddress, task: Task, environment: Mapping[str, str]) -> str | None:
    """Return the address of another server that an agent talks to; None if there is none."""
    if task.model_server is not None:
        return task.model_server.base_url
    variable, default = vendor.settings
    folder = environment.get(variable)
    path = (Path(folder) if folder else Path.home() / default) / "settings.json"
    try:
        env = msgspec.json.decode(path.read_bytes(), type=wire.ready(_Settings)).env
    except (OSError, msgspec.DecodeError):
        env = {}
    # Its settings have the last word.
    address = env.get(vendor.variable) or environment.get(vendor.variable)
    return address if address is None or isinstance(address, str) else ""


def with_cost(report: UsageReport, task: Task) -> UsageReport:
    """Return an agent's report with the cost that is known, and where it is from."""
    if report.cost_source is not None:  # of our own loop, whose requests have their prices already
        return report
    if not knows_cost(task):
        report = msgspec.structs.replace(report, cost_usd=None)
    # It has the sums of all requests so far, which says nothing about the size of one request.
    return priced(report, task.model_server, task.delegator.model or "", size=0)
