"""A client's request in flight: started once, answered exactly once, cancellable at any time.

The thread that answers and the thread that reads a cancellation share it. A frontend adds how to send an answer.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from understudy.model.errors import ErrorKind, UnderstudyError

MAX_IN_FLIGHT = 1000
"""How many requests of one client may be in flight; further ones are answered with ``overloaded``."""


class InFlightRequest(ABC):
    """One request; subclasses answer it in ``refuse`` and wherever ``first_to_answer`` returns true."""

    def __init__(self) -> None:
        """Create a request that has not started."""
        self._lock = threading.Lock()
        self._begun = False
        self._finished = False
        self._cancelled = threading.Event()

    @abstractmethod
    def refuse(self, error: UnderstudyError) -> None:
        """Answer with this error unless the request has been answered."""

    def begins(self) -> bool:
        """Mark the request as started; return false if it has been answered already."""
        with self._lock:
            self._begun = not self._finished
            return self._begun

    def first_to_answer(self) -> bool:
        """Return true for the first caller only: that caller gives the answer."""
        with self._lock:
            first = not self._finished
            self._finished = True
            return first

    def cancel(self) -> None:
        """Cancel the request: one that has not started is answered at once, a running one sees ``cancelled``."""
        self._cancelled.set()
        with self._lock:
            begun = self._begun
        if not begun:
            self.refuse(cancelled_error())

    @property
    def finished(self) -> bool:
        """Whether the request has been answered."""
        return self._finished

    def cancelled(self) -> bool:
        """Return whether the client cancelled the request."""
        return self._cancelled.is_set()


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
