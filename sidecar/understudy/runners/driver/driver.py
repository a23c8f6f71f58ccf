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

import asyncio
from contextlib import aclosing, suppress

from understudy.model.delegation.events import Event, Note
from understudy.model.errors import UnderstudyError
from understudy.runners.driver.attempt import Attempt, add_key_or_logs
from understudy.runners.driver.permission_relay import PermissionRelay
from understudy.runners.driver.source import AgentFinished, MessageTaken, QuestionWithdrawn, Source, SourceItem
from understudy.runners.runner import Emit, Outcome, Question, Task

INTERRUPT_SECONDS = 0.8
"""Seconds for an agent to end its turn when asked; agents that can, need a twentieth of that. A cancel may take five.
"""


async def drive(task: Task, emit: Emit, source: Source) -> Outcome:
    """Run ``source`` to its end and return the outcome; everything it started has ended when this returns or raises.

    Cancelling interrupts the agent and closes the source before the cancellation propagates.
    """
    attempt = _AgentAttempt(task, emit, source)
    try:
        async with asyncio.timeout(task.limits.total_seconds) as total:
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
        error = attempt.unfinished()
        add_key_or_logs(error, task)
        raise error from None
    except UnderstudyError as error:
        add_key_or_logs(error, task)
        raise


class _AgentAttempt(Attempt):
    """One attempt of an agent, which may ask the user and get messages."""

    def __init__(self, task: Task, emit: Emit, source: Source) -> None:
        super().__init__(task, emit, source.subject, source.redactor)
        self._source = source
        self._permissions = PermissionRelay(
            source,
            ask=task.ask,
            emit=self._emit,
            answered=self._answered,
            stop=self._stop,
            clean=self._clean_text,
        )
        self._stopped: UnderstudyError | None = None
        """Why the attempt must end now."""
        self._closed = False
        self._connected = False

    async def follow(self) -> Outcome:
        """Read the source to its end and decide how it ended."""
        limit = self._limit = asyncio.timeout(self._first)
        if self._task.relay is not None:
            self._task.relay.connect(self._relay_changed)
        hung = False
        try:
            async with limit, aclosing(self._source.items()) as items:  # type: ignore[type-var]
                async for item in items:
                    await self._take_asking(item)
        except TimeoutError:
            if not limit.expired():
                raise
            if self._stopped is not None:
                raise self._stopped from None
            if self._finished is None:
                raise self.too_slow() from None
            hung = True
        finally:
            self._limit = None
        await self._permissions.drop()
        self.flush()
        await self.close()
        if self._finished is not None and self._finished.error is not None:
            raise self._failure(self._finished.error)
        if hung:
            text = f"The agent had not exited {self._after_result:g} s after its result and was ended."
            self._emit(Note(level="warning", text=text))
        elif (failure := await self._source.explain()) is not None:
            raise self._failure(failure)
        return self.outcome()

    async def interrupt(self) -> None:
        """Ask the agent to end its turn, and read its last output; raise only when cancelled."""
        if self._finished is not None or self._closed:
            return
        with suppress(UnderstudyError, TimeoutError):
            async with asyncio.timeout(INTERRUPT_SECONDS):
                await self._permissions.drop()
                await self._source.interrupt()
                async with aclosing(self._source.items()) as items:  # type: ignore[type-var]
                    async for item in items:
                        if isinstance(item, AgentFinished):
                            break
                        if isinstance(item, Event):
                            self.take_event(item)
        self.flush()

    async def close(self) -> None:
        """Close the source, and pass on its last events."""
        if not self._closed:
            self._closed = True
            for event in await self._source.close():
                self.report(event)

    async def _take_asking(self, item: SourceItem) -> None:
        if self._finished is None:
            if not self._connected and self._task.messages is not None:  # it runs
                self._connected = True
                self._task.messages.connect(self._source.send)
            match item:
                case Question():
                    await self._permissions.take(item)
                case QuestionWithdrawn():
                    self._permissions.withdraw(item.question_id)
                case MessageTaken() if self._task.messages is not None:
                    self._task.messages.taken(item.message_id)
        self.take(item)

    def _waits_for_user(self) -> bool:
        return self._permissions.waiting or (self._task.relay is not None and self._task.relay.waiting)

    def _stop(self, error: UnderstudyError) -> None:
        self._move_limit(0)
        self._stopped = error

    def _move_limit(self, seconds: float | None) -> None:
        if self._stopped is None:
            super()._move_limit(seconds)

    def _relay_changed(self) -> None:
        self._items += 1  # an agent that calls a tool works
        if self._finished is None:
            with suppress(RuntimeError):  # the time has just run out
                self._restart_limit()

    def _answered(self) -> None:
        if self._limit is not None and self._limit.when() is None:
            self._restart_limit()
