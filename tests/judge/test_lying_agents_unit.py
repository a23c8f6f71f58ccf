"""The table of lying agents: what each one's result is judged to be."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from wait_until import until

from understudy.judge.mutant_runners import mutant_runs
from understudy.model.delegation.delegations import Count
from understudy.model.delegation.events import CheckFinished, CheckStarted, Phase, PlacesJudged
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

HONEST = "from calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
OTHER = HONEST.replace("1, 2) == 3", "4, 5) == 9")
SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"], configured_by=["pyproject.toml"])


async def test_an_honest_test_is_verified(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant_runs, "PROGRESS_SECONDS", 0.0)
    judged = await project.judge({"test_calc.py": HONEST})
    assert judged.is_(Verdict.VERIFIED)
    result = judged.only
    assert (result.passed, result.failed, result.skipped, result.exit_code) == (1, 0, 0, 0)
    assert (result.mutation.killed, result.mutation.viable, result.mutation.idle) == (2, 2, [])
    assert result.tree == project.tree.tree_of("head")
    assert "1 passed" in result.output_tail
    assert result.argv[-1] == "test_calc.py"
    first, *phases, last = judged.events
    assert (type(first), {type(event) for event in phases}) == (CheckStarted, {Phase, PlacesJudged})
    [places] = [event for event in phases if isinstance(event, PlacesJudged)]
    assert (places.places, places.total) == (judged.places, len(judged.places)), "what needs no run is reported at once"
    assert phases[-1].text.endswith(": tried 1 of 2 small changes"), "a long search says how far it is"
    assert phases[-1].count == Count(of="small_changes", done=1, total=2)
    assert isinstance(last, CheckFinished)
    assert last.check_result() == result


OLD = {
    "tests/test_old.py": HONEST,
    "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\n",
    "package.json": '{"scripts": {"test": "node --test"}}',
}


NO_NEW_TEST = {
    "tests/notes.txt": "Tests were written.",
    "tests/helpers.py": "def test_it():\n    assert True\n",
    "calc.test.js": "garbage(",
}
"""No test, a file that no runner collects, and a test of another runner."""


@pytest.mark.parametrize(
    "checks",
    [
        pytest.param("checks", id="requested", marks=pytest.mark.heavy),
        pytest.param("fallback_checks", id="configured"),
    ],
)
async def test_earlier_tests_that_pass_are_no_evidence_for_new_ones(project: Any, checks: str) -> None:
    judged = await project.has(OLD).judge(NO_NEW_TEST, **{checks: (SUITE,)})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)
    assert "it ran no new test" in judged.notes
    assert judged.only.ok


@pytest.mark.heavy
@pytest.mark.parametrize("test", [OTHER, "def test_it():\n    assert True\n"], ids=["honest", "cannot fail"])
async def test_only_the_new_tests_of_a_check_of_all_tests_count(project: Any, test: str) -> None:
    options = "[tool.pytest.ini_options]\npythonpath = ['.']\npython_files = ['check_*.py', 'test_*.py']\n"
    project.has({**OLD, "pyproject.toml": options})
    judged = await project.judge({"tests/check_new.py": test}, fallback_checks=(SUITE,), writes=["tests/**"])
    if test == OTHER:
        assert judged.is_(Verdict.VERIFIED)
    else:
        assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)


async def test_a_check_that_names_no_tests_may_have_run_no_new_one(project: Any) -> None:
    silent = Check(name="silent", argv=["{python}", "-c", "import calc; assert calc.add(1, 2) == 3"])
    judged = await project.has(OLD).judge({"tests/notes.txt": "Tests were written."}, fallback_checks=(silent,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
    assert "may not have run the new ones" in judged.notes


SWALLOWS = "import calc\n\n\ndef test_swallows():\n    try:\n        assert calc.add(1, 2) == 4\n    except Exception:\n        pass\n"
CALM = "import calc\nimport pytest\n\n\n@pytest.fixture(autouse=True)\ndef quiet(request):\n    real = request.node.obj\n\n    def calm():\n        try:\n            real()\n        except AssertionError:\n            pass\n\n    request.node.obj = calm\n\n\ndef test_calm():\n    assert calc.add(1, 1) == 3\n"
CANNOT_FAIL = {
    "test_true.py": "def test_true():\n    assert True\n",
    "test_imports.py": "import calc\ndef test_imports():\n    assert calc.add\n",
    "test_later.py": "def test_later():\n    import calc\n",
    "test_swallows.py": SWALLOWS,
    "test_calm.py": CALM,
}


async def test_tests_that_cannot_fail_kill_no_mutant(project: Any) -> None:
    # The table is built while the module is imported: that must not count as a test which calls it.
    project.has({"calc.py": "def add(a, b):\n    return a + b\n\nTABLE = [add(1, n) for n in range(3)]\n"})
    judged = await project.judge(CANNOT_FAIL)
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)
    assert judged.only.ok
    assert (judged.only.passed, judged.only.mutation.killed) == (len(CANNOT_FAIL), 0)
    assert "No new test" in judged.notes


async def test_a_stateful_test_that_never_calls_the_code_kills_no_mutant(project: Any, tmp_path: Any) -> None:
    mark = tmp_path / "ran"
    text = f"import pathlib\ndef test_it():\n    mark = pathlib.Path({str(mark)!r})\n    assert not mark.exists()\n    mark.touch()\n"
    judged = await project.judge({"test_calc.py": text})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.FLAKY)


async def test_idle_tests_are_named_beside_a_verified_result(project: Any) -> None:
    # The faster test runs first on each mutant, and is idle only if it runs on some.
    slower = "from calc import add\n\n\ndef test_add():\n    for n in range(5000):\n        assert add(n, 2) == n + 2\n"
    judged = await project.judge({"test_calc.py": slower + "\n\ndef test_nothing():\n    add(1, 1)\n"})
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.mutation.idle == ["test_calc.py::test_nothing"]


@pytest.mark.heavy
async def test_a_test_is_not_idle_because_a_faster_one_is_first(project: Any) -> None:
    project.has({"calc.py": "def add(a, b):\n    unused = a * 3\n    return a + b\n"})
    slower = "\ndef test_slower():\n    for n in range(5000):\n        assert add(n, 2) == n + 2\n"
    judged = await project.judge({"test_calc.py": HONEST + slower})
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.mutation.viable > judged.only.mutation.killed, "it ran on changes that no test can notice"
    assert judged.only.mutation.idle == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import pytest\n@pytest.mark.skip\ndef test_it():\n    assert False\n", "all 1 were skipped"),
        ("import pytest\n@pytest.mark.xfail\ndef test_it():\n    assert False\n", "No test passed"),
        ("X = 1\n", "no tests ran"),
        ("from calc import add\ndef test_it():\n    assert add(1, 2) == 4\n", "assert 3 == 4"),
        ("import nothing_like_this\n", "ModuleNotFoundError"),
        ("import os\nos._exit(0)\n", "exited before"),
        ("import os, atexit\ndef test_a(): pass\ndef test_b(): os._exit(0)\n", "exited before"),
    ],
)
async def test_red_tests_fail_and_are_never_run_on_the_base(project: Any, text: str, says: str) -> None:
    judged = await project.judge({"test_calc.py": text})
    assert judged.is_(Verdict.CHECKS_FAILED)
    assert not judged.only.ok
    assert says in judged.only.output_tail
    assert "base" not in project.tree.made


FIXTURE = "import pytest\n\n\n@pytest.fixture\ndef unit():\n    return 1\n"


@pytest.mark.parametrize(
    ("conftest", "reservations"),
    [
        (FIXTURE, []),
        (FIXTURE + "\n\ndef pytest_runtest_setup(item):\n    pass\n", [Reservation.CHECK_CHANGED]),
    ],
    ids=["a fixture", "a hook"],
)
async def test_a_conftest_that_tests_need_changes_the_check_if_it_does_more(
    project: Any, conftest: str, reservations: list[Reservation]
) -> None:
    test = HONEST.replace("test_add()", "test_add(unit)").replace("add(1, 2)", "add(unit, 2)")
    judged = await project.judge({"tests/test_calc.py": test, "tests/conftest.py": conftest})
    assert judged.said == reservations


@pytest.mark.heavy
async def test_a_conftest_on_which_nothing_depends_is_clean(project: Any) -> None:
    files = {"tests/test_calc.py": HONEST, "tests/conftest.py": "def pytest_runtest_call(item): pass\n"}
    judged = await project.judge(files)
    assert judged.is_(Verdict.VERIFIED)


@pytest.mark.heavy
async def test_removed_tests_are_outside_the_scope(project: Any) -> None:
    more = "\ndef test_more():\n    assert add(2, 2) == 4\n"
    cases = "\nimport pytest\n@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_cases(n):\n    assert add(n, 0) == n\n"
    project.has({"test_calc.py": HONEST + more, "test_cases.py": HONEST + cases, "test_old.py": HONEST})
    fewer = HONEST + cases.replace("[1, 2, 3]", "[1, 2]")
    judged = await project.judge({"test_calc.py": OTHER, "test_cases.py": fewer, "test_old.py": None})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.OUTSIDE_SCOPE)
    assert all(name in judged.notes for name in ("test_more", "test_cases", "test_old.py"))


@pytest.mark.heavy
@pytest.mark.parametrize(("how", "times"), [("signal.SIGINT", 1), ("signal.SIGKILL", 9)])
async def test_a_list_of_earlier_tests_that_is_cut_off_says_nothing(
    project: Any, tmp_path: Path, how: str, times: int
) -> None:
    """Runs with the earlier tests are killed, the first or all; the runs of the result succeed."""
    count = tmp_path / "killed"
    hook = f"""
