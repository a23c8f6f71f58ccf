"""Find the check that runs all tests of a project, given the check that runs the new ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from understudy.judge.deciding.deciding_files import is_test_file
from understudy.judge.runs.check_run import CheckOutcome, PreparedCheck
from understudy.judge.runs.runner_registry import RUNNERS
from understudy.model.evidence.checks import Check

_RUNNER = re.compile("|".join(pattern for runner in RUNNERS for pattern in runner.command_lines))
_LEAST_SECONDS = 60.0
_TIMES = 5.0
_LONGER = 3.0


def suite_of(plan: PreparedCheck, green: CheckOutcome, base_paths: Collection[str]) -> PreparedCheck | None:
    """Return the check for the whole suite; None if it is not known how to run it, or the base has no tests."""
    tests = [path for path in sorted(base_paths) if is_test_file(path)]
    if not tests and not any(path.endswith(".rs") for path in base_paths):
        return None
    if not plan.uses_tests:
        return plan
    runner = plan.runner
    if not runner.reports and not green.report.started:
        return None
    named = tuple(path for path in tests if path.endswith(runner.suite_files))
    check = msgspec.structs.replace(
        plan.check, name=f"{plan.check.name} (whole suite)", argv=runner.whole_suite(plan.check.argv)
    )
    return PreparedCheck(check=check, kind=plan.kind, tests=named, builtin=plan.builtin, uses_tests=bool(named))


def within(plan: PreparedCheck, seconds: float) -> PreparedCheck:
    """Return the check with a time limit of 60 s or 5 times ``seconds``, whichever is more."""
    return _limited(plan, max(_LEAST_SECONDS, _TIMES * seconds))


def longer(plan: PreparedCheck) -> PreparedCheck:
    """Return the check with three times its time limit, for a run that another one of the same tests was faster than.

    A suite that needs about as long as the limit ends within it or not by chance.
    """
    return _limited(plan, _LONGER * (plan.check.timeout_seconds or _LEAST_SECONDS))


def _limited(plan: PreparedCheck, seconds: float) -> PreparedCheck:
    check: Check = msgspec.structs.replace(plan.check, timeout_seconds=seconds)
    return PreparedCheck(
        check=check, kind=plan.kind, tests=plan.tests, builtin=plan.builtin, uses_tests=plan.uses_tests
    )


def runs_tests(argv: Sequence[str]) -> bool:
    """Return whether a command looks as if it runs tests, so that its output should show some."""
    return bool(_RUNNER.search(" ".join(argv)))
