"""Ask a model server for a text or a file from a thread that waits, without an event loop.

Retries end with the first event. The limits are the driver's (``driver.attempt``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import NamedTuple, TypeVar, cast

import msgspec

from understudy.config import locality
from understudy.model.config.delegators import ModelServer
from understudy.model.delegation.events import Event, File, Note
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.runners.backends import file_answers, protocol_choice
from understudy.runners.backends.dialects import dialect_of
from understudy.runners.backends.exchange import Exchange
from understudy.runners.backends.http import http_client
from understudy.runners.driver.attempt import Attempt, add_key_or_logs
from understudy.runners.driver.source import AgentFinished, Background, SourceItem
from understudy.runners.runner import Emit, Outcome, Task
from understudy.secrets import Redactor

BACKOFF_SECONDS = 0.5
"""Before the first retry; doubled up to 8 s."""
LOOK_SECONDS = 0.05
"""Time between two calls of ``is_cancelled`` while a thread waits."""
_LONGEST_WAIT = 3600.0

Item = TypeVar("Item")


class Reached(msgspec.Struct, frozen=True):
    """A model server with its protocol, how it is reached, and what replaces its key."""

    server: ModelServer
    where: http_client.Endpoint
    redactor: Redactor
    notes: list[Note]


def reach(task: Task) -> Reached:
    """Find out how the server of a task is reached; it may be asked what it supports."""
    server = task.model_server
    if server is None:
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"Delegator {task.delegator.name!r} has no model server.",
            hint="Set `model_server` to the name of a configured model server.",
        )
    key = task.key() if task.key is not None else None
    # What a delegator's variables contain must not reach the server in a command's output either.
    redactor = Redactor({**task.secrets, **({f"model server {server.name}": key} if key else {})})
    where = http_client.endpoint(server, local=locality.is_bound(task.delegator, server), key=key)
    notes = []
    if protocol_choice.is_open(server):
        choice = protocol_choice.decide(server, task.delegator.model, where)
        if choice.asked:
            text = f"Model server {server.name!r} is used with `{choice.protocol}`: {choice.why}."
            notes.append(Note(level="info", text=text))
        server = protocol_choice.with_protocol(server, choice.protocol)
    return Reached(server, where, redactor, notes)


def exchange(
    task: Task, reached: Reached, *, retries: int | None = None, backoff_seconds: float = BACKOFF_SECONDS
) -> Exchange:
    """Return the request of a task; ``retries`` is None for as many as the task allows."""
    dialect = dialect_of(reached.server)
    return Exchange(task, dialect, reached.where, reached.redactor, retries=retries, backoff_seconds=backoff_seconds)


def answer(
    task: Task,
    emit: Emit,
    is_cancelled: Callable[[], bool] | None = None,
    *,
    retries: int | None = None,
    backoff_seconds: float = BACKOFF_SECONDS,
) -> Outcome:
    """Do ``task``; for the error kinds see ``driver``, ``http_errors``, ``dialects`` and ``file_answers``.

    ``is_cancelled`` is called at least every ``LOOK_SECONDS``; once it returns true, the request ends with
    ``cancelled``.
    """
    items = Background(_begun(task, retries, backoff_seconds))
    try:
        begun = cast("_Begun", _waited(items.next(), is_cancelled))
        items.on_end = begun.sent.end
        for note in begun.notes:
            emit(note)
        attempt = _WaitingAttempt(task, emit, begun.sent)
        try:
            return attempt.follow(cast("Background[SourceItem]", items), is_cancelled)
        except UnderstudyError as error:
            add_key_or_logs(error, task)
            raise
    finally:
        items.end()


class _Begun(NamedTuple):
    """What comes before the items of an answer."""

    sent: Exchange
    notes: list[Note]


def _begun(task: Task, retries: int | None, backoff_seconds: float) -> Generator[_Begun | SourceItem, None, None]:
    reached = reach(task)
    sent = exchange(task, reached, retries=retries, backoff_seconds=backoff_seconds)
    answered = sent.answered()
    yield _Begun(sent, reached.notes)
    yield from answered


class _Moment:
    """A limit that its reader looks at."""

    def __init__(self, when: float | None) -> None:
        self._when = when

    def when(self) -> float | None:
        return self._when

    def reschedule(self, when: float | None) -> None:
        self._when = when


class _WaitingAttempt(Attempt):
    """One attempt, followed by a thread that has nothing else to do."""

    def __init__(self, task: Task, emit: Emit, sent: Exchange) -> None:
        super().__init__(task, emit, sent.subject, sent.redactor)
        self._sent = sent
        now = time.monotonic()
        total = task.limits.total_seconds
        self._last = None if total is None else now + total
        self._limit = self._next = _Moment(now + self._first)

    def follow(self, items: Background[SourceItem], is_cancelled: Callable[[], bool] | None) -> Outcome:
        """Read the answer to its end, and return the outcome."""
        try:
            while (item := _waited(items.next(), is_cancelled, self._left)) is not None:
                self.take(item)
        finally:
            items.close()
            self.flush()
            for report in self._sent.usage():
                self.report(report)
        finished, events = deliver(self._task, self._sent.text())
        for event in events:
            self.take(event)
        self.take(finished)
        return self.outcome()

    def _left(self) -> float:
        """Return how many seconds are left; raise when none are."""
        now, when = time.monotonic(), self._next.when()
        if self._last is not None and now >= self._last:
            raise self.unfinished()
        if when is not None and now >= when:
            raise self.too_slow()
        return min(limit for limit in (when, self._last, now + _LONGEST_WAIT) if limit is not None) - now


def _waited(
    future: Future[Item], is_cancelled: Callable[[], bool] | None, left: Callable[[], float] = lambda: _LONGEST_WAIT
) -> Item:
    """Wait for a result; raise ``cancelled`` once ``is_cancelled`` returns true, and what ``left`` raises."""
    while True:
        seconds = left()
        if is_cancelled is not None:
            if is_cancelled():
                raise UnderstudyError(
                    ErrorKind.CANCELLED,
                    "The request was cancelled.",
                    hint="Send it again if you still need the answer.",
                )
            seconds = min(seconds, LOOK_SECONDS)
        if future.done():
            return future.result()
        with suppress(TimeoutError):
            future.exception(seconds)


def deliver(task: Task, text: str) -> tuple[AgentFinished, Sequence[Event]]:
    """Turn the model's answer into the result, and write the files that the recipe asks for."""
    if task.recipe.returns == "text":
        return AgentFinished(text=text), []
    content = file_answers.file_content(text)
    if task.worktree is None or task.target is None:
        return AgentFinished(text=content), []
    existed = file_answers.write_target(task.worktree, task.target, content)
    return AgentFinished(text=content), [File(path=task.target, change="modified" if existed else "added")]
