"""A client's requests in flight: each is started once, answered exactly once, and cancellable at any time.

The thread that answers and the thread that reads a cancellation share them. A frontend adds how to send an answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from understudy.api import method_table
from understudy.api.caller import Caller
from understudy.api.serving.thread_pool import RequestThreads
from understudy.model.errors import ErrorKind, UnderstudyError

MAX_IN_FLIGHT = 1000
"""How many requests of one client may be in flight; further ones are answered with ``overloaded``."""

Answer = Callable[[Any, UnderstudyError | None], None]
"""Called once with the result or the error, in any thread."""


class InFlightRequest(Caller):
    """One request of the contract; a frontend's subclass is the ``Caller`` of its handler."""

    def __init__(self, method: str, params: Any, answer: Answer, key: Any = None) -> None:
        """Create a request that has not started; ``params`` is parsed JSON or the method's structure.

        ``key`` is by what the client cancels it.
        """
        self.method = method
        """The wire name."""
        self.params = params
        self.key = key
        self._answer = answer
        self._lock = threading.Lock()
        self._begun = False
        self.finished = False
        """Whether the request has been answered."""
        self._cancelled = threading.Event()

    def run(self) -> None:
        """Answer the request, unless it has been answered; called in a thread."""
        with self._lock:
            self._begun = not self.finished
        if self._begun:
            try:
                result = self.perform()
            except UnderstudyError as error:
                self.finish(None, error)
            else:
                self.finish(result)

    def perform(self) -> Any:
        """Call the handler and return its result; raise ``UnderstudyError``."""
        return method_table.call(self.method, self.params, self)

    def finish(self, result: Any, error: UnderstudyError | None = None) -> None:
        """Answer the request unless it has been answered."""
        with self._lock:
            first = not self.finished
            self.finished = True
        if first:
            self._answer(result, error)

    def cancel(self) -> None:
        """Cancel the request: one that has not started is answered at once, a running one sees ``cancelled``."""
        self._cancelled.set()
        with self._lock:
            begun = self._begun
        if not begun:
            self.finish(None, cancelled_error())

    def cancelled(self) -> bool:
        """Return whether the client cancelled the request."""
        return self._cancelled.is_set()


class RequestsInFlight:
    """The requests of one client, and the threads that answer them."""

    def __init__(self) -> None:
        """Start without requests and threads."""
        self._threads = RequestThreads()
        self._changed = threading.Condition()
        self._requests: set[InFlightRequest] = set()

    def begin(self, request: InFlightRequest, wait_seconds: float = 0.0) -> None:
        """Answer a request in a thread; its answer must ``forget`` it.

        With too many in flight, wait for ``wait_seconds``, then refuse it as ``overloaded``.
        """
        with self._changed:
            admitted = self._changed.wait_for(lambda: len(self._requests) < MAX_IN_FLIGHT, wait_seconds)
            if admitted and not request.finished:
                self._requests.add(request)
        if admitted:
            self._threads.submit(request.method, request.run)
        else:
            request.finish(None, overloaded_error())

    def forget(self, request: InFlightRequest) -> None:
        """Remove a request that has been answered."""
        with self._changed:
            self._requests.discard(request)
            self._changed.notify_all()

    def unanswered(self) -> list[InFlightRequest]:
        """Return the requests that have not been answered."""
        with self._changed:
            return list(self._requests)

    def cancel(self, key: Any) -> None:
        """Cancel all requests with this key."""
        for request in self.unanswered():
            if request.key == key:
                request.cancel()

    def cancel_all(self) -> None:
        """Cancel every request."""
        for request in self.unanswered():
            request.cancel()

    def empty_within(self, seconds: float, is_over: Callable[[], bool]) -> bool:
        """Wait until every request is answered; return false after ``seconds``, or once the client has gone."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._requests and not is_over():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.2))
            return not self._requests

    def close(self) -> None:
        """End the threads once all requests are answered."""
        self._threads.close()


def cancelled_error() -> UnderstudyError:
    """Return the error for a request that its client cancelled."""
    return UnderstudyError(
        ErrorKind.CANCELLED, "The request was cancelled.", hint="Send it again if you still need the answer."
    )


def overloaded_error() -> UnderstudyError:
    """Return the error for a request beyond ``MAX_IN_FLIGHT``."""
    return UnderstudyError(
        ErrorKind.OVERLOADED,
        f"Too many requests in flight (limit {MAX_IN_FLIGHT}).",
        hint="Wait until some of them are answered.",
    )
