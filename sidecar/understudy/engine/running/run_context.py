"""What all parts of a run share: the delegation's folder, its journal, its worktree, and threads for git.

Events reach the journal through an ``Emitter``: it joins deltas, redacts secrets and numbers attempts.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from understudy.engine.worktrees.delegation_worktree import DelegationWorktree
from understudy.git import command
from understudy.journal.delegation_folder import Folder
from understudy.journal.writing.writer import Writer
from understudy.model.delegation import events
from understudy.model.delegation.events import AnyEvent, Event, Text, Thinking
from understudy.model.delegation.spec import Spec
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready
from understudy.secrets.redaction import Redactor, TextStream

if TYPE_CHECKING:
    from understudy.engine.checkout_runs.checkout_worktree import CheckoutWorktree
    from understudy.engine.running.notifier import Notifier

_T = TypeVar("_T")
LINES_A_SECOND = 30.0
"""The most lines per second of joined deltas: faster than people read, slow enough for every reader."""
JOINED_CHARACTERS = 256 * 1024
"""The most text kept in memory; more is written at once."""
POLL_ROUNDING_SECONDS = 0.001
"""epoll rounds up to whole milliseconds (epoll_wait(2)), so timers are set this much earlier."""
_DELTAS: tuple[type[Event], ...] = (Text, Thinking)


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One run of a delegation in this process."""

    folder: Folder
    spec: Spec
    state: Path
    """The folder of all state."""
    writer: Writer
    emit: Emitter
    tell: Callable[[events.Event], None]
    """Emits from another thread."""
    threads: WorkerThreads
    worktree: DelegationWorktree
    """See ``tree``."""
    checkout: CheckoutWorktree | None
    """The worktree again, if the agent works in the checkout."""
    notifier: Notifier
    began: float = field(default_factory=time.time)
    """When this run began, in seconds since 1970, which is before any agent of it."""

    @property
    def tree(self) -> DelegationWorktree | None:
        """The worktree, once it is on disk; None for work that needs none."""
        return self.worktree if self.worktree.has_tree else None

    async def in_thread(self, call: Callable[..., _T], *args: object, limit_seconds: float | None = None) -> _T:
        """Run blocking git work in a thread; see ``WorkerThreads.run``."""
        return await self.threads.run(call, *args, limit_seconds=limit_seconds)


class WorkerThreads(ThreadPoolExecutor):
    """A thread pool that knows which calls are running."""

    def __init__(self) -> None:
        """Create the pool; no thread starts yet."""
        super().__init__(max_workers=4, thread_name_prefix="understudy")
        self._futures: set[Future[Any]] = set()

    def submit(self, call: Callable[..., _T], /, *args: Any, **keywords: Any) -> Future[_T]:
        """Run ``call`` in a thread."""
        future = super().submit(call, *args, **keywords)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    async def run(self, call: Callable[..., _T], *args: object, limit_seconds: float | None = None) -> _T:
        """Run blocking git work and wait for it; raise ``timed_out`` after ``limit_seconds``.

        A cancel aborts the git process, so the thread ends at once.
        """
        future = asyncio.get_running_loop().run_in_executor(self, functools.partial(call, *args))
        # The caller may have stopped waiting for this thread; then its exception is never retrieved.
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            async with asyncio.timeout(limit_seconds):
                return await asyncio.shield(future)
        except TimeoutError:
            command.abort()
            raise UnderstudyError(
                ErrorKind.TIMED_OUT,
                f"Git was still using the worktree after {limit_seconds} s.",
                hint="The work is still in the worktree; check for a slow or full disk.",
            ) from None

    async def wait_until_idle(self, limit_seconds: float) -> None:
        """Wait for threads whose work was stopped; git may be called again only after that."""
        busy = [asyncio.wrap_future(future) for future in list(self._futures)]
        if busy:
            await asyncio.wait(busy, timeout=limit_seconds)


class Emitter:
    """Appends events in order; text and thinking deltas are joined first.

    The first delta after a pause is written at once; deltas within the next thirtieth of a second are joined into one
    line. Any other event is written at once, after the deltas joined before it.
    """

    def __init__(self, writer: Writer, redactor: Redactor | None = None) -> None:
        """Append through ``writer``; it must be used from one event loop only."""
        self.attempt = 0
        self._writer = writer
        self._redactor = redactor
        self._kind: type[Event] | None = None
        self._pieces: list[str] = []
        self._characters = 0
        self._written_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stream: TextStream | None = None
        self._late: UnderstudyError | None = None

    def redact_with(self, redactor: Redactor | None) -> None:
        """Redact these secrets too from now on."""
        self._redactor = redactor

    def __call__(self, event: Event) -> None:
        """Append ``event``, at once or joined with its neighbours."""
        self._raise_what_came_late()
        if not isinstance(event, _DELTAS):
            self.close()
            self._append(event)
            return
        text: str = event.text  # type: ignore[attr-defined]
        if not text:
            return
        if self._kind is not type(event):
            self.close()
            self._kind = type(event)
            # A secret may be split over two deltas; the stream holds back what could be its beginning.
            self._stream = self._redactor.text_stream() if self._redactor is not None else None
        self._pieces.append(text)
        self._characters += len(text)
        loop = asyncio.get_running_loop()
        due = self._written_at + 1 / LINES_A_SECOND
        if self._characters > JOINED_CHARACTERS or loop.time() >= due:
            self.flush()
        elif self._timer is None:
            self._timer = loop.call_at(due - POLL_ROUNDING_SECONDS, self._flush_late, due)

    def redact(self, text: str) -> str:
        """Return ``text`` without the secrets that are known now."""
        return self._redactor.redact(text) if self._redactor is not None else text

    def flush(self) -> None:
        """Write the text joined so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._kind is None or not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces, self._characters = [], 0
        self._write(text if self._stream is None else self._stream.feed(text))
        self._written_at = asyncio.get_running_loop().time()

    def _flush_late(self, due: float) -> None:
        # A timer has no caller, so its error (a full disk) is raised by the next call of ``emit``.
        try:
            self.flush()
        except UnderstudyError as error:
            self._late = error
        # A timer is always a little late; counting from when it was due keeps the delays from adding up.
        self._written_at = due

    def _raise_what_came_late(self) -> None:
        if self._late is not None:
            late, self._late = self._late, None
            raise late

    def close(self) -> None:
        """Write all text that is joined or held back; the next delta starts a new line."""
        self._raise_what_came_late()
        self.flush()
        if self._stream is not None:
            self._write(self._stream.finish())
        self._kind = self._stream = None

    def _write(self, text: str) -> None:
        if text and self._kind is not None:
            self._writer.append(self._kind(text=text), attempt=self.attempt)  # type: ignore[call-arg]

    def _append(self, event: Event) -> None:
        if self._redactor is not None:
            event = _redacted(event, self._redactor)
        self._writer.append(event, attempt=self.attempt)


def _redacted(event: Event, redactor: Redactor) -> Event:
    data = msgspec.to_builtins(event)
    clean = redactor.redact_json(data)
    return event if clean == data else msgspec.convert(clean, ready(AnyEvent))
