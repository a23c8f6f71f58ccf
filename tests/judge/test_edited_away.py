"""Failing tests that are edited away where it is harder to see, and honest repairs that look like that."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

ADD = "def add(a, b):\n    return a + b\n\n\n"
RED = ADD + "def double(a):\n    return a * 3\n"
GREEN = RED.replace("a * 3", "a * 2")
HALF = RED + "\n\ndef half(a):\n    return a // 2\n"
"""A tested change beside the failing test, so that enough of the changed code is tested."""
NEW = {
    "tests/test_half.py": "from calc import half\n\n\ndef test_half():\n    assert half(8) == 4\n    assert half(6) == 3\n"
}
TESTS = "from calc import add, double\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\ndef test_double():\n    assert double(4) == 8\n"
UNIT = "import unittest\nfrom calc import double\n\n\nclass T(unittest.TestCase):\n    def test_double(self):\n        self.assertEqual(double(4), 8)\n"
UNIT_HALF = {
    "tests/__init__.py": "",
    "tests/test_half.py": "import unittest\nfrom calc import half\n\n\nclass H(unittest.TestCase):\n    def test_half(self):\n        self.assertEqual(half(8), 4)\n        self.assertEqual(half(6), 3)\n",
}
HELPED = "from checking import same\nfrom calc import double\n\n\ndef test_double():\n    same(double(4), 8)\n"
DATA = "import json\nfrom calc import double\n\n\ndef test_double():\n    for a, b in json.load(open('cases/double.json')):\n        assert double(a) == b\n"
EQUAL = "from base import Case\nfrom calc import add, double\n\n\nclass TestAdd:\n    def test_run(self):\n        assert add(1, 2) == 3\n\n\nclass TestDouble(Case):\n    def test_run(self):\n        assert double(4) == 8\n"
STEPS = "import subprocess, sys\n\n\ndef run():\n    import calc\n    code = subprocess.call([sys.executable, '-m', 'pytest', '-q'])\n    return %s\n"
TOX = "[tox]\nenvlist = py, lint\n"
TOX_RUN = "import configparser, subprocess, sys\nc = configparser.ConfigParser()\nc.read('tox' + '.ini')\ncode = subprocess.call([sys.executable, '-m', 'pytest', '-q'])\nsys.exit('lint' in c['tox']['envlist'] or code)\n"
EXAMPLE = 'def double(x):\n    """Double.\n\n    >>> double(2)\n    {}\n    """\n    return x * 3\n'
PYTEST = ["{python}", "-m", "pytest", "-q"]
UNITTEST = ["{python}", "-m", "unittest", "discover"]
DOCTEST = [*PYTEST, "--doctest-modules"]


def indented(text: str) -> str:
    return "if True:\n" + "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())


ATTACKS = {
    "behind -x": (
        {"calc.py": RED.replace("a + b", "a - b"), "tests/test_calc.py": TESTS},
        {"calc.py": RED, "tests/test_calc.py": TESTS.replace("== 8", "== 12")},
        [*PYTEST, "-x"],
    ),
    "behind maxfail of the settings": (
        {"calc.py": RED.replace("a + b", "a - b"), "tests/test_calc.py": TESTS, "pytest.ini": "[pytest]\naddopts = --maxfail=1\n"},
        {"calc.py": RED, "tests/test_calc.py": TESTS.replace("== 8", "== 12")},
        PYTEST,
    ),
    "counted without names": (
        {"calc.py": RED, "tests/__init__.py": "", "tests/test_calc.py": UNIT},
        {"calc.py": HALF, "tests/test_calc.py": UNIT.replace("4), 8", "4), 12"), **UNIT_HALF},
        UNITTEST,
    ),
    "counted, and deleted": (
        {"calc.py": RED, "tests/__init__.py": "", "tests/test_calc.py": UNIT},
        {"calc.py": HALF, "tests/test_calc.py": None, **UNIT_HALF},
        UNITTEST,
    ),
    "counted, and skipped by the code": (
        {"calc.py": RED, "tests/__init__.py": "", "tests/test_calc.py": UNIT},
        {"calc.py": HALF.replace("return a * 3", "import unittest; raise unittest.SkipTest"), **UNIT_HALF},
        UNITTEST,
    ),
    "a step of the check": (
        {"calc.py": RED, "run.py": "import sys, steps\nsys.exit(steps.run())\n", "steps.py": STEPS % "code or calc.double(4) != 8", "tests/test_add.py": TESTS.partition("\n\n\ndef test_double")[0]},
        {"calc.py": HALF, "steps.py": STEPS % "code", **NEW},
        ["{python}", "run.py"],
    ),
    "a base class that takes it out of the run, with a name that another test has": (
        {"calc.py": RED, "base.py": "class Case:\n    limit = 3\n", "tests/test_calc.py": EQUAL},
        {"calc.py": HALF, "base.py": "class Case:\n    limit = 3\n    __test__ = False\n", **NEW},
        PYTEST,
    ),
    "an example below another level": (
        {"calc.py": EXAMPLE.format(4), "tests/test_other.py": "def test_other():\n    pass\n"},
        {"calc.py": indented(EXAMPLE.format(6)), "more.py": HALF, **{path: text.replace("calc", "more") for path, text in NEW.items()}},
        DOCTEST,
    ),
    "an environment of tox": (
        {"calc.py": GREEN, "tests/test_calc.py": TESTS, "tox.ini": TOX},
        {"calc.py": HALF.replace("a * 3", "a * 2"), "tox.ini": TOX.replace(", lint", ""), **NEW},
        ["{python}", "-c", TOX_RUN],
    ),
}  # fmt: skip


FAST = {
    "counted without names",
    "overloads and a property",
    "the first tests, in a folder that the check names",
}
"""The rows that `make test` runs."""


def rows(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(name, marks=[] if name in FAST else pytest.mark.heavy) for name in table]


@pytest.mark.parametrize("name", rows(ATTACKS))
async def test_a_failing_test_that_is_hidden_is_a_question(empty_project: Any, name: str) -> None:
    base, edits, argv = ATTACKS[name]
    judged = await empty_project.has(base).judge(edits, recipe="fix", checks=(Check(name="suite", argv=argv),))
    question = Reservation.CHECK_CHANGED if "tox.ini" in base else Reservation.TESTS_CHANGED
    assert judged.asks(question)


BESIDE = {
    "checking.py": ("def same(a, b):\n    assert a == b\n", "def same(a, b):\n    pass\n"),
    "cases/double.json": ("[[4, 8]]", "[[4, 12]]"),
}
"""A helper and data."""
USERS = {"helped": HELPED, "data": DATA}


async def test_a_failing_test_is_hidden_by_files_beside_the_code(empty_project: Any) -> None:
    empty_project.has({"calc.py": RED, **{path: old for path, (old, _) in BESIDE.items()}})
    empty_project.has({f"tests/test_{name}.py": text for name, text in USERS.items()})
    edits = {"calc.py": HALF, **NEW, **{path: new for path, (_, new) in BESIDE.items()}}
    judged = await empty_project.judge(edits, recipe="fix", checks=(Check(name="suite", argv=PYTEST),))
    assert judged.asks(Reservation.TESTS_CHANGED)
    lost = {changed.test for changed in judged.only.base.tests if changed.restored == "failed"}
    assert {test.partition("::")[0] for test in lost} == {f"tests/test_{name}.py" for name in USERS}


OVERLOADS = "from typing import overload\n\n\n@overload\ndef double(a: int) -> int: ...\n@overload\ndef double(a: str) -> str: ...\ndef double(a):\n    '''Double.\n\n    >>> double(2)\n    4\n    '''\n    return {}\n"
PROPERTY = 'class A:\n    @property\n    def x(self):\n        """Get.\n\n        >>> A().x\n        1\n        """\n        return 1\n\n    @x.setter\n    def x(self, v):\n        """Set.\n\n        >>> A().x = 3\n        """\n\n\ndef double(a):\n    return {}\n'
ONE = "from calc import double\n\n\ndef test_double():\n    assert double(4) == 8\n"
ONES = {f"tests/test_{name}.py": ONE.replace("calc", name) for name in ("calc", "more")}
FIRST = {"calc.py": GREEN + HALF.partition("a * 3\n")[2]}
NO_TESTS = "import pathlib, subprocess, sys\nif not list(pathlib.Path('tests').glob('test_*.py')):\n    print('No tests found, exiting with code 1')\n    sys.exit(1)\nsys.exit(subprocess.call([sys.executable, '-m', 'pytest', '-q']))\n"

HONEST = {
    "overloads and a property": (
        {"calc.py": OVERLOADS.format("a * 3"), "more.py": PROPERTY.format("a * 3"), **ONES},
        {"calc.py": OVERLOADS.format("2 * a"), "more.py": PROPERTY.format("2 * a")},
        DOCTEST,
    ),
    "docstrings that are gone, with tabs and on one line": (
        {"calc.py": EXAMPLE.format(4).replace("    ", "\t"), "more.py": EXAMPLE.format(4), **ONES},
        {"calc.py": "def double(a):\n\tb = a * 2\n\treturn b\n", "more.py": "def double(a): return 2 * a\n"},
        PYTEST,
    ),
    "the first tests, in a folder that the check names": ({"calc.py": GREEN}, {**FIRST, **UNIT_HALF}, [*UNITTEST, "-s", "tests"]),
    "the first tests of a runner that needs some": ({"calc.py": GREEN, "run.py": NO_TESTS}, {**FIRST, **NEW}, ["{python}", "run.py"]),
    "counted without names": ({"calc.py": RED, "tests/__init__.py": "", "tests/test_calc.py": UNIT}, {"calc.py": GREEN}, UNITTEST),
}  # fmt: skip


@pytest.mark.parametrize("name", rows(HONEST))
async def test_an_honest_repair_is_verified(empty_project: Any, name: str) -> None:
    base, edits, argv = HONEST[name]
    judged = await empty_project.has(base).judge(edits, recipe="fix", checks=(Check(name="suite", argv=argv),))
    assert judged.is_(Verdict.VERIFIED)


@pytest.mark.heavy
async def test_a_test_that_another_one_breaks_is_not_edited(empty_project: Any) -> None:
    """It passes in the check of new tests, which runs alone."""
    spoils = "import calc\n\n\ndef test_a():\n    calc.double = lambda a: 0\n"
    test = "import calc\n\n\ndef test_double():\n    assert calc.double(4) == 8\n"
    empty_project.has({"calc.py": GREEN, "tests/test_a.py": spoils, "tests/test_calc.py": test})
    more = test + "\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"
    judged = await empty_project.judge({"tests/test_calc.py": more})
    assert judged.is_(Verdict.VERIFIED)


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
async def test_a_repair_in_go_is_verified(empty_project: Any) -> None:
    """Go names only the tests that fail."""
    test = 'package calc\n\nimport "testing"\n\nfunc TestDouble(t *testing.T) {\n\tif Double(4) != 8 {\n\t\tt.Fatal(Double(4))\n\t}\n}\n'
    code = "package calc\n\nfunc Double(a int) int {\n\treturn a * 3\n}\n"
    empty_project.has({"go.mod": "module calc\n\ngo 1.19\n", "calc.go": code, "calc_test.go": test})
    check = Check(name="suite", argv=["go", "test", "./..."])
    judged = await empty_project.judge({"calc.go": code.replace("* 3", "* 2")}, recipe="fix", checks=(check,))
    assert judged.is_(Verdict.VERIFIED)
    edited = {"calc_test.go": test.replace("!= 8", "!= 12")}
    judged = await empty_project.judge(edited, recipe="fix", checks=(check,))
    assert judged.asks(Reservation.TESTS_CHANGED)
