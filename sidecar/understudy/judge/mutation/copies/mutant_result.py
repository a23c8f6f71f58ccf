"""The result of one mutant."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.model.evidence.mutation import NOTICED, MutantStatus
from understudy.mutants.mutant import Mutant


@dataclass(frozen=True, kw_only=True)
class MutantResult:
    """One mutant and its result."""

    path: str
    """Its file, relative to the tree."""
    mutant: Mutant
    status: MutantStatus
    killers: tuple[str, ...] = ()
    """The ids of the tests that failed; the run ends at the first."""
    ran: tuple[str, ...] = ()
    """The ids of the tests that ran."""
    crashed: bool = False
    """The tests that failed ran into an error instead of comparing something, as far as the runner can tell: any test
    that executes the line notices that."""
    seconds: float = 0.0
    sham: bool = False
    """It changes nothing that a program does."""

    @property
    def noticed(self) -> bool:
        """Return whether the tests noticed it."""
        return self.status in NOTICED

    @property
    def viable(self) -> bool:
        """Return whether it counts: it was judged, and could be built."""
        return self.noticed or self.status is MutantStatus.SURVIVED
