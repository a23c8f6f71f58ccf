"""How much evidence a result needs."""

from __future__ import annotations

from understudy.model.wire import Strict

FEW_MUTANTS = 20
MANY_MUTANTS = 40
"""Mutants for a check that takes more than ``SLOW_SECONDS``: the share of its start in each run is small."""
SLOW_SECONDS = 2.0
LEAST_SECONDS = 60.0
SECONDS_FACTOR = 5.0


class Evidence(Strict, kw_only=True):
    """``[evidence]``: bounds of mutation testing, and shares of mutants below which a result is not verified."""

    max_mutants: int | None = None
    """Most mutants per check. Absent: 20, or 40 for a check that takes more than 2 s."""
    mutation_seconds: float | None = None
    """Time for the mutants of a check. Absent: 60 s or 5 times the check, whichever is more."""
    max_copies: int | None = None
    """Most private copies of a result in which mutants are tested at the same time. Absent: one for each processor.

    Each copy beyond the first takes a free slot of a delegation. With 1, mutants are tested one after another.
    """
    least_killed: float = 0.3
    """Share of the mutants on executed lines that tests must notice, from 0 to 1."""
    least_executed: float = 0.1
    """Share of the mutants of the files under test that new tests must execute, from 0 to 1."""

    def mutants_for(self, check_seconds: float) -> int:
        """Return the most mutants for a check that takes this long."""
        return self.max_mutants or (MANY_MUTANTS if check_seconds > SLOW_SECONDS else FEW_MUTANTS)

    def seconds_for(self, check_seconds: float) -> float:
        """Return the time for all mutants of a check that takes this long."""
        return self.mutation_seconds or max(LEAST_SECONDS, SECONDS_FACTOR * check_seconds)
