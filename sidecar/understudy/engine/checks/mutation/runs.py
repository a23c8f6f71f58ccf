"""What every runner of tests on mutants takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from understudy.engine.checks.mutation.mutant_result import MutantResult
from understudy.model.evidence.mutation import MutantStatus
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
    forked: bool = False
    """One interpreter served all mutants."""
    complete: bool = False
    """All planned runs were made."""


class MutantRunner(Protocol):
    """Runs the tests of one check on mutants, in a copy of the result."""

    async def record(self, files: Sequence[str], *, seconds: float) -> RecordedTests:
        """Run the tests once on the unchanged code and record which lines of ``files`` they execute.

        A runner that cannot tell the lines of single tests gives all tests the lines of the whole run. Raise
        ``tool_crashed`` if the run does not complete within ``seconds``.
        """
        ...

    async def run(self, recorded: RecordedTests, planned: Sequence[PlannedRun], *, seconds: float) -> MutantRuns:
        """Run the tests on one mutant after another within ``seconds``; what was not reached is ``PENDING``."""
        ...


def pending_result(run: PlannedRun) -> MutantResult:
    """Return the result of a run that was not made."""
    status = MutantStatus.PENDING if run.tests else MutantStatus.NO_COVERAGE
    return MutantResult(path=run.path, mutant=run.mutant, status=status, sham=run.sham)
