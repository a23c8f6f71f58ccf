"""Results that change code, and make earlier tests notice less beside an honest change."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from understudy.judge.base_runs.earlier_tests import may_notice_less
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

CALC = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"
MORE = CALC + "\n\ndef mul(a, b):\n    return a * b\n"
HELPER = "def same(a, b):\n    assert a == b\n"
EARLIER = """\
from calc import add, sub
from tests.helper import same


def test_add():
    same(add(1, 2), 3)
    assert add(0, 0) == 0


def test_sub():
    same(sub(5, 2), 3)
"""
NEW = "from calc import mul\n\n\ndef test_mul():\n    assert mul(2, 3) == 6\n"
BASE = {"calc.py": CALC, "tests/__init__.py": "", "tests/helper.py": HELPER, "tests/test_calc.py": EARLIER}
SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])


@pytest.mark.parametrize(
    ("before", "after", "may"),
    [
        (EARLIER, EARLIER + "\n\ndef test_more():\n    same(add(2, 2), 4)\n", False),
        (EARLIER, "import os\n\nLIMIT = 3\n\n" + EARLIER + "\n\n# The end\n", False),
        (EARLIER, EARLIER.replace("assert add(0, 0) == 0", "add(0, 0)"), True),
        (EARLIER, EARLIER.partition("\n\n\ndef test_sub")[0], True),
        (EARLIER, EARLIER.replace("def test_sub", "def test_subtract"), True),
        (EARLIER, EARLIER.replace("from tests.helper import same", "def same(a, b):\n    pass"), True),
        (EARLIER, EARLIER + "\nimport tests.helper\n\ntests.helper.same = print\n", True),
        (None, NEW, False),
        (None, "import calc, tests.helper\n\nfor name in ['same']:\n    setattr(tests.helper, name, print)\n\n" + NEW, True),
        (None, "import calc\n\n_ = setattr(calc, 'add', lambda a, b: 3)\n\n" + NEW, True),
        (EARLIER, None, True),
        ("CASES = []\n", "CASES = [1]\n", True),
    ],
)  # fmt: skip
def test_what_a_test_file_may_take_from_earlier_tests(before: str | None, after: str | None, may: bool) -> None:
    contents = [None if text is None else text.encode() for text in (before, after)]
    assert may_notice_less("tests/test_calc.py", *contents) is may


def test_what_a_script_may_take_from_earlier_tests() -> None:
    test = b"const { test } = require('node:test');\ntest('a', () => { check(add(1, 2) === 3); });\n"
    more = test + b"const helper = require('./helper');\ntest('b', () => { check(true); });\n"
    assert not may_notice_less("a.test.js", test, more)
    assert may_notice_less("a.test.js", test, more + b"helper.check = () => {};\n")
    assert may_notice_less("a.test.js", test, test.replace(b"check(add(1, 2) === 3)", b"add(1, 2)"))
    go = b'package calc\n\nimport "testing"\n\nfunc TestA(t *testing.T) {\n\tt.Fatal(1)\n}\n'
    assert not may_notice_less("b_test.go", None, go)
    assert may_notice_less("b_test.go", None, go + b"\nfunc init() {\n\tequal = nil\n}\n")


async def judged(project: Any, edits: dict[str, Any], check: Check = SUITE, **named: Any) -> Any:
    return await project.judge(edits, recipe="implement", checks=(check,), **named)


WEAKENED = {
    "assertions": {"tests/test_calc.py": EARLIER.replace("same(add(1, 2), 3)\n    assert ", "same(add(1, 2), add(1, 2))\n    ")},
    "a helper": {"tests/helper.py": "def same(a, b):\n    pass\n"},
    "a package that patches a helper": {"tests/__init__.py": "import tests.helper\n\ntests.helper.same = lambda a, b: None\n", "tests/util.py": "X = 1\n"},
    "a test that replaces another one": {"tests/test_calc.py": EARLIER.replace("def test_sub():\n    same(sub(5, 2), 3)", "def test_subtract():\n    sub(5, 2)")},
    "a module that hides the code": {"tests/conftest.py": "import sys, types\nimport calc\nfake = types.ModuleType('calc')\nexec(open(calc.__file__).read(), fake.__dict__)\nmul = calc.mul\nsys.modules['calc'] = fake\nfake.mul = mul\nfake.add = lambda a, b: 3 if a else 0\n"},
}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize("name", WEAKENED)
async def test_earlier_tests_that_notice_less_beside_an_honest_change_are_a_question(project: Any, name: str) -> None:
    """Naming the changed files exempts nothing."""
    project.has(BASE)
    edits = {"calc.py": MORE, "tests/test_mul.py": NEW, **WEAKENED[name]}
    result = await judged(project, edits, files=("calc.py", *WEAKENED[name]))
    assert result.asks(Reservation.TESTS_CHANGED)
    assert "no longer notice" in result.notes


@pytest.mark.heavy
async def test_tests_that_notice_as_much_in_another_form_are_verified(project: Any) -> None:
    rows = "import pytest\nfrom calc import add, sub\nfrom tests.helper import same\n\n\n@pytest.mark.parametrize('a, b, c', [(1, 2, 3), (0, 0, 0)])\ndef test_add(a, b, c):\n    same(add(a, b), c)\n\n\ndef test_differences(five):\n    same(sub(five, 2), 3)\n"
    edits = {
        "calc.py": MORE,
        "tests/test_mul.py": NEW,
        "tests/test_calc.py": rows,
        "tests/helper.py": "def same(actual, expected):\n    assert actual == expected, (actual, expected)\n",
        "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef five():\n    return 5\n",
    }
    assert (await judged(project.has(BASE), edits)).is_(Verdict.VERIFIED)


@pytest.mark.heavy
async def test_a_script_of_a_check_is_not_mutated_and_must_not_ask_less(project: Any) -> None:
    """Its own mutants would make it fail."""
    run = "import calc\n\nassert calc.add(1, 2) == 3\nassert calc.sub(5, 2) == 3\n"
    project.has({"calc.py": CALC, "run.py": run})
    check = Check(name="run", argv=["{python}", "run.py"])
    more = run + "assert calc.mul(2, 3) == 6\n"
    result = await judged(
        project, {"calc.py": MORE, "run.py": more.replace("calc.sub(5, 2) == 3", "calc.sub(5, 2)")}, check
    )
    assert Reservation.TESTS_CHANGED in result.said, result.notes
    assert not any(mutant.path == "run.py" for mutant in result.only.mutation.mutants)


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
async def test_a_test_of_a_script_that_notices_less_is_a_question(empty_project: Any) -> None:
    code = "exports.add = (a, b) => a + b;\n"
    test = "const assert = require('node:assert');\nrequire('node:test')('add', () => {{ assert.equal(require('./calc.js').add(1, 2), {}); }});\n"
    empty_project.has({"calc.js": code, "calc.test.js": test.format(3)})
    new = "require('node:test')('mul', () => require('node:assert').equal(require('./calc.js').mul(2, 3), 6));\n"
    edits = {
        "calc.js": code + "exports.mul = (a, b) => a * b;\n",
        "mul.test.js": new,
        "calc.test.js": test.format("require('./calc.js').add(1, 2)"),
    }
    result = await judged(empty_project, edits, Check(name="node", argv=["node", "--test"]))
    assert result.asks(Reservation.TESTS_CHANGED)
