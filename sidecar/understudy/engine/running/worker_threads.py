"""Threads for a worker's blocking git work."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

_T = TypeVar("_T")


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

    def busy(self) -> list[Future[Any]]:
        """Return the calls that have not ended."""
        return list(self._futures)
