"""A client's request under way: it begins once, is answered once, and may be taken back at any time.

The thread that answers and the one that hears of a withdrawal meet here; a face adds what an answer looks like.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from understudy.model.errors import ErrorKind, UnderstudyError

MOST = 1000
"""Requests of one client that may be unanswered at once; one more is answered with ``overloaded``."""


class Pending(ABC):
    """One request; a subclass answers it in ``refuse`` and wherever ``first_to_answer`` says that it may."""

    def __init__(self) -> None:
        """Nothing has begun."""
        self._lock = threading.Lock()
        self._begun = False
        self._finished = False
        self._withdrawn = threading.Event()

    @abstractmethod
    def refuse(self, error: UnderstudyError) -> None:
        """Answer with this error, if no answer was given yet."""

    def begins(self) -> bool:
        """Note that work on it begins; False when it has its answer already."""
        with self._lock:
            self._begun = not self._finished
            return self._begun

    def first_to_answer(self) -> bool:
        """Tell once, to whoever asks first, that the answer is theirs to give."""
        with self._lock:
            first = not self._finished
            self._finished = True
            return first

    def withdraw(self) -> None:
        """Take back the wish: what has not begun is answered at once, what runs is told."""
        self._withdrawn.set()
        with self._lock:
            begun = self._begun
        if not begun:
            self.refuse(withdrawn())

    @property
    def finished(self) -> bool:
        """Whether the answer was given."""
        return self._finished

    def cancelled(self) -> bool:
        """Tell whether the client withdrew it."""
        return self._withdrawn.is_set()


def withdrawn() -> UnderstudyError:
    """Return what a request is answered with that its client took back."""
    return UnderstudyError(ErrorKind.CANCELLED, "The request was withdrawn.", hint="Send it again if you want it.")


def overloaded() -> UnderstudyError:
    """Return what a request is answered with whose client has ``MOST`` unanswered ones."""
    return UnderstudyError(
        ErrorKind.OVERLOADED, f"{MOST} requests are unanswered already.", hint="Wait for some of them."
    )
