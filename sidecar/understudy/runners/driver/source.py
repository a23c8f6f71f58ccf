"""The source of an agent's events: the one interface between the driver and every kind of agent.

A program that prints JSON lines (``child_source``), a model server (``backends.exchange``), a JSON-RPC peer: each is a
``Source``. The driver is responsible for time, budgets, redaction, bounds and how an attempt ended. A source is
responsible for its connection and its format, and has no access to limits or journals. ``Background`` reads one that
blocks.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

import msgspec

from understudy.model.delegation.delegations import PermissionOption
from understudy.model.delegation.events import Event
from understudy.model.errors import ErrorInfo
from understudy.runners.runner import Message, Question
from understudy.secrets import Redactor

Item = TypeVar("Item")
THREAD = "understudy-background"
"""The name of the thread of a ``Background``."""
CLOSE_SECONDS = 0.5
"""How long a reader waits for the end of the thread. Nothing interrupts a name lookup, so it may go on."""


class AgentFinished(msgspec.Struct, frozen=True, kw_only=True):
    """The agent announced its result. The driver then waits for the source to end; it counts and shows what follows."""

    text: str | None = None
    """The answer; None: the streamed ``Text`` is the answer."""
    summary: str | None = None
    error: ErrorInfo | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of work that is not an event: it restarts the idle limit and is not recorded."""

    grace_seconds: float = 0.0
    """The next item may take at least this long, even where the idle limit is shorter."""
    failure: ErrorInfo | None = None
    """The failed request that the agent tries again: what ends an attempt in which nothing follows."""


class Retrying(msgspec.Struct, frozen=True, kw_only=True):
    """The source retries after a pause; the limit for the first event then applies again."""

    after_seconds: float


class QuestionWithdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """The agent no longer waits for the answer to a question."""

    question_id: str


class MessageTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The agent got a message that was sent to it."""

    message_id: str


class Unrecognized(msgspec.Struct, frozen=True, kw_only=True):
    """Output that is not in the agent's format: counted, reported once, and not a sign of work."""

    text: str


SourceItem = Event | AgentFinished | Heartbeat | Retrying | Question | QuestionWithdrawn | MessageTaken | Unrecognized


class Source(Protocol):
    """One attempt of one agent. All methods are asynchronous, and none waits for the user.

    The driver makes one call at a time, except for ``answer`` and ``send``, which are called from other tasks while the
    driver reads ``items``.
    """

    subject: str
    """Its name in messages, as the beginning of a sentence: ``Delegator 'claude'``, ``Model server 'local'``."""
    redactor: Redactor
    """Replaces the secrets that the agent was given. The driver applies it to all items."""

    def items(self) -> AsyncIterator[SourceItem]:
        """Start the agent with the task's prompt, yield its output, and return when it has ended.

        After an interrupted iteration (cancelled or closed), a new one continues where it stopped; a source that cannot
        continue yields nothing. May raise ``UnderstudyError``.
        """
        ...

    async def answer(self, question_id: str, option: PermissionOption, note: str | None) -> None:
        """Answer a question. An answer that the agent can no longer receive is dropped."""
        ...

    async def interrupt(self) -> None:
        """Ask the agent to end its turn, if its protocol supports that; ``items`` then yields its last output."""
        ...

    async def send(self, message: Message) -> None:
        """Hand over another user message; raise ``invalid_params`` when this agent takes none now.

        ``MessageTaken`` follows once the agent has it; without that, it may not have got it.
        """
        ...

    async def explain(self) -> ErrorInfo | None:
        """Return why the agent failed (exit code, standard error, an incomplete line), None if it did not.

        Called after ``close``. The driver itself reports an agent that exited without a result.
        """
        ...

    async def close(self) -> Sequence[Event]:
        """End everything that the source started, and return the last events (leftover processes, usage).

        Returns within a few seconds, even if the agent ignores signals. Calling it again does nothing.
        """
        ...


class Background(Generic[Item]):
    """A generator that runs in a daemon thread, one item at a time: it runs only while the next item is asked for."""

    def __init__(self, items: Generator[Item, None, None], on_end: Callable[[], None] = lambda: None) -> None:
        """Start the thread."""
        self._items = items
        self.on_end = on_end
        """Is called by the reader's thread, and ends what the generator waits for."""
        self._asked: SimpleQueue[Future[Item | None] | None] = SimpleQueue()
        self.closed: Future[None] = Future()
        """Has a result when the generator has been closed."""
        self.closed.set_running_or_notify_cancel()  # so that no reader cancels it
        threading.Thread(target=self._run, name=THREAD, daemon=True).start()

    def next(self) -> Future[Item | None]:
        """Ask for the next item; None: there are no more. The one before must have arrived."""
        future: Future[Item | None] = Future()
        future.set_running_or_notify_cancel()
        self._asked.put(future)
        return future

    def end(self) -> None:
        """End what the generator waits for, and close it in its thread: see ``closed``."""
        self._asked.put(None)
        self.on_end()

    def close(self) -> None:
        """End it, and wait a moment until it has ended."""
        self.end()
        with suppress(TimeoutError):
            self.closed.result(CLOSE_SECONDS)

    def _run(self) -> None:
        while (future := self._asked.get()) is not None:
            try:
                future.set_result(next(self._items, None))
            except BaseException as error:
                future.set_exception(error)
            del future
        with suppress(Exception):  # the reader has left
            self._items.close()
        self.closed.set_result(None)
