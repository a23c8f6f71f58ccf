"""New tests are judged by what they do themselves: earlier tests under new names notice nothing."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from understudy.model.checks import Check
from understudy.model.verdicts import Reservation, Verdict

HONEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
IN_CLASS = """\
import unittest

from calc import add


class TestOld(unittest.TestCase):
    left = 1

    def test_add(self):
        self.assertEqual(add(self.left, 2), self.left + 2)
"""
TABLE = """\
import pytest


from calc import add

CASES = [(1, 2, 3)]


@pytest.mark.parametrize(("a", "b", "c"), CASES)
def test_add(a, b, c):
    assert add(a, b) == c
"""
LOOP = """\
from calc import add

CASES = [(1, 2, 3)]


def test_add():
    for a, b, c in CASES:
        assert add(a, b) == c
"""
BASE = {
    "tests/__init__.py": "",
    "tests/test_old.py": HONEST,
    "tests/test_class.py": IN_CLASS,
    "tests/test_table.py": TABLE,
    "tests/test_loop.py": LOOP,
    "tests/helpers.py": "from calc import add\n\n\ndef adds(a, b, c):\n    assert add(a, b) == c\n",
    "tests/contract.py": IN_CLASS.replace("import unittest\n\n", "")
    .replace("TestOld(unittest.TestCase)", "Contract")
    .replace("self.assertEqual(add(self.left, 2), self.left + 2)", "assert add(self.left, 2) == self.left + 2"),
    "conftest.py": "",
}


@pytest.mark.parametrize(
    "result",
    [
        pytest.param({"tests/test_new.py": "from tests.test_old import *\n"}, id="imported"),
        pytest.param({"tests/test_new.py": "from tests.test_old import test_add as test_sum\n"}, id="imported by name"),
        pytest.param({"tests/test_new.py": "from tests.test_table import *\n"}, id="imported with cases"),
        pytest.param(
            {"tests/test_new.py": "from tests import test_old\n\ndef test_new():\n    test_old.test_add()\n"},
            id="called",
        ),
        pytest.param(
            {"tests/test_new.py": "from tests.test_class import TestOld\n\nclass TestNew(TestOld):\n    pass\n"},
            id="inherited",
        ),
        pytest.param(
            {
                "tests/test_new.py": "import pathlib\nexec(pathlib.Path(__file__).with_name('test_old.py').read_text())\n"
            },
            id="executed",
        ),
        pytest.param({"tests/test_new.py": HONEST}, id="copied"),
        pytest.param(
            {"tests/test_new.py": "# New.\n" + HONEST.replace("test_add", "test_sum")}, id="copied and renamed"
        ),
        pytest.param({"tests/test_new.py": IN_CLASS.replace("TestOld", "TestNew")}, id="copied class"),
        pytest.param({"tests/test_old.py": "# Looked at.\n" + HONEST}, id="a comment"),
        pytest.param({"tests/test_old.py": HONEST.replace("\n\n\n", "\n\nX = 1\n\n\n", 1)}, id="an unused constant"),
        pytest.param(
            {
                "tests/test_old.py": HONEST.replace("\n\n\n", "\n\nX = 1\n\n\n", 1),
                "tests/test_new.py": "from tests.test_old import *\n",
            },
            id="imported from a changed file",
        ),
        pytest.param(
            {"tests/test_old.py": HONEST + "    pass\n", "tests/test_new.py": "from tests.test_old import *\n"},
            id="imported after a change",
        ),
    ],
)
async def test_earlier_tests_under_new_names_notice_nothing(project: Any, result: dict[str, str]) -> None:
    judged = await project.has(BASE).judge(result)
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED), (judged.judgement.reservations, judged.notes)
    assert "What earlier tests do does not count." in judged.notes
    assert judged.only.ok


@pytest.mark.parametrize(
    "result",
    [
        pytest.param({"tests/test_new.py": HONEST.replace("1, 2) == 3", "2, 2) == 4")}, id="own values"),
        pytest.param(
            {"tests/test_old.py": HONEST + "\n\ndef test_more():\n    assert add(2, 5) == 7\n"}, id="beside an old test"
        ),
        pytest.param(
            {"tests/test_old.py": HONEST.replace("== 3", "== 3\n    assert add(2, 5) == 7")}, id="a stronger test"
        ),
        pytest.param({"tests/test_table.py": TABLE.replace("3)]", "3), (2, 5, 7)]")}, id="a new case"),
        pytest.param({"tests/test_loop.py": LOOP.replace("3)]", "3), (2, 5, 7)]")}, id="a new value in a loop"),
        pytest.param(
            {"tests/test_new.py": "from tests.helpers import adds\n\n\ndef test_new():\n    adds(2, 5, 7)\n"},
            id="a helper",
        ),
        pytest.param(
            {"tests/test_new.py": "from tests.contract import Contract\n\n\nclass TestNew(Contract):\n    left = 9\n"},
            id="tests that are shared on purpose",
        ),
        pytest.param(
            {
                "tests/test_new.py": "from tests.test_loop import CASES\nfrom calc import add\n\n\ndef test_new():\n    for a, b, c in CASES:\n        assert add(b, a) == c\n"
            },
            id="data of an old test",
        ),
    ],
)
async def test_what_new_tests_do_themselves_counts(project: Any, result: dict[str, str]) -> None:
    judged = await project.has(BASE).judge(result)
    assert judged.is_(Verdict.VERIFIED), (judged.judgement.reservations, judged.notes)


SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"], configured_by=["pyproject.toml"])


@pytest.mark.parametrize("own", [False, True], ids=["earlier tests", "own test"])
async def test_the_earlier_tests_of_a_check_of_all_tests_do_not_count(project: Any, own: bool) -> None:
    text = HONEST.replace("1, 2) == 3", "2, 2) == 4") if own else "from tests.test_old import *\n"
    judged = await project.has(BASE).judge({"tests/test_new.py": text}, checks=(SUITE,))
    if own:
        assert judged.is_(Verdict.VERIFIED)
    else:
        assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)


@pytest.mark.parametrize("own", [False, True], ids=["earlier tests", "own test"])
async def test_earlier_tests_of_unittest_do_not_count(project: Any, own: bool) -> None:
    project.environment("iniconfig")  # no pytest
    text = IN_CLASS.replace("TestOld", "TestNew").replace(", 2)", ", 5)").replace("+ 2", "+ 5") if own else IMPORTED
    judged = await project.has({"test_old.py": IN_CLASS}).judge({"test_new.py": text})
    if own:
        assert judged.is_(Verdict.VERIFIED)
    else:
        assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)


IMPORTED = "import unittest\n\nimport test_old\n\n\nclass TestNew(test_old.TestOld):\n    left = 4\n"

NODE = """\
const test = require("node:test");
const assert = require("node:assert");
const { add } = require("./calc.js");

