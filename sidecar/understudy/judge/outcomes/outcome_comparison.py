"""Compare the outcomes of tests in two runs of a check, test by test where the runs name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

PASSED, FAILED, SKIPPED, MISSING = "passed", "failed", "skipped", "missing"


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of a check showed."""

    green: bool
    outcomes: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Test id → ``passed``, ``failed`` or ``skipped``; empty for a runner whose output names no tests."""
    passed: int | None = None
    """How many tests passed; None if the run did not tell."""
    failed: int | None = None
    skipped: int | None = None
    unbuilt: bool = False
    """Test files could not be compiled or loaded."""
    timed_out: bool = False
    started: bool = True

    @property
    def passing(self) -> frozenset[str]:
        """Return the tests that passed."""
        return frozenset(test for test, outcome in self.outcomes.items() if outcome == PASSED)

    @property
    def all_passed(self) -> bool:
        """Return whether the run was green and nothing in it was skipped or hidden."""
        return self.green and not self.unbuilt and not self.skipped and self.passed != 0


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Tests that passed in an earlier run and did not pass in a later one."""

    tests: Mapping[str, str] = field(default_factory=dict)
    """Test id → its outcome in the later run: ``failed``, ``skipped`` or ``missing``."""
    unnamed: int = 0
    """Losses of runs that name no tests, at least 1 if the whole check is lost."""
    earlier: int = 0
    """How many tests passed in the earlier run."""

    def __bool__(self) -> bool:
        """Return whether anything was lost."""
        return bool(self.tests) or self.unnamed > 0

    @property
    def count(self) -> int:
        """Return how many tests were lost."""
        return len(self.tests) or self.unnamed

    def joined(self, other: Losses) -> Losses:
        """Return what was lost in any of two comparisons."""
        return Losses(
            tests={**other.tests, **self.tests},
            unnamed=max(self.unnamed, other.unnamed),
            earlier=max(self.earlier, other.earlier),
        )

    def only(self, tests: Iterable[str]) -> Losses:
        """Return the losses of some named tests."""
        return Losses(tests={test: self.tests[test] for test in tests}, earlier=self.earlier)

    def still(self, later: Losses) -> Losses:
        """Return what was lost in this and in a later comparison."""
        tests = {test: outcome for test, outcome in self.tests.items() if test in later.tests}
        return Losses(tests=tests, unnamed=min(self.unnamed, later.unnamed), earlier=self.earlier)


def losses(before: Observed, after: Observed) -> Losses:
    """Return the tests that passed in ``before`` and not in ``after``.

    A case of a parametrised test that got another id is not lost while as many cases of the test pass. Without ids,
    counts are compared; without counts, whether the check passed.
    """
    earlier = len(before.passing) or before.passed or 0
    if before.outcomes:
        cases = Counter(function_of(test) for test in after.passing)
        cases_before = Counter(function_of(test) for test in before.passing)
        lost = {}
        for test in sorted(before.passing):
            outcome = after.outcomes.get(test, MISSING)
            function = function_of(test)
            if outcome == PASSED or (
                outcome == MISSING and function != test and cases[function] >= cases_before[function]
            ):
                continue
            lost[test] = outcome
        if lost:
            return Losses(tests=lost, earlier=earlier)
    elif before.passed and before.passed > (after.passed or 0):
        return Losses(unnamed=before.passed - (after.passed or 0), earlier=earlier)
    return Losses(unnamed=int(before.green and not after.green), earlier=earlier)


def fewer(restored: Observed, result: Observed) -> Losses:
    """Return the tests of the base that pass on the result but no longer run, or are skipped, in the result's own run.

    Tests that were renamed are not among them: for each, the result has a new test that passes.
    """
    lost = losses(restored, result)
    if not lost.tests:
        return lost if restored.passed and not result.passed else Losses(earlier=lost.earlier)
    added = len(result.passing - restored.outcomes.keys())
    missing = [test for test, outcome in lost.tests.items() if outcome == MISSING]
    kept = {test: outcome for test, outcome in lost.tests.items() if outcome == SKIPPED}
    if len(missing) > added:
        kept.update(dict.fromkeys(missing, MISSING))
    return Losses(tests=kept, earlier=lost.earlier)


def hidden(base: Observed, restored: Observed, result: Observed) -> Losses:
    """Return the tests of the base that fail with the base's files, and do not fail in a green run of the result.

    Its edits of tests or of the check are why it is green, also where the base was red. A test is one of the base if
    the base's run shows it, or could not load all of them. If no test is named, failures are counted; if none are, the
    whole check counts as one.
    """
    if not result.green:
        return Losses()
    shows_all = bool(base.outcomes) and not base.unbuilt and not base.timed_out
    failed = [test for test, outcome in restored.outcomes.items() if outcome == FAILED]
    tests = {
        test: FAILED
        for test in sorted(failed)
        if result.outcomes.get(test) != FAILED and (test in base.outcomes or not shows_all)
    }
    unnamed = 0
    if not restored.green and not tests:
        # A run that counts its tests and has none is red as well: the first tests of a project are not hidden.
        has_none = not restored.outcomes and restored.passed == 0 and not restored.failed
        unnamed = 0 if restored.outcomes else restored.failed or 0
        unnamed = unnamed or int(restored.unbuilt or restored.timed_out or not has_none)
    earlier = len(base.outcomes.keys() | tests.keys())
    return Losses(tests=tests, unnamed=unnamed, earlier=earlier)


def given_up(before: Observed, after: Observed) -> Losses:
    """Return the tests that failed in ``before`` and are skipped, or no longer run, in ``after``.

    A case of a parametrised test that got another id is not given up while as many cases of the test run. Nor is a
    missing test if the run does not name the tests that pass. Without names, skipped and missing tests are counted.
    """
    if not before.outcomes and not after.outcomes:
        skipped = (after.skipped or 0) - (before.skipped or 0)
        gone = _total(before) - _total(after)
        return Losses(unnamed=max(0, min(before.failed or 0, max(skipped, gone))), earlier=_total(before))
    names_passing = bool(after.passing) or after.passed == 0
    failed = [test for test, outcome in before.outcomes.items() if outcome == FAILED]
    ran = Counter(function_of(test) for test, outcome in after.outcomes.items() if outcome != SKIPPED)
    ran_before = Counter(function_of(test) for test, outcome in before.outcomes.items() if outcome != SKIPPED)
    tests = {}
    for test in sorted(failed):
        outcome = after.outcomes.get(test, MISSING)
        function = function_of(test)
        renamed = outcome == MISSING and function != test and ran[function] >= ran_before[function]
        if outcome == SKIPPED or (outcome == MISSING and names_passing and not renamed):
            tests[test] = outcome
    return Losses(tests=tests, earlier=len(before.outcomes))


def _total(run: Observed) -> int:
    return (run.passed or 0) + (run.failed or 0) + (run.skipped or 0)


def newly_red(before: Observed, after: Observed) -> list[str]:
    """Return the tests that passed in ``before`` and fail in ``after``, or can no longer be loaded."""
    bad = {FAILED, MISSING} if after.unbuilt else {FAILED}
    return [test for test, outcome in losses(before, after).tests.items() if outcome in bad]


def function_of(test: str) -> str:
    """Return a test's id without its parameters."""
    return test.partition("[")[0]
