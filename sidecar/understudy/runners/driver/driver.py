"""Drive one attempt of any source: time limits, budget, redaction, bounds, and how it ended.

The rules follow from how agents behave:

- exit code 0 means little: some CLIs exit 0 on every failure, others report errors as successes with a flag;
- some hang after their result, so the result starts a short timer; an agent that is ended then has succeeded;
- some work on after their result, so what follows is counted and shown, limits apply to it, and the last result counts;
- some print log lines, keep-alives or spinners forever, so only real items count as progress;
- some ask questions while they work (``permission_relay``): the idle limit is suspended while the user thinks;
- those that can be interrupted are asked to end their turn before they are ended.

Success is an announced result *and* nothing to ``explain`` *and* no error flag *and* a text if one is required. Error
kinds: ``timed_out`` (no first event, or the total limit), ``stalled`` (no event for too long), ``tool_no_result``
(ended without a result), ``empty_output``, ``malformed_output`` (an answer that is too long), ``budget_exhausted``, and
whatever the source raises, explains or announces.
"""

from __future__ import annotations

from contextlib import aclosing, suppress

from understudy.model import wire
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
from understudy.runners.budgets import estimate_tokens, estimate_tokens_of, over_budget
from understudy.runners.driver import clock
from understudy.runners.driver.permission_relay import PermissionRelay
from understudy.runners.driver.source import (
    AgentFinished,
    Heartbeat,
    MessageTaken,
    QuestionWithdrawn,
    Retrying,
    Source,
    SourceItem,
    Unrecognized,
)
from understudy.runners.runner import (
    AFTER_RESULT_SECONDS,
    FIRST_EVENT_SECONDS,
    IDLE_SECONDS,
    Emit,
    Outcome,
    Question,
    Task,
)
from understudy.secrets import Redactor, keys

INTERRUPT_SECONDS = 0.8
"""Seconds for an agent to end its turn when asked; agents that can, need a twentieth of that. A cancel may take five.
"""
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


async def drive(task: Task, emit: Emit, source: Source) -> Outcome:
    """Run ``source`` to its end and return the outcome; everything it started has ended when this returns or raises.

    Cancelling interrupts the agent and closes the source before the cancellation propagates.
    """
    attempt = _Attempt(task, emit, source)
    try:
        async with clock.timeout(task.limits.total_seconds) as total:
            try:
                return await attempt.follow()
            except BaseException:
                # Also when cancelled: the agent gets its grace period, and has ended before the caller continues.
                try:
                    await attempt.interrupt()
                finally:
                    await attempt.close()
                raise
    except TimeoutError:
        if not total.expired():
            raise
        # To a tenth: what preparing took is subtracted from the limit.
        limit = f"{round(task.limits.total_seconds or 0, 1):g} s (`total_seconds`)"
        error = UnderstudyError(
            ErrorKind.TIMED_OUT,
            f"{source.subject} had not finished after {limit}.",
            hint="Raise the limit, or delegate a smaller piece.",
        )
        _add_key_or_logs(error, task)
        raise error from None
    except UnderstudyError as error:
        _add_key_or_logs(error, task)
        raise


def _add_key_or_logs(error: UnderstudyError, task: Task) -> None:
    """Name in the hint the key that was refused; attach the logs of a program that failed."""
    if error.kind is ErrorKind.AUTH_FAILED and task.model_server is not None:
        error.hint = keys.how_to_correct(task.model_server)
    logs = [path for path in (task.stderr_log, task.stdout_log) if path is not None and path.is_file()]
    written = [str(path) for path in logs if path.stat().st_size]
    if error.kind in _LOGGED and written:
        error.log_paths = written