test("adds", () => assert.equal(add(1, 2), 3));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
@pytest.mark.parametrize("own", [False, True], ids=["earlier tests", "own test"])
async def test_earlier_tests_of_node_do_not_count(empty_project: Any, own: bool) -> None:
    text = NODE.replace("1, 2), 3", "2, 2), 4").replace('"adds"', '"adds twos"')
    if not own:
        text = 'const test = require("node:test");\ntest("new", () => { require("./old.test.js"); });\n'
    empty_project.has({"calc.js": "exports.add = (a, b) => a + b;\n", "old.test.js": NODE})
    check = Check(name="node", argv=["node", "--test"])
    judged = await empty_project.judge({"new.test.js": text}, files=("calc.js",), fallback_checks=(check,))
    assert judged.verdict is (Verdict.VERIFIED if own else Verdict.UNVERIFIED), judged.notes
    if not own:
        assert set(judged.said) <= {Reservation.NO_MUTANT_KILLED}


GO = """\
package calc

import "testing"

func TestAdd(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fatal("add")
	}
}
"""


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("go") is None, reason="no go here")
@pytest.mark.parametrize("own", [False, True], ids=["earlier tests", "own test"])
async def test_earlier_tests_of_go_do_not_count(empty_project: Any, own: bool) -> None:
    text = GO.replace("TestAdd", "TestTwos").replace("1, 2) != 3", "2, 2) != 4")
    if not own:
        text = 'package calc\n\nimport "testing"\n\nfunc TestNew(t *testing.T) {\n\tTestAdd(t)\n}\n'
    code = "package calc\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n"
    empty_project.has({"go.mod": "module example.com/calc\n\ngo 1.18\n", "calc.go": code, "calc_test.go": GO})
    judged = await empty_project.judge({"new_test.go": text}, files=("calc.go",), writes=["*_test.go"])
    if own:
        assert judged.is_(Verdict.VERIFIED)
    else:
        assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)
