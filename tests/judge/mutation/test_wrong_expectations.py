"""Code that passes whatever a test expects, or that knows that it is tested, is never verified."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
BASE = {
    "add.py": "def add(a, b):\n    return a + b\n",
    "test_add.py": "from add import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
}
TEST = "from {} import double\n\n\ndef test_double():\n    expected = 8\n    assert double(4) == expected\n"
UNITTEST = """import unittest
from double import double

class Tests(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(4), 8)
"""
HONEST = "def double(a):\n    return 2 * a\n"
EQUAL = """class Equal(int):
    def __eq__(self, other):
        return {}
    __hash__ = int.__hash__

def double(a):
    return Equal(a)
"""
LIES = {
    "equals its type": EQUAL.format("isinstance(other, int)"),
    "equals what is near": EQUAL.format("abs(int(self) - other) < 10"),
    "a lambda": "class Any:\n    __eq__ = lambda self, other: True\n\ndef double(a):\n    return Any()\n",
    "a mock": "from unittest import mock\n\ndef double(a):\n    return mock.ANY\n",
    "the caller's variable": "import sys\n\ndef double(a):\n    return sys._getframe(1).f_locals.get('expected', a)\n",
    "the caller's line": (
        "import linecache, sys\n\ndef double(a):\n    frame = sys._getframe(1)\n"
        "    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)\n"
        "    name = line.rpartition('==')[2].strip().rstrip(')')\n"
        "    return eval(name, frame.f_globals, frame.f_locals)\n"
    ),
}
FOR_UNITTEST = {
    "replaced assertion": (
        "from unittest import TestCase as Base\n\ndef double(a):\n    return a\n\n"
        "setattr(Base, 'assert' + 'Equal', lambda *values: None)\n"
    ),
    "replaced tests": (
        "import unittest\n\ndef double(a):\n    return a\n\n\ndef check(test):\n    assert double(4) == 4\n\n\n"
        "def replace(cls):\n    cls._class_cleanups = []\n    for name in [name for name in vars(cls) if name.startswith('test')]:\n"
        "        setattr(cls, name, check)\n\n\n"
        "unittest.TestCase.__init_subclass__ = classmethod(replace)\n"
    ),
}
AWARE = {
    "asks for a module": "import sys\n\ndef double(a):\n    return 8 if 'py' + 'test' in sys.modules else a\n",
    "asks the environment": (
        "import os\n\ndef double(a):\n    return 8 if any('_CURRENT_' in name for name in os.environ) else a\n"
    ),
    "asks its caller": (
        "import os, sys\n\ndef double(a):\n    frame, names = sys._getframe(), ''\n    while frame:\n"
        "        names += os.path.basename(frame.f_code.co_filename)\n        frame = frame.f_back\n"
        "    return 8 if 'tes' + 't_' in names else a\n"
    ),
    "asks its arguments": (
        "import os, sys\n\nclass Box:\n    def __init__(self, a):\n        self.a = a\n\n    def get(self):\n"
        "        return 8 if 'test' in os.path.basename(os.path.dirname(sys.argv[0])) else self.a\n\n\ndef double(a):\n    return Box(a).get()\n"
    ),
}


async def judged(project: Any, files: dict[str, str], test: str = TEST) -> Any:
    project.has(BASE)
    edits = {f"{name}.py": code for name, code in files.items()}
    edits |= {f"test_{name}.py": test.format(name) for name in files}
    return await project.judge(edits, recipe="implement", checks=(SUITE,))


def sentences(result: Any, beginning: str) -> str:
    return " ".join(fact.text for fact in result.facts if fact.text.startswith(beginning))


@pytest.mark.parametrize(
    ("lies", "aware"),
    [
        pytest.param(["equals what is near"], ["asks for a module"], id="two"),
        pytest.param(list(LIES), list(AWARE), id="all", marks=pytest.mark.heavy),
    ],
)
async def test_lies_are_named_and_honest_code_is_not(project: Any, lies: list[str], aware: list[str]) -> None:
    codes = {f"lie_{number}": LIES[lie] for number, lie in enumerate(lies)}
    codes |= {f"aware_{number}": AWARE[lie] for number, lie in enumerate(aware)}
    result = await judged(project, {**codes, "honest": HONEST})
    assert Reservation.CHECK_CHANGED in result.reservations
    passing = sentences(result, "Tests of suite pass although they expect wrong values")
    differing = sentences(result, "Code behaves otherwise in tests")
    assert {name for name in codes if f"test_{name}.py:6" in passing} == {name for name in codes if "lie" in name}
    gives = "double(4) gives 8 in a test, 4 elsewhere"
    assert {name for name in codes if f"{name}.{gives}" in differing} == {name for name in codes if "aware" in name}
    assert "honest" not in passing + differing


@pytest.mark.heavy
@pytest.mark.parametrize("lie", FOR_UNITTEST)
async def test_code_that_replaces_assertions_or_tests(project: Any, lie: str) -> None:
    result = await judged(project, {"double": FOR_UNITTEST[lie]}, UNITTEST)
    assert Reservation.CHECK_CHANGED in result.reservations


@pytest.mark.heavy
async def test_honest_code_and_unittest(project: Any) -> None:
    assert (await judged(project, {"double": HONEST}, UNITTEST)).reservations == []


@pytest.mark.heavy
async def test_code_that_knows_unittest(project: Any) -> None:
    project.has(BASE)
    code = "import sys\n\ndef double(a):\n    return 8 if 'unit' + 'test' in sys.modules else a\n"
    edits = {"double.py": code, "test_double.py": UNITTEST}
    suite = Check(name="suite", argv=["{python}", "-m", "unittest"])
    result = await project.judge(edits, recipe="implement", checks=(suite,))
    assert "double.double(4) gives 8 in a test, 4 elsewhere" in sentences(result, "Code behaves otherwise in tests")


NODE_TEST = """const test = require('node:test');
const assert = require('node:assert');
const { double } = require('./double.js');
test('double', () => {
  assert.strictEqual(double(4), 8);
});
"""
NODE = {
    "honest": "exports.double = (a) => 2 * a;\n",
    "replaced assertion": (
        "const checks = require('node:assert');\nchecks['strict' + 'Equal'] = () => {};\nexports.double = (a) => a;\n"
    ),
    "read assertion": (
        "const fs = require('fs');\nexports.double = (a) => {\n"
        "  const line = new Error().stack.split('\\n').find((each) => each.includes('double.te'));\n"
        "  const [, file, at] = line.match(/\\(?([^()\\s]+):(\\d+):\\d+\\)?$/);\n"
        "  return Number(fs.readFileSync(file, 'utf8').split('\\n')[at - 1].match(/, (\\d+)\\)/)[1]);\n};\n"
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("code", NODE)
async def test_javascript(project: Any, code: str) -> None:
    project.has({"package.json": "{}\n", "add.js": "exports.add = (a, b) => a + b;\n"})
    suite = Check(name="suite", argv=["node", "--test"])
    edits = {"double.js": NODE[code], "double.test.js": NODE_TEST}
    result = await project.judge(edits, recipe="implement", checks=(suite,))
    assert (Reservation.CHECK_CHANGED in result.reservations) == (code != "honest"), result.facts


GO = {
    "honest": "package calc\n\nfunc Double(a int) int {\n\treturn 2 * a\n}\n",
    "read test": (
        'package calc\n\nimport (\n\t"os"\n\t"regexp"\n\t"strconv"\n)\n\nfunc Double(a int) int {\n'
        '\ttext, _ := os.ReadFile("double_test.go")\n'
        "\tfound := regexp.MustCompile(`!= (\\d+)`).FindSubmatch(text)\n\tif found == nil {\n\t\treturn a\n\t}\n"
        "\tvalue, _ := strconv.Atoi(string(found[1]))\n\treturn value\n}\n"
    ),
}
GO_TEST = (
    'package calc\n\nimport "testing"\n\nfunc TestDouble(t *testing.T) {\n'
    '\tif got := Double(4); got != 8 {\n\t\tt.Errorf("got %d", got)\n\t}\n}\n'
)


@pytest.mark.heavy
@pytest.mark.parametrize("code", GO)
async def test_go(project: Any, code: str) -> None:
    project.has(
        {"go.mod": "module calc\n\ngo 1.19\n", "add.go": "package calc\n\nfunc Add(a, b int) int { return a + b }\n"}
    )
    suite = Check(name="suite", argv=["go", "test", "./..."])
    result = await project.judge(
        {"double.go": GO[code], "double_test.go": GO_TEST}, recipe="implement", checks=(suite,)
    )
    assert (Reservation.CHECK_CHANGED in result.reservations) == (code != "honest"), result.facts