class _Attempt:
    """The state of one attempt: what its source has reported so far."""

    def __init__(self, task: Task, emit: Emit, source: Source) -> None:
        self._task = task
        self._emit_event = emit
        self._source = source
        self._redactor: Redactor = source.redactor
        limits = task.limits
        self._first = limits.first_event_seconds or FIRST_EVENT_SECONDS
        self._idle = limits.idle_seconds or IDLE_SECONDS
        self._after_result = limits.after_result_seconds or AFTER_RESULT_SECONDS
        self._permissions = PermissionRelay(
            source,
            ask=task.ask,
            emit=self._emit,
            answered=self._answered,
            stop=self._stop,
            clean=self._clean_text,
        )
        self._answer = self._redactor.text_stream()
        self._thought = self._redactor.text_stream()
        self._parts: list[str] = []
        self._text_characters = 0
        self._characters = 0
        """Characters of text and reasoning, to estimate the usage."""
        self._emitted = 0
        self._finished: AgentFinished | None = None
        self._usage: UsageReport | None = None
        self._session: str | None = None
        self._calls = 0
        self._items = 0
        """Signs of work since the source started or restarted."""
        self._noise = 0
        self._first_noise = ""
        self._clock: clock.Timeout | None = None
        self._stopped: UnderstudyError | None = None
        """Why the attempt must end now."""
        self._closed = False
        self._connected = False

    # -- reading ---------------------------------------------------------------------------------------------

    async def follow(self) -> Outcome:
        """Read the source to its end and decide how it ended."""
        limit = self._clock = clock.timeout(self._first)
        if self._task.relay is not None:
            self._task.relay.connect(self._relay_changed)
        hung = False
        try:
            async with limit, aclosing(self._source.items()) as items:  # type: ignore[type-var]
                async for item in items:
                    if self._finished is None:
                        await self._take(item)
                    else:
                        self._take_late(item)
        except TimeoutError:
            if not limit.expired():
                raise
            if self._stopped is not None:
                raise self._stopped from None
            if self._finished is None:
                raise self._too_slow() from None
            hung = True
        finally:
            self._clock = None  # its time is up: nothing may extend it
        await self._permissions.drop()
        self._flush()
        await self.close()
        if self._finished is not None and self._finished.error is not None:
            raise self._failure(self._finished.error)
        if hung:
            text = f"The agent had not exited {self._after_result:g} s after its result and was ended."
            self._emit(Note(level="warning", text=text))
        elif (failure := await self._source.explain()) is not None:
            raise self._failure(failure)
        return self._outcome()

    async def interrupt(self) -> None:
        """Ask the agent to end its turn, and read its last output; raise only when cancelled."""
        if self._finished is not None or self._closed:
            return
        with suppress(UnderstudyError, TimeoutError):
            async with clock.timeout(INTERRUPT_SECONDS):
                await self._permissions.drop()
                await self._source.interrupt()
                async with aclosing(self._source.items()) as items:  # type: ignore[type-var]
                    async for item in items:
                        if isinstance(item, AgentFinished):
                            break
                        if isinstance(item, Event):
                            self._take_event(item)
        self._flush()

    async def close(self) -> None:
        """Close the source, and pass on its last events."""
        if not self._closed:
            self._closed = True
            for event in await self._source.close():
                self._report(event)

    async def _take(self, item: SourceItem) -> None:
        if not self._connected and self._task.messages is not None:  # it runs
            self._connected = True
            self._task.messages.connect(self._source.send)
        grace = 0.0
        match item:
            case AgentStarted():  # Understudy's own event, not a sign of work
                self._take_event(item)
                return
            case Event():
                self._take_event(item)
            case AgentFinished():
                self._finished = item
            case Heartbeat():
                grace = item.grace_seconds
            case Question():
                await self._permissions.take(item)
            case QuestionWithdrawn():
                self._permissions.withdraw(item.question_id)
            case MessageTaken():
                if self._task.messages is not None:
                    self._task.messages.taken(item.message_id)
            case Retrying():
                self._items = 0
                self._move_clock(item.after_seconds + self._first)
                return
            case Unrecognized():
                self._take_noise(item)
                return
        self._items += 1
        self._restart_clock(grace)

    def _take_late(self, item: SourceItem) -> None:
        """Take what follows a result: events, and another result. Only these are signs of work now."""
        assert self._finished is not None  # noqa: S101 - the caller has asked
        if isinstance(item, AgentFinished):
            if self._finished.error is not None:
                return
            self._finished = item
        elif isinstance(item, Event):
            self._take_event(item)
        else:
            return
        self._restart_clock()

    def _restart_clock(self, grace: float = 0.0) -> None:
        if self._finished is not None:
            self._move_clock(self._after_result)
        elif self._permissions.waiting or (self._task.relay is not None and self._task.relay.waiting):
            self._move_clock(None)  # the user may think until the question's own deadline
        else:
            self._move_clock(max(self._idle, grace))

    def _stop(self, error: UnderstudyError) -> None:
        self._move_clock(0)
        self._stopped = error

    def _move_clock(self, seconds: float | None) -> None:
        if self._clock is not None and self._stopped is None:
            self._clock.reschedule(None if seconds is None else clock.now() + seconds)

    def _relay_changed(self) -> None:
        self._items += 1  # an agent that calls a tool works
        if self._finished is None:
            with suppress(RuntimeError):  # the time has just run out
                self._restart_clock()

    def _answered(self) -> None:
        if self._clock is not None and self._clock.when() is None:
            self._restart_clock()

    # -- what is passed on -----------------------------------------------------------------------------------

    def _take_noise(self, item: Unrecognized) -> None:
        self._noise += 1
        if self._noise == 1:
            self._first_noise = shown = self._clean_text(item.text)[:_SHOWN_NOISE]
            self._emit(Note(level="info", text=f"Output that is not an event is kept in the log only: {shown}"))

    def _take_event(self, event: Event) -> None:
        """Clean an event, count it, check the budget and pass it on."""
        if isinstance(event, Text | Thinking):
            self._characters += len(event.text)
            if isinstance(event, Text):
                self._say(self._answer.feed(event.text))
            else:
                self._think(self._thought.feed(event.text))
            self._check_estimate()
            return
        self._report(event)
        if isinstance(event, UsageReport) and (used := self._usage) is not None:
            error = over_budget(
                self._task.limits,
                turns=used.turns,
                output_tokens=used.output_tokens,
                tokens=used.input_tokens + used.output_tokens,
                cost_usd=used.cost_usd,
            )
            if error is not None:
                raise error

    def _report(self, event: Event) -> None:
        if isinstance(event, ToolResult) and len(event.output) > _OUTPUT_CHARACTERS:
            kept = event.output[:_OUTPUT_CHARACTERS]
            event.truncated_bytes = _utf8_bytes(event.output) - _utf8_bytes(kept)
            event.output = kept
        elif isinstance(event, ToolCall):
            self._calls += 1
        elif isinstance(event, Session):
            self._session = strip_controls(event.session_id)[:256]
        elif isinstance(event, UsageReport):
            from understudy.runners.driver import costs  # not before the agent has started

            event = self._usage = costs.with_cost(event, self._task)
        self._emit(_clean(event, self._redactor))

    def _check_estimate(self) -> None:
        """Check an estimate against ``maxTokens`` while the source has not reported its usage."""
        limit = self._task.limits.max_tokens
        if limit is None or self._usage is not None:
            return
        spent = estimate_tokens(self._task.prompt) + estimate_tokens_of(self._characters)
        error = over_budget(self._task.limits, turns=0, output_tokens=0, tokens=spent, cost_usd=None)
        if error is not None:
            raise error

    def _say(self, text: str) -> None:
        if text:
            self._text_characters += len(text)
            if self._text_characters <= MAX_TEXT_CHARACTERS:
                self._parts.append(text)
            self._emit(Text(text=strip_controls(text)), len(text))

    def _think(self, text: str) -> None:
        if text:
            self._emit(Thinking(text=strip_controls(text)), len(text))

    def _flush(self) -> None:
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

    def _outcome(self) -> Outcome:
        returns, who = self._task.recipe.returns, self._source.subject
        if self._finished is None:
            raise UnderstudyError(
                ErrorKind.TOOL_NO_RESULT,
                f"{who} exited without announcing a result.{self._unread()}",
                hint="Retry. If it happens again, run the agent in a terminal to see why.",
            )
        given = self._finished
        text = self._redactor.redact(given.text) if given.text is not None else "".join(self._parts)
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
            summary=self._clean_text(given.summary)[:_MESSAGE_CHARACTERS] if given.summary else None,
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

    def _too_slow(self) -> UnderstudyError:
        who = self._source.subject
        if self._items == 0 and self._first != self._idle:
            return UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"{who} sent no event within {self._first:g} s (`first_event_seconds`).{self._unread()}",
                hint="Raise the limit if it starts slowly or loads a model; it may be waiting for a login.",
            )
        return UnderstudyError(
            ErrorKind.STALLED,
            f"{who} sent no event for {self._idle:g} s (`idle_seconds`).{self._unread()}",
            hint="Retry, or raise the limit.",
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
            message or f"{self._source.subject} reported a failure.",
            hint=hint,
            retry_at=error.retry_at,
            scope=error.scope,
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
