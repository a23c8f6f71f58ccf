"""Read a generator that blocks from a thread of its own, so that its reader can stop waiting at any time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")

THREAD = "understudy-background"
"""Its name."""
CLOSE_SECONDS = 0.5
"""How long a reader waits for the end of the thread. Nothing interrupts a name lookup, so it may go on."""


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
