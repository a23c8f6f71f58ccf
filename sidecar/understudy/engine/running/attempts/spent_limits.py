"""Compute what the attempts so far have left of a delegation's limits."""

from __future__ import annotations

import time

from understudy.journal.writing.writer import Writer
from understudy.model.config.delegators import Limits
from understudy.model.delegation.spec import SpecCandidate
from understudy.model.errors import UnderstudyError
from understudy.policy.budget import Budget, Shortage, Spending, billed, spent_in


class SpentLimits:
    """The limits of one run: all of its attempts share them."""

    def __init__(self, writer: Writer) -> None:
        """Count the attempts in the journal of ``writer``, and the time from ``begin`` on."""
        self._writer = writer
        self._began = 0.0

    def begin(self) -> None:
        """Start the total time."""
        self._began = time.monotonic()

    def seconds_left(self, candidate: SpecCandidate) -> float | None:
        """Return how much of the candidate's total time all attempts together have left; None: there is no limit."""
        return self.budget(candidate).seconds_left

    def left(self, candidate: SpecCandidate, failure: UnderstudyError | None = None) -> Limits | str:
        """Return the limits of one more attempt on ``candidate``, or why there can be none.

        With the ``failure`` of the last attempt, those that cost nothing do not count.
        """
        reserved = self.budget(candidate, failure).reserve()
        return reserved.why if isinstance(reserved, Shortage) else reserved.left()

    def budget(self, candidate: SpecCandidate, failure: UnderstudyError | None = None) -> Budget:
        """Return the limits of ``candidate``, with what all attempts so far have spent of them."""
        attempts = self._writer.delegation.attempts
        counted = attempts if failure is None else billed(attempts, failure.info())
        elapsed = Spending(seconds=time.monotonic() - self._began)
        return Budget(candidate.limits).charge(elapsed, spent_in(counted))
