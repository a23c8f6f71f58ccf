"""The result of one mutant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from understudy.mutants.mutant import Mutant


class MutantStatus(StrEnum):
    """The words of the mutation-testing report schema of Stryker, which its viewers read."""

    KILLED = "Killed"
    """A test that passed on the unchanged code failed."""
    SURVIVED = "Survived"
    """All tests that execute the line passed."""
    TIMEOUT = "Timeout"
    """The tests took far longer than on the unchanged code, which counts as killed."""
    NO_COVERAGE = "NoCoverage"
    """No test executes the line, so none was run."""
    COMPILE_ERROR = "CompileError"
    """The mutated code could not be built, loaded or collected: it does not count."""
    IGNORED = "Ignored"
    """The user dismissed it: it does not count."""
    PENDING = "Pending"
    """It was not judged: the time was over, or its process ended early."""


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
    seconds: float = 0.0
    sham: bool = False
    """It changes nothing that a program does."""

    @property
    def noticed(self) -> bool:
        """Return whether the tests noticed it."""
        return self.status in {MutantStatus.KILLED, MutantStatus.TIMEOUT}

    @property
    def viable(self) -> bool:
        """Return whether it counts: it was judged, and could be built."""
        return self.noticed or self.status is MutantStatus.SURVIVED
