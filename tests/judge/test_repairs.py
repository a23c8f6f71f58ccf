"""A repair: a test fails on the code of the base and passes on the result's, or nothing shows what was repaired."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from understudy.judge.outcomes.observations import Observed, repaired
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

CALC = "def double(a):\n    return a * 3\n\n\ndef half(a):\n    return a // 2\n"
FIXED = CALC.replace("a * 3", "a * 2")
HALF = "from calc import half\n\n\ndef test_half():\n    assert half(8) == 4\n    assert half(6) == 3\n"
DOUBLE = "from calc import double\n\n\ndef test_double():\n    assert double(4) == 8\n    assert double(3) == 6\n"
SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])


def seen(*failed: str, passed: tuple[str, ...] = (), skipped: tuple[str, ...] = (), **more: Any) -> Observed:
    outcomes = dict.fromkeys(failed, "failed") | dict.fromkeys(passed, "passed") | dict.fromkeys(skipped, "skipped")
    return Observed(green=not failed and not more, outcomes=outcomes, passed=len(passed), failed=len(failed), **more)


@pytest.mark.parametrize(
    ("before", "after", "shows"),
    [
        (seen("a", passed=("b",)), seen(passed=("a", "b")), True),
        (seen("a", passed=("b",)), seen(passed=("b",), skipped=("a",)), False),
        (seen("a", passed=("b",)), seen(passed=("b", "c")), False),
        (seen(passed=("a",)), seen(passed=("a", "b")), False),
        (seen(passed=("a",), unbuilt=True), seen(passed=("a", "b")), True),
        (seen(passed=("a",), unbuilt=True), seen(passed=("a",)), False),
        (seen(passed=("a",), timed_out=True), seen(passed=("a", "b")), True),
        (seen("a"), Observed(green=True), True),
        (Observed(green=False), Observed(green=True), True),
        (Observed(green=False, started=False), Observed(green=True), False),
        (Observed(green=False), Observed(green=False), False),
    ],
)
def test_what_shows_a_repair(before: Observed, after: Observed, shows: bool) -> None:
    assert repaired(before, after) is shows


async def test_a_change_that_no_failing_test_asked_for_repairs_nothing(empty_project: Any) -> None:
    """It is tested, before and after; a test that is added passes without it."""
    base = {"calc.py": FIXED, "test_half.py": HALF, "test_double.py": DOUBLE}
    edits = {"calc.py": FIXED.replace("a * 2", "2 * a"), "test_more.py": HALF.replace("8) == 4", "2) == 1")}
    judged = await empty_project.has(base).judge(edits, recipe="fix", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.PROBLEM_NOT_SHOWN)


@pytest.mark.heavy
async def test_a_check_of_new_tests_alone_fails_on_the_base_for_want_of_them(empty_project: Any) -> None:
    empty_project.has({"calc.py": FIXED, "test_half.py": HALF})
    edits = {"calc.py": FIXED.replace("a * 2", "2 * a"), "test_double.py": DOUBLE}
    check = Check(name="new", argv=["{python}", "-m", "pytest", "-q", "{tests}"])
    judged = await empty_project.judge(edits, recipe="fix", checks=(check,))
    assert Reservation.PROBLEM_NOT_SHOWN in judged.said


@pytest.mark.heavy
async def test_a_regression_test_that_fails_without_the_repair_is_enough(empty_project: Any) -> None:
    """The earlier tests pass before and after; the test is in a file that has earlier ones, below a folder."""
    empty_project.has({"calc.py": CALC, "tests/test_calc.py": HALF})
    edits = {"calc.py": FIXED, "tests/test_calc.py": HALF + DOUBLE.replace("from", "\n\nfrom", 1)}
    judged = await empty_project.judge(edits, recipe="fix", checks=(SUITE,))
    assert judged.is_(Verdict.VERIFIED)


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
async def test_a_repair_of_a_script_needs_a_failing_test_too(empty_project: Any) -> None:
    code = "exports.double = (a) => a * 3;\nexports.half = (a) => a / 2;\n"
    test = "require('node:test')('{0}', () => require('node:assert').equal(require('./calc.js').{0}(4), {1}));\n"
    empty_project.has({"calc.js": code, "half.test.js": test.format("half", 2)})
    check = Check(name="node", argv=["node", "--test"])
    edits = {
        "calc.js": code.replace("a / 2", "a * 0.5"),
        "more.test.js": test.format("half", 2).replace("'half'", "'x'"),
    }
    judged = await empty_project.judge(edits, recipe="fix", checks=(check,))
    assert Reservation.PROBLEM_NOT_SHOWN in judged.said
    edits = {"calc.js": code.replace("a * 3", "a * 2"), "double.test.js": test.format("double", 8)}
    judged = await empty_project.judge(edits, recipe="fix", checks=(check,))
    assert judged.is_(Verdict.VERIFIED)


@pytest.mark.heavy
@pytest.mark.parametrize("argv", [["{python}", "run.py"], ["make", "test"]])
async def test_a_check_without_names_is_repaired_when_its_exit_code_is(empty_project: Any, argv: list[str]) -> None:
    run = "import calc\nraise SystemExit(calc.double(4) != 8)\n"
    empty_project.has({"calc.py": CALC, "run.py": run, "Makefile": "test:\n\tpython3 run.py\n"})
    check = Check(name="run", argv=argv)
    judged = await empty_project.judge({"run.py": run.replace("!= 8", "is None")}, recipe="fix", checks=(check,))
    assert judged.asks(Reservation.CHECK_CHANGED)
    judged = await empty_project.judge({"calc.py": FIXED}, recipe="fix", checks=(check,))
    assert judged.is_(Verdict.VERIFIED)
    empty_project.has({"calc.py": FIXED})
    judged = await empty_project.judge({"calc.py": FIXED.replace("a * 2", "2 * a")}, recipe="fix", checks=(check,))
    assert Reservation.PROBLEM_NOT_SHOWN in judged.said
