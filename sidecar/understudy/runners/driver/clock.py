"""Time limits and pauses of coroutines, in an event loop or without one.

``run_alone`` runs a coroutine in the calling thread without an event loop: what it waits for blocks the thread. A text
request needs nothing else, and then starts sooner: neither asyncio nor a second thread is involved. Code that runs both
ways takes its limits and pauses from here, and its connections from ``backends.http_client``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

Result = TypeVar("Result")

LOOK_SECONDS = 0.05
"""Time between two calls of ``look`` while a thread waits."""
_LEAST_SECONDS = 0.001
"""A wait of zero would not be one."""


class Stopped(BaseException):
    """``look`` asked to end the work; the counterpart of ``asyncio.CancelledError``."""


class _Due(BaseException):
    """A time limit has passed; ends what runs inside of it."""

    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self.limit = limit


class Timeout(Protocol):
    """What is used of ``asyncio.Timeout``."""

    def when(self) -> float | None:
        """Return the time (``now``) at which it passes; None if it never does."""
        ...

    def reschedule(self, when: float | None) -> None:
        """Move it."""
        ...

    def expired(self) -> bool:
        """Return whether it has ended what ran inside of it."""
        ...

    async def __aenter__(self) -> Self:
        """Start it."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """End it; raise ``TimeoutError`` if it has passed."""
        ...


class Alone:
    """What a coroutine without an event loop may wait for, and how long."""

    def __init__(self, look: Callable[[], bool] | None) -> None:
        """Call ``look`` at least every ``LOOK_SECONDS`` of a wait; once it returns true, raise ``Stopped``."""
        self.connections = 0
        """Opened so far: a request that opened none used an older one."""
        self._look = look
        self._limits: list[_Limit] = []

    def seconds(self, until: float | None = None) -> float:
        """Return how long to wait at most before asking again; raise if a limit has passed or the work shall end.

        ``until`` is a limit of the caller, who notices it.
        """
        if self._look is not None and self._look():
            self._look = None  # once: what ends may still close its connections
            raise Stopped
        at = time.monotonic()
        times = [limit.at for limit in self._limits if limit.at is not None and not limit.passed]
        if times and min(times) <= at:
            limit = min((one for one in self._limits if one.at is not None and not one.passed), key=_time_of)
            limit.passed = True
            raise _Due(limit)
        ends = [*times, *([] if until is None else [until]), *([] if self._look is None else [at + LOOK_SECONDS])]
        return max(min(ends, default=at + 3600.0) - at, _LEAST_SECONDS)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        until = time.monotonic() + seconds
        while True:
            pause = self.seconds(until)
            if time.monotonic() >= until:
                return
            time.sleep(min(pause, max(until - time.monotonic(), 0)))

    def enter(self, limit: _Limit) -> None:
        """Let a limit apply."""
        self._limits.append(limit)

    def leave(self, limit: _Limit) -> None:
        """Let it no longer apply."""
        self._limits.remove(limit)


class _Limit:
    """The counterpart of ``asyncio.Timeout``."""

    def __init__(self, alone: Alone, at: float | None) -> None:
        self.at = at
        self.passed = False
        self._alone = alone

    def when(self) -> float | None:
        return self.at

    def reschedule(self, when: float | None) -> None:
        self.at = when

    def expired(self) -> bool:
        return self.passed

    async def __aenter__(self) -> Self:
        self._alone.enter(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._alone.leave(self)
        if isinstance(error, _Due) and error.limit is self:
            raise TimeoutError from error


_thread = threading.local()


def alone() -> Alone | None:
    """Return the waits of the coroutine that runs alone in this thread; None in an event loop."""
    return getattr(_thread, "alone", None)


def run_alone(work: Coroutine[Any, Any, Result], look: Callable[[], bool] | None = None) -> Result:
    """Run a coroutine without an event loop and return its result; it may wait only for what this module knows.

    ``look`` is called at least every ``LOOK_SECONDS`` while it waits; ``Stopped`` is raised once it returns true.
    """
    before = alone()
    _thread.alone = Alone(look)
    try:
        work.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        _thread.alone = before
    work.close()
    message = "The coroutine awaited something that needs an event loop."
    raise RuntimeError(message)


def now() -> float:
    """Return the time of ``timeout_at``."""
    return time.monotonic()  # as event loops have it


def timeout(seconds: float | None) -> Timeout:
    """Limit what runs inside, as ``asyncio.timeout`` does."""
    return timeout_at(None if seconds is None else now() + seconds)


def timeout_at(when: float | None) -> Timeout:
    """Limit what runs inside, as ``asyncio.timeout_at`` does."""
    waits = alone()
    if waits is not None:
        return _Limit(waits, when)
    import asyncio

    return asyncio.timeout_at(when)


async def sleep(seconds: float) -> None:
    """Pause."""
    waits = alone()
    if waits is not None:
        waits.sleep(seconds)
        return
    import asyncio

    await asyncio.sleep(seconds)


async def in_thread(call: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function that may block: in another thread, unless this one has nothing else to do."""
    if alone() is not None:
        return call(*arguments)
    import asyncio

    return await asyncio.to_thread(call, *arguments)


def _time_of(limit: _Limit) -> float:
    return limit.at if limit.at is not None else 0.0
