"""What stops a run before its end: a cancel, a signal, or the end of the delegation whose agent asked for it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence

from understudy.git import command
from understudy.journal import delegation_folder, worker_lock
from understudy.journal.change_notifications import ChangeListener
from understudy.journal.delegation_folder import Folder
from understudy.journal.worker_requests import Cancel, Item, RequestTail, worker_topic
from understudy.model.delegation.spec import RELAY
from understudy.model.errors import UnderstudyError

LOOK_SECONDS = 1.0
"""How much later a cancel is noticed when its change notification is lost."""


class StopRequests:
    """Reads ``requests.jsonl`` and hears signals while the work runs, and stops it."""

    def __init__(
        self,
        folder: Folder,
        *,
        take: Callable[[Sequence[Item]], None],
        parent: str | None,
        since: str,
    ) -> None:
        """Hear nothing yet.

        ``take`` gets every new line, ``parent`` is the delegation with which this one ends, and cancels from before
        ``since`` were meant for something else.
        """
        self.cancelled_by: str | None = None
        """Who cancelled."""
        self.interrupted = False
        """Whether a signal came."""
        self._folder = folder
        self._requests = RequestTail(folder)
        self._take = take
        self._parent = parent
        self._since = since
        self._work: asyncio.Future[None] | None = None

    @property
    def stopped(self) -> bool:
        """Whether the work was stopped."""
        return self.cancelled_by is not None or self.interrupted

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear cancels and signals in this block."""
        loop = asyncio.get_running_loop()
        with ChangeListener(only=[worker_topic(self._folder.id)]) as bell:
            loop.add_reader(bell.fileno(), self._rung, bell)
            ticking = asyncio.create_task(self._tick())
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                loop.add_signal_handler(number, self._interrupt)
            try:
                yield
            finally:
                ticking.cancel()
                loop.remove_reader(bell.fileno())

    async def guard(self, work: Awaitable[None]) -> None:
        """Run ``work`` until it ends or is stopped; its errors are raised."""
        self._work = asyncio.ensure_future(work)
        self.look()
        try:
            await self._work
        except asyncio.CancelledError:
            if not self.stopped:
                raise

    def look(self) -> None:
        """Read new requests."""
        items = self._requests.read()
        self._take(items)
        for item in items:
            if isinstance(item, Cancel) and self.cancelled_by is None and item.at > self._since:
                self._cancel(item.by)

    def _rung(self, bell: ChangeListener) -> None:
        bell.drain()
        self.look()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()
            if self.cancelled_by is None and self._parent is not None and _has_ended(self._parent):
                self._cancel(RELAY)

    def _cancel(self, by: str) -> None:
        self.cancelled_by = by
        self._stop()

    def _interrupt(self) -> None:
        self.interrupted = True
        self._stop()

    def _stop(self) -> None:
        command.abort()  # a thread may be waiting for git
        if self._work is not None:
            self._work.cancel()


def _has_ended(parent: str) -> bool:
    """Return whether the delegation ``parent`` has finished, or its worker was killed."""
    try:
        return not worker_lock.is_held(delegation_folder.open_folder(parent))
    except UnderstudyError:
        return True  # it was removed