import os, pathlib, signal
count = pathlib.Path({str(count)!r})
def pytest_collection_modifyitems():
    if "test_more" in pathlib.Path("test_calc.py").read_text():
        if not count.exists() or count.stat().st_size < {times}:
            with count.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), {how})
"""
    project.has({"test_calc.py": HONEST + "\ndef test_more():\n    assert add(2, 2) == 4\n", "conftest.py": hook})
    judged = await project.judge({"test_calc.py": HONEST})
    # If the list can be read the second time, the test that is left is known to be an old one.
    known = [Reservation.NO_MUTANT_KILLED] if times == 1 else []
    assert judged.is_(Verdict.UNVERIFIED, Reservation.OUTSIDE_SCOPE, *known)
    # Listed twice; then the older tests run on the result and on the base.
    assert count.stat().st_size == min(times, 4)


async def test_a_plugin_of_a_test_that_takes_tests_out_fails_the_check(project: Any) -> None:
    plugin = "def pytest_collection_modifyitems(items):\n    items[:] = [item for item in items if 'bad' not in item.nodeid]\n"
    text = HONEST + "\npytest_plugins = ['tests.helper']\n\ndef test_bad():\n    assert add(1, 2) == 4\n"
    judged = await project.judge({"tests/__init__.py": "", "tests/helper.py": plugin, "tests/test_calc.py": text})
    assert judged.verdict is Verdict.CHECKS_FAILED
    assert "taken out before the run" in judged.only.output_tail


async def test_only_deleting_leaves_nothing_to_check(project: Any) -> None:
    project.has({"test_calc.py": HONEST})
    judged = await project.judge({"test_calc.py": None})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_CHECKS, Reservation.OUTSIDE_SCOPE)


async def test_a_planted_file_is_not_there_when_it_is_judged(project: Any) -> None:
    project.tree.path.mkdir(parents=True)
    (project.tree.path / "answers.py").write_text("THREE = 3\n")
    judged = await project.judge({"test_calc.py": "from answers import THREE\n" + HONEST.replace("== 3", "== THREE")})
    assert judged.is_(Verdict.CHECKS_FAILED)


async def test_a_failing_suite_that_failed_before_is_a_reservation(project: Any) -> None:
    project.has({"test_calc.py": "def test_red():\n    assert False\n"})
    judged = await project.judge({"calc.py": "def add(a, b):\n    return b + a\n"}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.FAILS_ON_BASE)
    assert judged.only.fails_on_base
    assert not judged.only.ok


async def test_a_suite_that_the_work_broke_fails(project: Any) -> None:
    project.has({"test_calc.py": HONEST})
    judged = await project.judge({"calc.py": "def add(a, b):\n    return 0\n"}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.CHECKS_FAILED)
    assert project.tree.made.count("base") == 1


async def test_a_suite_that_tests_the_change_verifies_it(project: Any) -> None:
    project.has({"test_calc.py": HONEST})
    judged = await project.judge({"calc.py": "def add(a, b):\n    return b + a\n"}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.VERIFIED)
    mutation = judged.only.mutation
    assert (mutation.scope, mutation.killed, mutation.viable, mutation.total) == ("changes", 2, 2, 2)


async def test_much_new_code_that_no_test_executes_is_a_reservation(project: Any) -> None:
    project.has({"test_calc.py": HONEST})
    rest = "".join(f"\ndef f{n}(a, b):\n    return a * {n} - b\n" for n in range(20))
    result = {"calc.py": "def add(a, b):\n    return b + a\n", "rest.py": rest}
    judged = await project.judge(result, recipe="implement", files=(), checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert "1 of 21 changed places are tested" in judged.notes


@pytest.mark.heavy
async def test_a_flaky_check_is_a_reservation(project: Any, tmp_path: Any) -> None:
    mark = tmp_path / "ran"
    project.has({"test_calc.py": HONEST})
    text = f"import pathlib\nmark = pathlib.Path({str(mark)!r})\nfirst = not mark.exists()\nmark.touch()\ndef test_it():\n    assert not first\n"
    judged = await project.judge({"test_flaky.py": text}, recipe="implement", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.FLAKY)
    assert judged.only.ok
    assert judged.only.flaky


@pytest.mark.heavy
async def test_files_written_by_a_check_are_discarded(project: Any) -> None:
    text = "import pathlib\ndef test_it():\n    assert not pathlib.Path('left').exists()\n    pathlib.Path('left').touch()\n    assert __import__('calc').add(1, 1) == 2\n"
    judged = await project.judge({"test_calc.py": text})
    assert judged.is_(Verdict.VERIFIED)


async def test_a_hanging_check_is_killed_and_fails(project: Any) -> None:
    check = Check(name="hang", argv=["{python}", "-c", "import time; time.sleep(600)"], timeout_seconds=0.5)
    judged = await project.judge({"notes.txt": "x"}, recipe="implement", checks=(check,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.FAILS_ON_BASE)
    assert "did not finish within 0.5 seconds" in judged.only.output_tail


async def test_without_a_check_nothing_is_verified(project: Any) -> None:
    judged = await project.judge({"notes.txt": "x"}, recipe="implement")
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_CHECKS)


async def test_an_optional_check_decides_nothing(project: Any) -> None:
    check = Check(name="extra", argv=["{python}", "-c", "raise SystemExit(1)"], required=False)
    judged = await project.judge({"notes.txt": "x"}, recipe="implement", checks=(check,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_CHECKS)
    assert not judged.only.ok


async def test_without_pytest_new_tests_are_not_run(project: Any) -> None:
    project.environment("iniconfig")
    judged = await project.judge({"test_calc.py": HONEST})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_CHECKS)
    assert "pytest" in judged.notes


async def test_unittest_is_run_and_mutation_tested(project: Any) -> None:
    project.environment("iniconfig")
    text = "import unittest\nfrom calc import add\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n    def test_nothing(self):\n        pass\n"
    judged = await project.judge({"tests/test_calc.py": text})
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.mutation.killed == 2


async def test_a_missing_program_is_not_a_failed_check(project: Any) -> None:
    check = Check(name="lint", argv=["no-such-program-anywhere"])
    judged = await project.judge({"notes.txt": "x"}, recipe="implement", checks=(check,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.FAILS_ON_BASE)
    assert "could not be run" in judged.only.output_tail


@pytest.mark.heavy
async def test_a_configured_check_for_the_new_tests_is_mutation_tested_too(project: Any) -> None:
    check = Check(name="mine", argv=["{python}", "-m", "pytest", "-q", "{tests}"])
    judged = await project.judge({"-x_test.py": HONEST}, checks=(check,))
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.argv[-1] == "./-x_test.py"


@pytest.mark.heavy
async def test_code_with_nothing_to_change_cannot_be_mutation_tested(project: Any) -> None:
    project.has({"calc.py": "import os\n"})
    judged = await project.judge({"test_calc.py": "import calc\ndef test_it():\n    assert calc.os\n"})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
    assert judged.only.mutation is None


@pytest.mark.heavy
async def test_a_constant_is_code_under_test(project: Any) -> None:
    project.has({"calc.py": "ANSWER = 42\n"})
    judged = await project.judge({"test_calc.py": "import calc\ndef test_it():\n    assert calc.ANSWER == 42\n"})
    assert judged.is_(Verdict.VERIFIED)


async def test_a_check_sees_no_key(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("UNDERSTUDY_ID", "x")
    check = Check(
        name="env",
        argv=[
            "{python}",
            "-c",
            "import os; print(*sorted(os.environ)); raise SystemExit('OPENAI_API_KEY' in os.environ)",
        ],
        env={"MODE": "test"},
    )
    judged = await project.judge({"README.md": "x"}, recipe="implement", checks=(check,))
    assert judged.is_(Verdict.VERIFIED)
    assert " MODE " in judged.only.output_tail


async def test_a_check_that_is_cancelled_leaves_no_process(project: Any, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)"
    check = Check(name="hang", argv=["{python}", "-c", code])
    task = asyncio.ensure_future(project.judge({"notes.txt": "x"}, recipe="implement", checks=(check,)))
    await asyncio.to_thread(until, lambda: pid.exists() and pid.read_text(), "the check runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    mark = code.encode()
    await asyncio.to_thread(until, lambda: not any(mark in line for line in command_lines()), "the check is gone")
    assert list(project.scratch.iterdir()) == []


def command_lines() -> list[bytes]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.append((folder / "cmdline").read_bytes())
    return found


async def test_names_that_are_not_utf8_can_be_reported(project: Any) -> None:
    odd = os.fsdecode(b"caf\xe9/test_odd.py")
    judged = await project.judge({odd: HONEST, os.fsdecode(b"x\xff.txt"): "x"})
    assert Reservation.OUTSIDE_SCOPE in judged.reservations
    for event in judged.events:
        msgspec.json.encode(event)
    msgspec.json.encode(judged.results)
