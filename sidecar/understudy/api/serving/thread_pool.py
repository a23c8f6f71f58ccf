"""Bounded threads that answer requests, also for an event loop: handlers are synchronous, and some wait for minutes."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from understudy.api import error_answers, method_table

if TYPE_CHECKING:
    import asyncio

FAST_THREADS = 8
SLOW_THREADS = 64
"""Slow methods have their own threads, so a client that waits for 64 delegations can still cancel one."""


class ThreadPool:
    """A fixed number of daemon threads, each started when it is first needed.

    Not ``concurrent.futures``: at exit the interpreter would wait for a request that never returns.
    """

    def __init__(self, most: int) -> None:
        """Use at most ``most`` threads; none is started yet."""
        self._most = most
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0

    def submit(self, job: Callable[[], None]) -> None:
        """Run ``job`` as soon as a thread is free; an exception that it raises is logged as an internal error."""
        with self._lock:
            self._unfinished += 1
            starts = self._unfinished > self._threads and self._threads < self._most
            self._threads += starts
        self._jobs.put(job)
        if starts:
            threading.Thread(target=self._work, name="request", daemon=True).start()

    def close(self) -> None:
        """End the threads once all submitted jobs are done."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # the thread runs other jobs after this one
                error_answers.internal_error("request", error)
            finally:
                with self._lock:
                    self._unfinished -= 1


class RequestThreads:
    """The threads of one client: slow methods have their own, so that waiting requests never block the others."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._fast = ThreadPool(FAST_THREADS)
        self._slow = ThreadPool(SLOW_THREADS)

    def submit(self, method: str, job: Callable[[], None]) -> None:
        """Run ``job``, which answers a request for ``method`` (its wire name), as soon as a thread is free."""
        declared = method_table.METHODS.get(method.removeprefix(method_table.PREFIX))
        (self._slow if declared is not None and declared.slow else self._fast).submit(job)

    def close(self) -> None:
        """End the threads once all submitted jobs are done."""
        self._fast.close()
        self._slow.close()


def settle(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], result: Any, error: BaseException | None = None
) -> None:
    """Set the result or error of a future from a thread, unless it is done or the loop has ended."""

    def set_it() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(set_it)
