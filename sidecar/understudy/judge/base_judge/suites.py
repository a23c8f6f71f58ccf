"""Find the check that runs all tests of a project, given the check that runs the new ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import msgspec

from understudy.judge.deciding.deciding_files import is_test_file
from understudy.judge.runs.check_run import TESTS_SLOT, CheckOutcome, PreparedCheck
from understudy.model.evidence.checks import Check

_RUNNER = re.compile(
    r"(?:^|[/\s=])(?:pytest|py\.test|unittest|nose2?|tox|nox|vitest|jest|mocha|ava|tap|karma|playwright)(?:$|[\s@.])|--test\b|"
    r"(?:^|\s)(?:cargo|go|npm|pnpm|yarn|bun|deno|hatch|pdm|mvn|gradle|\S*gradlew|manage\.py|make|just|nextest)\s"
    r"(?:\S+\s)*?\S*(?:test|check)"
)
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
    argv = {
        "pytest": [argument for argument in plan.check.argv if argument != TESTS_SLOT],
        "unittest": plan.check.argv,
        "go": ["go", "test", "-json", "-count=1", "./..."],
        "cargo": ["cargo", "test", "--color", "never", "--no-fail-fast"],
    }.get(plan.kind)
    if argv is None and (plan.kind in {"jest", "vitest"} or green.report.started):
        argv = [argument for argument in plan.check.argv if TESTS_SLOT not in argument]
        argv = [argument for argument in argv if argument != "--runTestsByPath"]
    if argv is None:
        return None
    python = tuple(path for path in tests if path.endswith(".py")) if plan.kind == "unittest" else ()
    check = msgspec.structs.replace(plan.check, name=f"{plan.check.name} (whole suite)", argv=list(argv))
    return PreparedCheck(check=check, kind=plan.kind, tests=python, builtin=plan.builtin, uses_tests=bool(python))


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
