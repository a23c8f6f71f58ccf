"""The table of lying agents: what each one's result is judged to be."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from understudy.judge.mutation.copies import mutation_progress
from understudy.model.delegation.events import CheckFinished, CheckStarted, Phase
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

HONEST = "from calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
OTHER = HONEST.replace("1, 2) == 3", "4, 5) == 9")
SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"], configured_by=["pyproject.toml"])


async def test_an_honest_test_is_verified(project: Any) -> None:
    judged = await project.judge({"test_calc.py": HONEST})
    assert judged.is_(Verdict.VERIFIED)
    result = judged.only
    assert (result.passed, result.failed, result.skipped, result.exit_code) == (1, 0, 0, 0)
    assert (result.mutation.killed, result.mutation.viable, result.mutation.idle) == (2, 2, [])
    assert result.tree == project.tree.tree_of("head")
    assert "1 passed" in result.output_tail
    assert result.argv[-1] == "test_calc.py"
    assert [type(event) for event in judged.events] == [CheckStarted, Phase, Phase, Phase, CheckFinished]
    assert judged.events[-1].check_result() == result


OLD = {
    "tests/test_old.py": HONEST,
    "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\n",
    "package.json": '{"scripts": {"test": "node --test"}}',
}


@pytest.mark.parametrize("named", [True, False], ids=["requested", "configured"])
@pytest.mark.parametrize(
    "result",
    [
        pytest.param({"tests/notes.txt": "Tests were written."}, id="no test"),
        pytest.param({"tests/helpers.py": "def test_it():\n    assert True\n"}, id="a file that no runner collects"),
        pytest.param({"calc.test.js": "garbage("}, id="a test of another runner"),
    ],
)
async def test_earlier_tests_that_pass_are_no_evidence_for_new_ones(
    project: Any, result: dict[str, str], named: bool
) -> None:
    checks = {"checks" if named else "fallback_checks": (SUITE,)}
    judged = await project.has(OLD).judge(result, **checks)
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)
    assert "it ran no new test" in judged.notes
    assert judged.only.ok


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


async def test_a_long_search_for_changes_that_tests_notice_says_how_far_it_is(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation_progress, "SECONDS", 0.0)
    judged = await project.judge({"test_calc.py": HONEST})
    assert judged.is_(Verdict.VERIFIED)
    texts = [event.text for event in judged.events if isinstance(event, Phase)]
    assert texts[-1].endswith(": tried 1 of 2 small changes")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("def test_it():\n    assert True\n", id="assert True"),
        pytest.param("import calc\ndef test_it():\n    assert calc.add\n", id="only imports"),
        pytest.param("def test_it():\n    import calc\n", id="imports while it runs"),
        pytest.param(
            "import calc\ndef test_it():\n    try:\n        assert calc.add(1, 2) == 4\n    except Exception:\n        pass\n",
            id="swallows everything",
        ),
    ],
)
async def test_a_test_that_cannot_fail_kills_no_mutant(project: Any, text: str) -> None:
    # The table is built while the module is imported: that must not count as a test which calls it.
    project.has({"calc.py": "def add(a, b):\n    return a + b\n\nTABLE = [add(1, n) for n in range(3)]\n"})
    judged = await project.judge({"test_calc.py": text})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)
    assert judged.only.ok
    assert judged.only.mutation.killed == 0
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


async def test_a_test_is_not_idle_because_a_faster_one_is_first(project: Any) -> None:
    project.has({"calc.py": "def add(a, b):\n    unused = a * 3\n    return a + b\n"})
    slower = "\ndef test_slower():\n    for n in range(5000):\n        assert add(n, 2) == n + 2\n"
    judged = await project.judge({"test_calc.py": HONEST + slower})
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.mutation.viable > judged.only.mutation.killed, "it ran on changes that no test can notice"
    assert judged.only.mutation.idle == []


async def test_old_tests_prove_nothing_for_new_ones(project: Any) -> None:
    project.has({"test_calc.py": HONEST})
    judged = await project.judge({"test_calc.py": HONEST + "\ndef test_nothing():\n    add(1, 1)\n"})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)
    assert "test_nothing" in judged.notes


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


async def test_editing_the_code_under_test_is_outside_the_scope(project: Any) -> None:
    judged = await project.judge({"test_calc.py": HONEST, "calc.py": "def add(a, b):\n    return 3\n"})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.OUTSIDE_SCOPE)
    assert "calc.py" in judged.notes


async def test_a_conftest_that_tests_need_changes_the_check(project: Any) -> None:
    fixture = "import pytest\n\n@pytest.fixture\ndef one():\n    return 1\n"
    test = HONEST.replace("test_add()", "test_add(one)").replace("add(1, 2)", "add(one, 2)")
    judged = await project.judge({"tests/test_calc.py": test, "tests/conftest.py": fixture})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.CHECK_CHANGED)


async def test_a_conftest_on_which_nothing_depends_is_clean(project: Any) -> None:
    files = {"tests/test_calc.py": HONEST, "tests/conftest.py": "def pytest_runtest_call(item): pass\n"}
    judged = await project.judge(files)
    assert judged.is_(Verdict.VERIFIED)


async def test_deleted_tests_are_outside_the_scope(project: Any) -> None:
    project.has({"test_calc.py": HONEST, "test_old.py": "def test_old():\n    pass\n"})
    judged = await project.judge({"test_new.py": OTHER, "test_old.py": None})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.OUTSIDE_SCOPE)
    assert "test_old.py" in judged.notes


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("\ndef test_more():\n    assert add(2, 2) == 4\n", id="a function"),
        pytest.param(
            "\nimport pytest\n@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_more(n):\n    assert add(n, 0) == n\n",
            id="cases",
        ),
    ],
)
async def test_tests_removed_from_a_file_are_outside_the_scope(project: Any, before: str) -> None:
    project.has({"test_calc.py": HONEST + before})
    text = HONEST + before.replace("[1, 2, 3]", "[1, 2]") if "[1, 2, 3]" in before else OTHER
    judged = await project.judge({"test_calc.py": text})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.OUTSIDE_SCOPE)
    assert "test_more" in judged.notes


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
    judged = await project.judge({"calc.py": "def add(a, b):\n    return b + a\n"}, recipe="fix", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.FAILS_ON_BASE)
    assert judged.only.fails_on_base
    assert not judged.only.ok


async def test_a_suite_that_the_work_broke_fails(project: Any) -> None:
    project.has({"test_calc.py": HONEST})
    judged = await project.judge({"calc.py": "def add(a, b):\n    return 0\n"}, recipe="fix", checks=(SUITE,))
    assert judged.is_(Verdict.CHECKS_FAILED)
    assert project.tree.made.count("base") == 1


async def test_a_suite_that_tests_the_change_verifies_it(project: Any) -> None:
    project.has({"test_calc.py": HONEST})
    judged = await project.judge({"calc.py": "def add(a, b):\n    return b + a\n"}, recipe="fix", checks=(SUITE,))
    assert judged.is_(Verdict.VERIFIED)
    mutation = judged.only.mutation
    assert (mutation.scope, mutation.killed, mutation.viable, mutation.total) == ("changes", 2, 2, 2)


async def test_much_new_code_that_no_test_executes_is_a_reservation(project: Any) -> None:
    project.has({"test_calc.py": HONEST})
    rest = "".join(f"\ndef f{n}(a, b):\n    return a * {n} - b\n" for n in range(20))
    result = {"calc.py": "def add(a, b):\n    return b + a\n", "rest.py": rest}
    judged = await project.judge(result, recipe="fix", files=(), checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.LITTLE_EXECUTED)
    assert "execute 2 of" in judged.notes


async def test_a_flaky_check_is_a_reservation(project: Any, tmp_path: Any) -> None:
    mark = tmp_path / "ran"
    project.has({"test_calc.py": HONEST})
    text = f"import pathlib\nmark = pathlib.Path({str(mark)!r})\nfirst = not mark.exists()\nmark.touch()\ndef test_it():\n    assert not first\n"
    judged = await project.judge({"test_flaky.py": text}, recipe="fix", checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED, Reservation.FLAKY)
    assert judged.only.ok
    assert judged.only.flaky


async def test_files_written_by_a_check_are_discarded(project: Any) -> None:
    text = "import pathlib\ndef test_it():\n    assert not pathlib.Path('left').exists()\n    pathlib.Path('left').touch()\n    assert __import__('calc').add(1, 1) == 2\n"
    judged = await project.judge({"test_calc.py": text})
    assert judged.is_(Verdict.VERIFIED)


async def test_a_hanging_check_is_killed_and_fails(project: Any) -> None:
    check = Check(name="hang", argv=["{python}", "-c", "import time; time.sleep(600)"], timeout_seconds=0.5)
    judged = await project.judge({"notes.txt": "x"}, recipe="fix", checks=(check,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.FAILS_ON_BASE)
    assert "did not finish within 0.5 seconds" in judged.only.output_tail


async def test_without_a_check_nothing_is_verified(project: Any) -> None:
    judged = await project.judge({"notes.txt": "x"}, recipe="fix")
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_CHECKS)


async def test_an_optional_check_decides_nothing(project: Any) -> None:
    check = Check(name="extra", argv=["{python}", "-c", "raise SystemExit(1)"], required=False)
    judged = await project.judge({"notes.txt": "x"}, recipe="fix", checks=(check,))
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
    judged = await project.judge({"notes.txt": "x"}, recipe="fix", checks=(check,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.FAILS_ON_BASE)
    assert "could not be run" in judged.only.output_tail


async def test_a_configured_check_for_the_new_tests_is_mutation_tested_too(project: Any) -> None:
    check = Check(name="mine", argv=["{python}", "-m", "pytest", "-q", "{tests}"])
    judged = await project.judge({"-x_test.py": HONEST}, checks=(check,))
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.argv[-1] == "./-x_test.py"


async def test_code_with_nothing_to_change_cannot_be_mutation_tested(project: Any) -> None:
    project.has({"calc.py": "import os\n"})
    judged = await project.judge({"test_calc.py": "import calc\ndef test_it():\n    assert calc.os\n"})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
    assert judged.only.mutation is None


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
    judged = await project.judge({"README.md": "x"}, recipe="fix", checks=(check,))
    assert judged.is_(Verdict.VERIFIED)
    assert " MODE " in judged.only.output_tail


async def test_a_check_that_is_cancelled_leaves_no_process(project: Any, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)"
    check = Check(name="hang", argv=["{python}", "-c", code])
    task = asyncio.ensure_future(project.judge({"notes.txt": "x"}, recipe="fix", checks=(check,)))
    deadline = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()):
        assert time.monotonic() < deadline
        assert not task.done()
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    mark = code.encode()
    while any(mark in line for line in command_lines()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
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
