"""Decide what one run of a check on a mutant shows. All runners share this rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from understudy.judge.outcomes.outcome_comparison import FAILED, PASSED
from understudy.judge.runs.check_run import CheckOutcome
from understudy.judge.runs.runner_registry import RUNNERS
from understudy.model.evidence.checks import MutantStatus

_CRASHED = tuple(text for runner in RUNNERS for text in runner.died)


@dataclass(frozen=True, kw_only=True)
class SeenRun:
    """What one run of a check showed."""

    outcomes: Mapping[str, str]
    """Test id → ``passed``, ``failed`` or ``skipped``; empty if the run named no tests."""
    green: bool
    """It ended with exit code 0, and nothing contradicts that."""
    seconds: float
    started: bool = True
    unbuilt: bool = False
    """Something could not be compiled or loaded."""
    timed_out: bool = False
    crashed: bool = False
    """A signal ended it, such as that of a stack overflow."""
    output: str = ""
    """The end of its output."""

    @property
    def passing(self) -> frozenset[str]:
        """Return the tests that passed."""
        return frozenset(test for test, outcome in self.outcomes.items() if outcome == PASSED)

    @property
    def failing(self) -> frozenset[str]:
        """Return the tests that failed."""
        return frozenset(test for test, outcome in self.outcomes.items() if outcome == FAILED)

    def only(self, tests: Iterable[str]) -> SeenRun:
        """Return the run as if no other tests had run."""
        return replace(self, outcomes={test: self.outcomes[test] for test in tests if test in self.outcomes})


def seen_run(outcome: CheckOutcome) -> SeenRun:
    """Return what a run of ``run_once`` showed."""
    return SeenRun(
        outcomes=outcome.observed.outcomes,
        green=outcome.green,
        seconds=outcome.seconds,
        started=outcome.started,
        unbuilt=outcome.observed.unbuilt,
        timed_out=outcome.timed_out,
        crashed=outcome.started
        and not outcome.timed_out
        and (outcome.code is None or any(text in outcome.output for text in _CRASHED)),
        output=outcome.output,
    )


def status_of(clean: SeenRun, seen: SeenRun) -> tuple[MutantStatus, tuple[str, ...]]:
    """Return the status of a mutant and the tests that killed it.

    ``clean`` is a run in the same circumstances on the unchanged code. Only a test that passed there can kill. The
    check as a whole counts as one test without a name if it names none.
    """
    if not seen.started:
        return MutantStatus.PENDING, ()
    if not clean.outcomes:
        return _status_without_names(clean, seen), ()
    killers = tuple(sorted(clean.passing & seen.failing))
    if killers:
        return MutantStatus.KILLED, killers
    if seen.timed_out:
        return MutantStatus.TIMEOUT, ()
    missing = clean.passing - seen.outcomes.keys()
    if missing and seen.crashed:
        # A test was running when the process died, but which one is unknown.
        return MutantStatus.KILLED, tuple(sorted(missing))
    if missing and (seen.unbuilt or not seen.outcomes):
        return MutantStatus.COMPILE_ERROR, ()
    # A test that does not count may have failed beside them.
    beside = bool(seen.failing) and clean.passing <= seen.passing
    if seen.green or beside or (not clean.green and not missing):
        return MutantStatus.SURVIVED, ()
    return MutantStatus.PENDING, ()  # it is red, but no test failed: that proves nothing


def _status_without_names(clean: SeenRun, seen: SeenRun) -> MutantStatus:
    if not clean.green:
        return MutantStatus.PENDING
    if seen.timed_out:
        return MutantStatus.TIMEOUT
    if seen.green:
        return MutantStatus.SURVIVED
    return MutantStatus.COMPILE_ERROR if seen.unbuilt else MutantStatus.KILLED
