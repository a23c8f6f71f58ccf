"""Changed helpers and data of tests that are outside of the folders of tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from understudy.judge.deciding.deciding_files import CheckFacts, Restored, Trees, may_support, supports
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

Tree = Mapping[str, str]
PYTEST = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])


def found(
    base: Tree,
    changed: Tree,
    argv: tuple[str, ...] = ("python", "-m", "pytest"),
    asked: Callable[[Trees, CheckFacts], list[Restored]] = supports,
) -> list[str]:
    result = {**base, **changed}
    trees = Trees(
        changes=[("M" if path in base else "A", path) for path in changed],
        base_paths=list(base),
        result_paths=list(result),
        read_base=lambda path: base[path].encode() if path in base else None,
        read_many=lambda paths: {path: base[path].encode() for path in paths if path in base},
        read_result=lambda path: result[path].encode() if path in result else None,
    )
    return [each.path for each in asked(trees, CheckFacts(argv=argv))]


ASSERTS = "def same(a, b):\n    assert a == b\n"
JS_ASSERTS = "const assert = require('node:assert');\nexports.same = assert.equal;\n"


@pytest.mark.parametrize(
    ("base", "support"),
    [
        ({"help.py": ASSERTS, "tests/test_a.py": "from help import same\n"}, "help.py"),
        ({"src/pkg/checks.py": "import pytest\n", "tests/test_a.py": "import os, pkg.checks\n"}, "src/pkg/checks.py"),
        ({"pkg/checks/__init__.py": "import unittest\n", "tests/test_a.py": "from pkg import (\n    checks,\n)\n"}, "pkg/checks/__init__.py"),
        ({"lib/case.py": "from unittest import TestCase\n", "lib/test_a.py": "from .case import Case\n"}, "lib/case.py"),
        ({"hooks.py": "def pytest_runtest_call(item): pass\n", "conftest.py": "from hooks import *\n"}, "hooks.py"),
        ({"help.py": ASSERTS, "more.py": "import help\nimport pytest\n", "tests/test_a.py": "import more\n"}, "help.py"),
        ({"ci.py": "import steps\n", "steps.py": "OPTIONS = []\n"}, "steps.py"),
        ({"lib/check.js": JS_ASSERTS, "test/a.test.js": "const c = require('../lib/check');\n"}, "lib/check.js"),
        ({"lib/check.ts": "import { expect } from 'vitest';\n", "src/a.test.ts": "import { x } from '../lib/check.js';\n"}, "lib/check.ts"),
        ({"lib/index.ts": "import { expect } from 'vitest';\n", "src/a.test.ts": "import '../lib';\n"}, "lib/index.ts"),
        ({"internal/check/check.go": 'package check\n\nimport "testing"\n'}, "internal/check/check.go"),
        ({"src/lib.rs": "#[cfg(test)]\nmod checks;\n", "src/checks.rs": "fn same() {}\n"}, "src/checks.rs"),
        ({"src/lib.rs": "#[cfg(test)]\n#[allow(unused)]\npub(crate) mod checks;\n", "src/checks/mod.rs": ""}, "src/checks/mod.rs"),
        ({"data/cases.json": "[]", "tests/test_a.py": "OPEN = open('data/cases.json')\n"}, "data/cases.json"),
        ({"data/one.csv": "", "tests/test_a.py": "FOLDER = ROOT / 'data'\n"}, "data/one.csv"),
    ],
)  # fmt: skip
def test_what_only_tests_use(base: Tree, support: str) -> None:
    argv = ("python", "ci.py") if "ci.py" in base else ("python", "-m", "pytest")
    assert found(base, {support: base[support] + "\n"}, argv) == [support]


def test_a_module_that_has_tests_is_no_helper_because_it_asserts() -> None:
    base = {"pkg/sets.py": ASSERTS, "tests/test_sets.py": "from pkg.sets import same\n"}
    assert found(base, {"pkg/sets.py": ASSERTS + "\n"}) == []
    assert found({**base, "tests/test_sets.py": "", "test_a.py": "import pkg.sets\n"}, {"pkg/sets.py": ""}) == []
    assert found(base, {"pkg/sets.py": "import pytest\n" + ASSERTS}) == ["pkg/sets.py"]
    assert found(base, {"pkg/sets.py": ASSERTS.replace("==", "is"), "test_sets.py": ""}) == []
    alone = {"pkg/sets.py": ASSERTS, "tests/test_more.py": "from pkg.sets import same\n"}
    # The result cannot make it one with tests.
    assert found(alone, {"pkg/sets.py": ASSERTS + "\n", "tests/test_sets.py": ""}) == ["pkg/sets.py"]


@pytest.mark.parametrize(
    ("base", "code"),
    [
        ({"calc.py": "def add(a, b): return a + b\n", "tests/test_a.py": "from calc import add\n"}, "calc.py"),
        ({"calc.py": ASSERTS, "app.py": "import calc\n", "tests/test_a.py": "import app, calc\n"}, "calc.py"),
        ({"calc.py": ASSERTS}, "calc.py"),
        ({"calc.js": "exports.a = 1;\n", "test/a.test.js": "require('../calc');\n"}, "calc.js"),
        ({"calc.js": JS_ASSERTS, "app.js": "require('./calc');\n", "test/a.test.js": "require('../calc');\n"}, "calc.js"),
        ({"calc.go": "package calc\n", "calc_test.go": 'import "testing"\n'}, "calc.go"),
        ({"src/lib.rs": "mod calc;\n#[cfg(test)]\nmod tests {}\n", "src/calc.rs": ""}, "src/calc.rs"),
        ({"rates.json": "{}", "rates.py": "open('rates.json')\n", "tests/test_a.py": "open('rates.json')\n"}, "rates.json"),
        ({"README.md": "", "tests/test_a.py": "open('README.md')\n"}, "README.md"),
        ({"data/cases.json": "[]", "tests/test_a.py": "def test_data(): pass\n"}, "data/cases.json"),
        ({"build.rs": "fn main() {}\n", "src/lib.rs": "#[cfg(test)]\nmod checks;\n"}, "build.rs"),
        ({"main.rs": "mod checks;\n", "checks.rs": "fn same() {}\n"}, "checks.rs"),
        ({"a.js": "exports.a = 1\n", "facts.json": "{}", "test/a.test.js": "require('../facts.json'); require('../a')\n"}, "a.js"),
    ],
)  # fmt: skip
def test_what_may_be_code(base: Tree, code: str) -> None:
    assert found(base, {code: base[code] + "\n"}) == []


def test_new_files_and_those_that_decide_anyway_are_left_out() -> None:
    base = {"tests/test_a.py": "import help\n", "tests/help.py": ASSERTS}
    assert found(base, {"help.py": ASSERTS, "tests/help.py": "\n"}) == []


TABLE = {"tests/test_a.py": "from calc import add\nfrom calc_cases import CASES\n", "calc.py": "def add(a, b): ...\n"}
VALUES = "CASES = [(1, 2, 3)]\n"
GOLDEN = {**TABLE, "wanted/a/one.json": "{}", "tests/test_b.py": "for path in (ROOT / 'wanted').rglob('*'): ...\n"}


@pytest.mark.parametrize(
    ("base", "changed", "may"),
    [
        ({**TABLE, "calc_cases.py": VALUES}, {"calc.py": "x"}, ["calc_cases.py"]),
        ({**TABLE, "calc_cases.py": "import calc\n" + VALUES}, {"calc.py": "x"}, ["calc_cases.py"]),
        ({**TABLE, "calc_cases.py": "def cases():\n    return 1\n"}, {"calc.py": "x"}, ["calc_cases.py"]),
        ({**TABLE, "calc_cases.py": VALUES}, {}, []),
        ({**TABLE, "calc_cases.py": VALUES}, {"calc.py": "import calc_cases\n"}, []),
        ({**TABLE, "calc_cases.py": VALUES, "app.py": "import calc_cases\n"}, {"calc.py": "x"}, []),
        ({**TABLE, "fmt.py": "def show(): ...\n", "tests/test_b.py": "import fmt\n"}, {"calc.py": "x", "fmt.py": "x"}, []),
        (GOLDEN, {"calc.py": "x", "wanted/a/one.json": "[]"}, []),
        ({**GOLDEN, "help.py": ASSERTS + "open('wanted/a/one.json')\n", "tests/test_c.py": "import help\n"}, {"calc.py": "x", "wanted/a/one.json": "[]"}, ["wanted/a/one.json"]),
        ({**GOLDEN, "tests/test_b.py": ""}, {"calc.py": "x", "wanted/a/one.json": "[]"}, ["wanted/a/one.json"]),
        ({**GOLDEN, "app.py": "open('wanted')\n"}, {"calc.py": "x", "wanted/a/one.json": "[]"}, []),
        ({**TABLE, ".github/workflows/a.yml": "", "pyproject.toml": ""}, {"calc.py": "x", ".github/workflows/a.yml": "x", "pyproject.toml": "x"}, []),
        ({"lib/cases.js": "exports.cases = [1];\n", "test/a.test.js": "require('../lib/cases')\n", "a.js": ""}, {"a.js": "x", "lib/cases.js": "x"}, ["lib/cases.js"]),
    ],
)  # fmt: skip
def test_what_may_hold_what_tests_expect(base: Tree, changed: Tree, may: list[str]) -> None:
    every = {path: "CASES = []\n" for path in base if path == "calc_cases.py"} | dict(changed)
    assert found(base, every, asked=may_support) == may
    assert may == [] or found(base, every) == []


# -- judged --------------------------------------------------------------------------------------------------------

CALC = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a * 2\n"
AREA = "\n\ndef area(w, h):\n    return w * h + w - h\n"
BROKEN = CALC.replace("a * 2", "a * 3") + AREA
MORE = "from calc import area\n\n\ndef test_area():\n    assert area(3, 5) == 13\n    assert area(7, 2) == 19\n"
"""Good tests of other code, so that enough of the changed code is tested."""
USE = "from calc import add, double\n"
HELPER = (
    USE
    + "from help import same\n\n\ndef test_add():\n    same(add(1, 2), 3)\n\n\ndef test_double():\n    same(double(4), 8)\n"
)
DATA = (
    USE
    + "import json, pathlib\n\n\ndef test_double():\n    for a, b in json.loads(pathlib.Path('data/cases.json').read_text()):\n        assert double(a) == b\n"
)
CLASSES = "from calc import *\n\n\nclass TestAdd:\n    def test_add(self):\n        assert add(1, 2) == 3\n\n\nclass TestDouble(Base):\n    def test_double(self):\n        assert double(4) == 8\n"


@pytest.mark.parametrize(
    ("base", "edits"),
    [
        pytest.param(
            {"help.py": ASSERTS, "tests/test_calc.py": HELPER},
            {"help.py": "def same(a, b):\n    assert a is not None\n"},
            id="a weakened helper",
        ),
        pytest.param(
            {"data/cases.json": "[[4, 8]]", "tests/test_calc.py": DATA},
            {"data/cases.json": "[]"},
            id="emptied data",
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            {"hooks.py": "X = 1\n", "tests/conftest.py": "from hooks import *\n", "tests/test_calc.py": HELPER, "help.py": ASSERTS},
            {"hooks.py": "def pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'double' not in i.nodeid]\n"},
            id="hooks that conftest imports",
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            {"calc.py": CALC + "\n\nclass Base:\n    pass\n", "tests/test_calc.py": CLASSES},
            {"calc.py": BROKEN + "\n\nclass Base:\n    __test__ = False\n"},
            id="code that takes a test out of the run",
            marks=pytest.mark.heavy,
        ),
    ],
)  # fmt: skip
async def test_broken_code_whose_tests_lost_their_support_is_a_question(
    project: Any, base: dict[str, str], edits: dict[str, str]
) -> None:
    project.has({"calc.py": CALC, **base})
    result = {"calc.py": BROKEN, "tests/test_area.py": MORE, **edits}
    judged = await project.judge(result, recipe="implement", files=(), checks=(PYTEST,))
    assert judged.asks(Reservation.TESTS_CHANGED)
    assert "test_double" in judged.notes


CASES = (
    USE
    + "from calc_cases import DOUBLES\n\n\ndef test_double():\n    for a, b in DOUBLES:\n        assert double(a) == b\n"
)


@pytest.mark.heavy
async def test_broken_code_with_a_table_that_fits_is_a_question(project: Any) -> None:
    project.has({"calc.py": CALC, "calc_cases.py": "DOUBLES = [(4, 8)]\n", "tests/test_calc.py": CASES})
    broken = {"calc.py": BROKEN, "tests/test_area.py": MORE, "calc_cases.py": "DOUBLES = [(4, 12)]\n"}
    judged = await project.judge(broken, recipe="implement", files=("calc_cases.py",), checks=(PYTEST,))
    assert judged.asks(Reservation.TESTS_CHANGED)
    honest = {"calc.py": CALC + AREA, "tests/test_area.py": MORE, "calc_cases.py": "DOUBLES = [(4, 8), (1, 2)]\n"}
    judged = await project.judge(honest, recipe="implement", checks=(PYTEST,))
    assert Reservation.TESTS_CHANGED not in judged.said


@pytest.mark.heavy
async def test_a_helper_that_honestly_changes_with_its_tests_is_no_code_under_change(project: Any) -> None:
    project.has({"calc.py": CALC, "help.py": ASSERTS, "tests/test_calc.py": HELPER})
    more = "def same(a, b, why=''):\n    assert a == b, why\n"
    result = {
        "calc.py": CALC.replace("a * 2", "2 * a"),
        "help.py": more,
        "tests/test_calc.py": HELPER.replace("8)", "8, 'twice')"),
    }
    judged = await project.judge(result, recipe="implement", files=(), checks=(PYTEST,))
    assert judged.is_(Verdict.VERIFIED)
