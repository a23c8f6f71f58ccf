"""The budget of a run: its clock and its journal say what was spent."""

from __future__ import annotations

import time

from understudy.journal.writing.writer import Writer
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import UnderstudyError
from understudy.policy.budget import Budget, Spending, billed, spent_in


class RunBudget:
    """The limits of one run: all of its attempts share them."""

    def __init__(self, writer: Writer) -> None:
        """Count the attempts in the journal of ``writer``, and the time from ``begin`` on."""
        self._writer = writer
        self._began = 0.0

    def begin(self) -> None:
        """Start the total time."""
        self._began = time.monotonic()

    def of(self, candidate: SpecCandidate, failure: UnderstudyError | None = None) -> Budget:
        """Return the limits of ``candidate``, with what all attempts so far have spent of them.

        With the ``failure`` of the last attempt, those that cost nothing do not count.
        """
        attempts = self._writer.delegation.attempts
        counted = attempts if failure is None else billed(attempts, failure.info())
        elapsed = Spending(seconds=time.monotonic() - self._began)
        return Budget(candidate.limits).charge(elapsed, spent_in(counted))
