"""What every runner of tests on mutants takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from understudy.model.evidence.checks import NOTICED, MutantStatus
from understudy.mutants.mutant import Mutant


@dataclass(frozen=True, kw_only=True)
class RecordedTests:
    """One run on the unchanged code."""

    passed: Mapping[str, float]
    """Test id → seconds."""
    failed: frozenset[str]
    lines: Mapping[str, Mapping[str, frozenset[int]]]
    """File (relative to the tree) → test id → executed lines; the empty id has those that run when it is loaded."""
    compiled: frozenset[str] = frozenset()
    """Files that the tests only run by importing them, and whose compiled form the runner can put in place."""
    modules: tuple[str, ...]
    """Modules outside the tree that the tests need."""
    early: bool = False
    """The test runner loads modules of the tree before it looks for tests."""
    seconds: float

    def tests_of(self, path: str, mutant: Mutant) -> list[str]:
        """Return the tests that execute the mutated line, the fastest first. Code that runs at import: all tests."""
        lines = range(mutant.first_line, mutant.last_line + 1)
        by_test = self.lines.get(path, {})
        reached = [test for test, executed in by_test.items() if test and executed.intersection(lines)]
        if not reached and by_test.get("", frozenset()).intersection(lines):
            reached = list(by_test) if mutant.function else list(self.passed)
        return sorted((test for test in reached if test in self.passed), key=lambda test: (self.passed[test], test))


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A mutant with the tests to run on it."""

    path: str
    mutant: Mutant
    tests: tuple[str, ...]
    sham: bool = False
    decoy: bool = False
    """Only the text of the file changes: what runs is the compiled form of the original. Always a sham mutant."""
    to_the_end: bool = False
    """Run all tests, also after one failed. Runs of sham mutants do so anyway."""


@dataclass(frozen=True, kw_only=True)
class MutantRuns:
    """The results of one batch."""

    results: list[MutantResult] = field(default_factory=list)
    kept: bool = False
    """One process served many mutants."""
    copies: int = 0
    """In how many copies of the result they ran at the same time; 0 if none was run."""
    complete: bool = False
    """All planned runs were made."""


class MutantRunner(Protocol):
    """Runs the tests of one check on mutants, in one copy of the result."""

    @property
    def can_keep(self) -> bool:
        """Whether one process can serve many mutants."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether one process serves many mutants now."""
        ...

    async def record(self, files: Sequence[str], *, seconds: float) -> RecordedTests:
        """Run the tests once on the unchanged code and record which lines of ``files`` they execute.

        A runner that cannot tell the lines of single tests gives all tests the lines of the whole run. Raise
        ``tool_crashed`` if the run does not complete within ``seconds``.
        """
        ...

    async def begin(
        self, recorded: RecordedTests, planned: Sequence[PlannedRun], *, seconds: float, keep: bool, warm: bool
    ) -> bool:
        """Run the tests of all ``planned`` on the unchanged code, in the circumstances of a mutant.

        Return whether all of them pass that passed before; if not, nothing can be learned from mutants. ``keep`` lets
        one process serve many mutants. ``warm`` only starts and loads what is kept, so that the next call runs the
        tests at once. ``seconds`` is for this run and all that follow.
        """
        ...

    async def judge(self, run: PlannedRun, *, seconds: float) -> MutantResult:
        """Run the tests of a mutant within ``seconds``, after ``begin``."""
        ...

    async def close(self) -> None:
        """End what is kept between mutants."""
        ...


def pending_result(run: PlannedRun) -> MutantResult:
    """Return the result of a run that was not made."""
    status = MutantStatus.PENDING if run.tests else MutantStatus.NO_COVERAGE
    return MutantResult(path=run.path, mutant=run.mutant, status=status, sham=run.sham)


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
