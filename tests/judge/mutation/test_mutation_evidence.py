"""Mutation testing of real test suites: what is killed, and what is not."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from understudy.model.evidence.checks import Check, MutantStatus
from understudy.model.verdicts import Reservation, Verdict

PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")


NOTICED = {
    "in_setup": (
        "class Box:\n    def __init__(self, x):\n        self.x = x + 1\n",
        "import pytest\nfrom in_setup import Box\n@pytest.fixture\ndef box():\n    return Box(1)\ndef test_it(box):\n    assert box.x == 2\n",
    ),
    "generator": (
        "def numbers():\n    yield 1\n",
        "from generator import numbers\ndef test_it():\n    assert list(numbers()) == [1]\n",
    ),
    "coroutine": (
        "import asyncio\nasync def get():\n    '''doc'''\n    await asyncio.sleep(0)\n    return 1\n",
        "import asyncio\nfrom coroutine import get\ndef test_it():\n    assert asyncio.run(get()) == 1\n",
    ),
    "program": (
        "import sys\ndef main():\n    sys.stdout.write('hello\\n')\nif __name__ == '__main__':\n    main()\n",
        "import subprocess, sys\ndef test_it():\n    assert subprocess.check_output([sys.executable, '-m', 'program']) == b'hello\\n'\n",
    ),
    "another_exception": (
        "def check(x):\n    if x < 0:\n        raise ValueError(x)\n",
        "import pytest, another_exception\ndef test_it():\n    with pytest.raises(ValueError):\n        another_exception.check(-1)\n",
    ),
    "example": (
        "def double(x):\n    '''\n    >>> double(2)\n    4\n    '''\n    return 2 * x\n",
        "import doctest, example\ndef test_it():\n    assert doctest.testmod(example).failed == 0\n",
    ),
    "subtest": (
        "def f():\n    return 1\n",
        "import unittest, subtest\nclass T(unittest.TestCase):\n    def test_it(self):\n        with self.subTest('x'):\n            self.assertEqual(subtest.f(), 1)\n",
    ),
}
"""Modules, each with the only test of it."""


async def test_honest_tests_are_noticed(project: Any) -> None:
    project.has({f"{name}.py": code for name, (code, _) in NOTICED.items()})
    tests = {f"test_{name}.py": test for name, (_, test) in NOTICED.items()}
    judged = await project.judge(tests, files=tuple(f"{name}.py" for name in NOTICED))
    assert judged.is_(Verdict.VERIFIED)
    mutation = judged.only.mutation
    killed = {mutant.path for mutant in mutation.mutants if mutant.status is MutantStatus.KILLED}
    assert killed == {f"{name}.py" for name in NOTICED}
    assert mutation.idle == []


ELSEWHERE = {
    "test_collected.py": "import calc\nVALUE = calc.f()\ndef test_it():\n    assert VALUE == 1\n",
    "test_teardown.py": "import calc\nimport pytest\n@pytest.fixture\ndef end():\n    yield\n    calc.f()\ndef test_it(end):\n    pass\n",
    "test_skips.py": "import calc, pytest\ndef test_it():\n    try:\n        calc.f()\n    except Exception:\n        pytest.skip('no')\n",
    "test_reloads.py": "import importlib, calc\ndef test_it():\n    importlib.reload(calc)\n",
}
"""Tests of files that call the code while they are collected, in a teardown, to skip, and while they load it again."""


async def test_failures_elsewhere_do_not_count(project: Any) -> None:
    project.has({"calc.py": "def f():\n    return 1\nTABLE = [f()]\n"})
    judged = await project.judge(ELSEWHERE)
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)
    assert judged.only.mutation.killed == 0


@pytest.mark.heavy
async def test_tests_that_get_stuck_on_a_change_notice_it(project: Any) -> None:
    project.has({"calc.py": "def count(n):\n    i = 0\n    while i < n:\n        i += 1\n    return 0\n"})
    judged = await project.judge({"test_calc.py": "import calc\ndef test_it():\n    calc.count(3)\n"})
    mutation = judged.only.mutation
    assert mutation.stuck == mutation.killed > 0
    assert mutation.viable > mutation.killed


@pytest.mark.heavy
async def test_property_tests_are_noticed_quickly(project: Any) -> None:
    project.environment(*PYTEST, "hypothesis", "sortedcontainers", "_hypothesis_pytestplugin", "_hypothesis_globals")
    test = "from hypothesis import given, settings, strategies as st\nfrom calc import add\n@settings(max_examples=500)\n@given(st.lists(st.integers()), st.integers())\ndef test_it(xs, y):\n    assert add(len(xs), y) == y + len(xs)\n"
    judged = await project.judge({"test_calc.py": test})
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.mutation.killed == 2


@pytest.mark.heavy
async def test_parallel_runs_are_mutation_tested(project: Any) -> None:
    libraries = project.environment(*PYTEST, "xdist", "execnet")
    (libraries / "generated.py").write_text("X = 1\n")
    project.has({"pytest.ini": "[pytest]\naddopts = -p xdist.plugin -n 2\n"})
    honest = "from calc import add\ndef test_a():\n    assert add(1, 2) == 3\ndef test_b():\n    add(1, 1)\n"
    judged = await project.judge({"test_calc.py": honest})
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.passed == 2
    assert (judged.only.mutation.killed, judged.only.mutation.idle) == (2, ["test_calc.py::test_b"])
    (project.checkout / "elsewhere.py").write_text("X = 1\n")
    stray = f"import sys\nsys.path.append({str(project.checkout)!r})\nimport elsewhere\n" + honest
    judged = await project.judge({"test_calc.py": stray})
    assert judged.verdict is Verdict.UNVERIFIED
    assert Reservation.LOADED_CHECKOUT in judged.said


@pytest.mark.parametrize("files", [(), pytest.param(("calc.c", "gone.py", "test_calc.py"), marks=pytest.mark.heavy)])
async def test_if_no_code_is_named_what_the_tests_execute_is_under_test(project: Any, files: tuple[str, ...]) -> None:
    project.has({"other.py": "def f():\n    return 1\n", "calc.c": "int x;\n"})
    test = "from calc import add\ndef test_it():\n    assert add(1, 2) == 3\n"
    judged = await project.judge({"test_calc.py": test}, files=files)
    assert judged.is_(Verdict.VERIFIED)
    assert {mutant.path for mutant in judged.only.mutation.mutants} == {"calc.py"}


async def test_tests_may_stand_beside_the_code_that_they_test(project: Any) -> None:
    code = "def add(a, b):\n    return %s\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    project.has({"calc.py": code % "a + b"})
    suite = Check(name="suite", argv=["{python}", "-m", "pytest", "-q", "calc.py"])
    judged = await project.judge({"calc.py": code % "b + a"}, recipe="implement", checks=(suite,))
    assert judged.is_(Verdict.VERIFIED)
    assert judged.only.mutation.blind == 0


@pytest.mark.heavy
async def test_a_folder_that_cannot_be_written_costs_the_reports_but_not_the_verdict(
    project: Any, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.write_text("a file, not a folder")
    judged = await project.judge(
        {"test_calc.py": "import calc\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"}, reports=place / "reports"
    )
    assert judged.is_(Verdict.VERIFIED)
    assert "The record of all runs could not be kept" in judged.notes
    assert place.is_file()


async def test_a_link_out_of_the_tree_is_not_written_through(project: Any) -> None:
    outside = project.checkout / "outside.py"
    outside.write_text("def f():\n    return 1\n")
    project.tree._keep = ("linked.py",)
    project.tree.path.mkdir(parents=True)
    (project.tree.path / "linked.py").symlink_to(outside)
    test = "def test_it():\n    assert True\n"
    judged = await project.judge({"test_calc.py": test}, files=("linked.py",))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NOT_MUTATION_TESTED)
    assert outside.read_text() == "def f():\n    return 1\n"


@pytest.mark.heavy
async def test_a_nested_pytest_is_not_watched(project: Any) -> None:
    inner = "def test_inner():\n    assert False\n"
    test = "import os, subprocess, sys\nfrom calc import add\ndef test_it(tmp_path):\n    assert not [name for name in os.environ if 'PROBE' in name or name == 'PYTEST_ADDOPTS']\n"
    test += f"    (tmp_path / 'test_inner.py').write_text({inner!r})\n    done = subprocess.run([sys.executable, '-m', 'pytest', str(tmp_path)])\n    assert done.returncode == add(0, 1)\n"
    judged = await project.judge({"test_calc.py": test})
    assert judged.is_(Verdict.VERIFIED)
    assert (judged.only.passed, judged.only.failed) == (1, 0)


@pytest.mark.heavy
async def test_temporary_files_of_all_runs_are_gone_afterwards(
    project: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    path = re.escape(str(place)) + r"/tmp\w{8}/pytest-of-[^/]+/pytest-\d+/test_it\d"
    test = "import re, tempfile\nfrom calc import add\ndef test_it(tmp_path):\n    tempfile.mkstemp()\n"
    test += f"    assert re.fullmatch({path!r}, str(tmp_path))\n    assert add(1, 2) == 3\n"
    judged = await project.judge({"test_calc.py": test})
    assert judged.is_(Verdict.VERIFIED), judged.results
    assert list(place.iterdir()) == []


async def test_what_unittest_leaves_in_the_copy_is_gone_in_the_next_run(project: Any) -> None:
    project.environment("iniconfig")
    text = "import pathlib, unittest\nfrom calc import add\nclass T(unittest.TestCase):\n    def test_add(self):\n        left = pathlib.Path('left')\n        self.assertFalse(left.exists())\n        left.touch()\n        self.assertEqual(add(1, 2), 3)\n"
    judged = await project.judge({"tests/test_calc.py": text})
    assert judged.is_(Verdict.VERIFIED)
