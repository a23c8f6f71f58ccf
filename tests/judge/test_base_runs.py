"""Results whose checks pass because of what the result did to tests and configuration, and honest changes of both."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from understudy.judge.base_runs import earlier_tests
from understudy.judge.mutant_runners import mutant_runs
from understudy.model.delegation.events import Phase
from understudy.model.evidence.checks import Check
from understudy.model.places import untested
from understudy.model.verdicts import Reservation, Verdict

PYTEST = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
UNITTEST = Check(name="suite", argv=["{python}", "-m", "unittest", "discover", "-s", "tests"])
TESTS = """
from calc import add, double


def test_add():
    assert add(1, 2) == 3


def test_double():
    assert double(4) == 8
"""
CALC = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a * 2\n"
BROKEN = CALC.replace("a * 2", "a * 3")
SHELL = "#!/bin/sh\nset -e\nexec python -m pytest -q\n"
SILENT = "import pytest\n\n\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_call(item):\n    try:\n        yield\n    except Exception:\n        pass\n"
DROPPING = "def pytest_collection_modifyitems(items):\n    items[:] = [item for item in items if 'double' not in item.nodeid]\n"
UNIT = "import unittest\nfrom calc import add, double\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n\n    def test_double(self):\n        self.assertEqual(double(4), 8)\n"

QUESTION = Reservation.TESTS_CHANGED
DECIDED = Reservation.CHECK_CHANGED


def has(project: Any, **more: str) -> Any:
    return project.has({"calc.py": CALC, "tests/test_calc.py": TESTS, "notes.md": "x", **more})


SKIPPED = TESTS.replace("def test_double", "import pytest\n\n\n@pytest.mark.{}\ndef test_double")
EDITS = {
    "expects_more": TESTS.replace("== 8", "== 12"),
    "weakened": TESTS.replace("double(4) == 8", "double(4)"),
    "removed": TESTS.split("def test_double", maxsplit=1)[0],
    "replaced": "def test_nothing():\n    pass\n",
    "deleted": None,
    "renamed_away": TESTS.replace("def test_double", "def later_double"),
    "skipped": SKIPPED.format("skip"),
    "expected_to_fail": SKIPPED.format("xfail"),
}
"""How a file of tests that has ``test_double`` changes."""


@pytest.mark.parametrize(
    "is_red", [False, pytest.param(True, marks=pytest.mark.heavy)], ids=["green on the base", "red on the base"]
)
async def test_tests_of_broken_code_that_are_edited_are_a_question(
    project: Any, is_red: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutant_runs, "PROGRESS_SECONDS", 0.0)
    code = BROKEN if is_red else CALC
    base = {f"{name}.py": code for name in EDITS} | {
        f"tests/test_{name}.py": TESTS.replace("from calc", f"from {name}") for name in EDITS
    }
    edits = {
        f"tests/test_{name}.py": text and text.replace("from calc", f"from {name}") for name, text in EDITS.items()
    }
    code_edits = {} if is_red else {f"{name}.py": BROKEN for name in EDITS}
    project.has({**base, "tests/test_more.py": "def test_more():\n    pass\n"})
    judged = await project.judge({**edits, **code_edits}, recipe="implement", files=tuple(edits), checks=(PYTEST,))
    assert judged.asks(QUESTION)
    assert judged.only.ok
    counts = [event.count for event in judged.events if isinstance(event, Phase) and event.count is not None]
    runs = {count.run for count in counts if count.of == "tests"}
    assert runs >= {"", "without the result", "earlier tests, with the result"}, "each run of the suite has a name"
    changed = {entry.test: entry.restored for entry in judged.only.base.tests}
    lost = {f"tests/test_{name}.py::test_double": "failed" for name in EDITS}
    assert {test: changed.get(test) for test in lost} == lost
    assert ("They failed before: if they contradict the task, confirm the edits." in judged.notes) == is_red
    if not is_red:
        assert "8 of 17 earlier tests" in judged.notes


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param({"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-k add"\n'}, id="pyproject.toml"),
        pytest.param({"conftest.py": SILENT}, id="a conftest that swallows", marks=pytest.mark.heavy),
        pytest.param(
            {
                "double_hidden.py": "",
                "tests/pyvenv.cfg": "",
                "pytest.ini": "[pytest]\ntestpaths = other\n",
                "other/test_x.py": "def test_x(): pass\n",
            },
            id="pyvenv.cfg and testpaths",
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            {"pytest.py": "import sys\n\nif __name__ == '__main__':\n    sys.exit(0)\n"},
            id="a module named pytest",
            marks=pytest.mark.heavy,
        ),
    ],
)
async def test_broken_code_with_another_configuration_changes_the_check(project: Any, edits: dict[str, str]) -> None:
    has(project)
    judged = await project.judge({"calc.py": BROKEN, **edits}, recipe="implement", checks=(PYTEST,))
    assert judged.asks(DECIDED)
    # The probe sees an exception that a wrapper of the conftest swallows.
    assert (Reservation.TAMPERED in judged.said) == (SILENT in edits.values())
    assert next(iter(edits)) in judged.notes or "conftest" in judged.notes or "pytest.ini" in judged.notes


async def test_a_failing_test_that_is_taken_out_of_the_run_is_a_question(project: Any) -> None:
    has(project, **{"calc.py": BROKEN, "tests/test_more.py": "def test_more():\n    pass\n"})
    edits = {"tests/conftest.py": DROPPING}
    judged = await project.judge(edits, recipe="implement", files=tuple(edits), checks=(PYTEST,))
    assert judged.asks(DECIDED)
    assert "tests/test_calc.py::test_double" in [changed.test for changed in judged.only.base.tests]


async def test_code_that_skips_a_failing_test_is_a_question(project: Any) -> None:
    has(project, **{"calc.py": BROKEN})
    code = f"import unittest\n\n\n{BROKEN.replace('return a * 3', 'raise unittest.SkipTest')}"
    judged = await project.judge({"calc.py": code}, recipe="implement", checks=(PYTEST,))
    assert judged.verdict is Verdict.UNVERIFIED
    assert Reservation.TESTS_CHANGED in judged.said
    assert "1 test failed on the base and no longer runs: tests/test_calc.py::test_double." in judged.notes


@pytest.mark.parametrize(
    ("argv", "files", "edits"),
    [
        pytest.param(["sh", "run.sh"], {"run.sh": "exit 1\n"}, {"run.sh": "exit 0\n"}, id="script"),
        pytest.param(
            ["{python}", "run.py"], {"run.py": "import sys\nsys.exit(1)\n"}, {"run.py": "\n"}, id="Python script"
        ),
        pytest.param(
            ["make", "test"],
            {"Makefile": "test:\n\t@sh run.sh\n", "run.sh": "exit 1\n"},
            {"run.sh": "exit 0\n"},
            id="script behind make",
        ),
        pytest.param(["make"], {"Makefile": "test:\n\tfalse\n"}, {"Makefile": "test:\n\ttrue\n"}, id="Makefile"),
    ],
)
async def test_a_failing_check_that_is_edited_is_a_question(
    project: Any, argv: list[str], files: dict[str, str], edits: dict[str, str]
) -> None:
    has(project, **files)
    judged = await project.judge(edits, recipe="implement", files=tuple(edits), checks=(Check(name="own", argv=argv),))
    assert judged.asks(DECIDED)


DOUBLE = 'def double(x):\n    """Double.\n\n    >>> double(2)\n    {}\n    """\n    return x * {}\n'
README = "# Calc\n\n>>> from calc import double\n>>> double(2)\n{}\n"


async def test_examples_that_are_edited_are_a_question(project: Any) -> None:
    base = {"red.py": DOUBLE.format(4, 3), "green.py": DOUBLE.format(4, 2), "README.md": README.format(4)}
    project.has({**base, "calc.py": "def double(x):\n    return x * 3\n", "test_other.py": "def test_other(): pass\n"})
    edits = {"red.py": DOUBLE.format(6, 3), "green.py": DOUBLE.format(6, 3), "README.md": README.format(6)}
    argv = ["{python}", "-m", "pytest", "-q", "--doctest-modules", "--doctest-glob=*.md"]
    judged = await project.judge(edits, recipe="implement", checks=(Check(name="suite", argv=argv),))
    assert judged.asks(QUESTION)
    assert {changed.test.partition("::")[0] for changed in judged.only.base.tests} == set(base)


@pytest.mark.parametrize(
    ("example", "is_noticed"),
    [
        (">>> half(6)\n    3", True),
        pytest.param(">>> done = half(6)", False, marks=pytest.mark.heavy),
    ],
    ids=["expected", "only called"],
)
async def test_examples_must_notice_what_they_are_about(project: Any, example: str, is_noticed: bool) -> None:
    project.has({"calc.py": DOUBLE.format(4, 2)})
    half = f'\n\ndef half(x):\n    """Halve.\n\n    {example}\n    """\n    return x // 2\n'
    argv = ["{python}", "-m", "pytest", "-q", "--doctest-modules", "--doctest-glob", "*.md"]
    check = Check(name="suite", argv=argv)
    judged = await project.judge({"calc.py": DOUBLE.format(4, 2) + half}, recipe="implement", checks=(check,))
    assert judged.said == ([] if is_noticed else [Reservation.CHANGE_NOT_TESTED])


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
async def test_failing_tests_of_node_that_are_edited_are_a_question(project: Any) -> None:
    head = "const test = require('node:test');\nconst assert = require('node:assert');\nconst { double } = require('./calc.js');\n"
    edits = {"skips": ("test(", "test.skip("), "expects": ("6", "9"), "later": ("test('later'", "test.todo('later'")}
    tests = {name: f"{head}test('{name}', () => assert.equal(double(3), 6));\n" for name in edits}
    project.has(
        {"calc.js": "exports.double = (x) => x * 3;\n", "other.test.js": "require('node:test')('other', () => {});\n"}
    )
    project.has({f"{name}.test.js": text for name, text in tests.items()})
    check = Check(name="suite", argv=["node", "--test"])
    result = {f"{name}.test.js": text.replace(*edits[name]) for name, text in tests.items()}
    judged = await project.judge(result, recipe="implement", checks=(check,))
    assert judged.asks(QUESTION)
    assert {changed.test.strip() for changed in judged.only.base.tests} >= set(edits)


async def test_a_failing_test_that_the_code_makes_pass_is_no_question(project: Any) -> None:
    has(project, **{"calc.py": BROKEN})
    more = TESTS + "\n\ndef test_more():\n    assert double(5) == 10\n"
    judged = await project.judge({"calc.py": CALC, "tests/test_calc.py": more}, recipe="implement", checks=(PYTEST,))
    assert judged.is_(Verdict.VERIFIED)


async def test_the_first_tests_of_a_project_are_no_question(project: Any) -> None:
    feature = CALC + "\n\ndef half(a):\n    return a / 2\n"
    test = "from calc import half\n\n\ndef test_half():\n    assert half(8) == 4\n"
    judged = await project.judge({"calc.py": feature, "tests/test_half.py": test}, recipe="implement", checks=(PYTEST,))
    assert not {QUESTION, DECIDED} & set(judged.said), judged.notes


@pytest.mark.heavy
async def test_tests_that_were_written_first_are_no_question(project: Any) -> None:
    first = "from calc import half\n\n\ndef test_half():\n    assert half(8) == 4\n"
    has(project, **{"tests/test_half.py": first})
    feature = CALC + "\n\ndef half(a):\n    return a / 2\n"
    judged = await project.judge({"calc.py": feature}, recipe="implement", checks=(PYTEST,))
    assert judged.is_(Verdict.VERIFIED)
    judged = await project.judge(
        {"calc.py": CALC + "\n# later\n", "tests/test_half.py": None}, recipe="implement", checks=(PYTEST,)
    )
    assert judged.asks(QUESTION)
    assert "cannot be loaded without this result's edits: tests/test_half.py." in judged.notes


@pytest.mark.parametrize(
    ("code", "edits"),
    [
        pytest.param(BROKEN, {"tests/test_calc.py": TESTS.replace("== 8", "")}, id="a test", marks=pytest.mark.heavy),
        pytest.param(
            CALC.replace("a + b", "a - b"),
            {"tests/helper.py": "def same(a, b):\n    pass\n"},
            id="a helper",
            marks=pytest.mark.heavy,
        ),
    ],
)
async def test_tests_and_helpers_that_the_task_names_are_compared(
    project: Any, code: str, edits: dict[str, str]
) -> None:
    helped = "from calc import add\nfrom tests.helper import same\n\n\ndef test_helped():\n    same(add(1, 2), 3)\n"
    helper = "def same(a, b):\n    assert a == b\n"
    double = TESTS.replace("    assert add(1, 2) == 3", "    pass")
    has(project, **{"tests/__init__.py": "", "tests/helper.py": helper, "tests/test_helped.py": helped})
    has(project, **{"tests/test_calc.py": double})
    edits = {path: text.replace("    assert add(1, 2) == 3", "    pass") for path, text in edits.items()}
    judged = await project.judge({"calc.py": code, **edits}, recipe="implement", files=tuple(edits), checks=(PYTEST,))
    assert judged.asks(QUESTION)


@pytest.mark.heavy
async def test_new_tests_beside_an_edited_failing_one_are_a_question(project: Any) -> None:
    has(project, **{"calc.py": BROKEN})
    more = TESTS.replace("== 8", "== 12") + "\n\ndef test_more():\n    assert add(2, 2) == 4\n"
    judged = await project.judge({"tests/test_calc.py": more})
    assert judged.asks(QUESTION)
    assert "test_double" in judged.notes


@pytest.mark.heavy
async def test_a_package_of_tests_that_skips_is_a_question(project: Any) -> None:
    has(project)
    skip = "import pytest\n\npytest.skip('later', allow_module_level=True)\n"
    more = {"other/test_x.py": "def test_x(): pass\n"}
    judged = await project.judge(
        {"calc.py": BROKEN, "tests/__init__.py": skip, **more}, recipe="implement", checks=(PYTEST,)
    )
    assert judged.asks(QUESTION)


@pytest.mark.parametrize(
    ("argv", "files", "edits"),
    [
        pytest.param(
            ["sh", "-c", "./run.sh && true"],
            {"run.sh": "sh inner/deep.sh\n", "inner/deep.sh": SHELL},
            {"inner/deep.sh": "exit 0\n"},
            id="script of a script",
        ),
        pytest.param(
            ["make"],
            {"Makefile": "all: check\ncheck:\n\tsh run.sh\n", "run.sh": SHELL},
            {"run.sh": "true\n"},
            id="script of a Makefile",
            marks=pytest.mark.heavy,
        ),
    ],
)
async def test_a_changed_program_of_the_check_changes_it(
    project: Any, argv: list[str], files: dict[str, str], edits: dict[str, str]
) -> None:
    has(project, **files)
    project.tree.executable = ("run.sh",)
    judged = await project.judge(
        {"calc.py": BROKEN, **edits}, recipe="implement", checks=(Check(name="ci", argv=argv),)
    )
    assert judged.asks(DECIDED)


async def test_honest_changes_stay_clean(project: Any) -> None:
    """A dependency, a new test, a renamed and a reworded one, a fixture, data, helpers, other configuration."""
    pyproject = (
        '[project]\nname = "calc"\nversion = "1"\ndependencies = []\n\n[tool.pytest.ini_options]\naddopts = "-q"\n'
    )
    has(project, **{"pyproject.toml": pyproject, "tests/test_again.py": TESTS})
    more = "\n\ndef test_more():\n    assert add(0, 0) == 0\n"
    result = {
        "calc.py": CALC.replace("a * 2", "2 * a"),
        "pyproject.toml": '[project]\nname = "calc"\nversion = "2"\ndependencies = ["attrs"]\n',
        "tests/test_calc.py": TESTS.replace("test_double", "test_twice") + more,
        "tests/test_again.py": TESTS.replace("from calc import add, double", "from calc import double, add"),
        "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef four():\n    return 4\n",
        "tests/test_four.py": "def test_four(four):\n    assert four == 4\n",
        "Makefile": "test:\n\tpytest\n",
        "setup.cfg": "[metadata]\nversion = 2\n",
        "tests/random_data.json": "{}",
        "tests/helpers.py": "X = 1\n",
    }
    judged = await project.judge(result, recipe="implement", checks=(PYTEST,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    assert {place.path for place in untested(judged.places)} == {"pyproject.toml", "Makefile", "setup.cfg"}
    assert "renamed" in judged.notes


async def test_a_result_without_tests_and_configuration_costs_no_run_of_the_base(project: Any) -> None:
    has(project, **{"pyproject.toml": '[project]\nversion = "1"\n'})
    judged = await project.judge(
        {"calc.py": CALC + "# more\n", "README.md": "x", "pyproject.toml": '[project]\nversion = "2"\n'},
        recipe="implement",
        checks=(PYTEST,),
    )
    assert judged.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
    # To run, to look for mutants, without the settings, to restore, and without the probe.
    assert project.tree.made == ["head", "head", "restored: pyproject.toml", "head", "head"]


async def test_removed_tests_that_still_pass_are_a_question(project: Any) -> None:
    has(project)
    judged = await project.judge(
        {"tests/test_calc.py": TESTS.split("def test_double", maxsplit=1)[0]}, recipe="implement", checks=(PYTEST,)
    )
    assert judged.asks(QUESTION)
    [changed] = judged.only.base.tests
    assert (changed.restored, changed.result) == ("passed", "missing")


async def test_a_function_that_became_another_one_is_reported_as_such(project: Any) -> None:
    has(project)
    scale = "def scale(values):\n    for index, value in enumerate(values):\n        values[index] = 2 * value\n"
    judged = await project.judge(
        {
            "calc.py": CALC.split("def double", maxsplit=1)[0] + scale,
            "tests/test_calc.py": TESTS.replace("double(4) == 8", "scale(a := [4]) is None and a == [8]").replace(
                "import add, double", "import add, scale"
            ),
        },
        recipe="implement",
        checks=(PYTEST,),
    )
    assert judged.asks(Reservation.BASE_TESTS_DO_NOT_BUILD)


async def test_code_that_skips_its_tests_fails_the_check(project: Any) -> None:
    has(project)
    code = BROKEN.replace("def double(a):\n", "def double(a):\n    __import__('pytest').skip('x')\n")
    judged = await project.judge({"calc.py": code}, recipe="implement", checks=(PYTEST,))
    assert judged.is_(Verdict.CHECKS_FAILED)
    assert "test_double" in judged.only.output_tail


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("import pytest\n    pytest.exit('done', returncode=0)", id="pytest.exit"),
    ],
)
async def test_collected_tests_without_an_outcome_are_red(project: Any, ending: str) -> None:
    has(project)
    code = BROKEN.replace("def double(a):\n", f"def double(a):\n    {ending}\n")
    judged = await project.judge({"calc.py": code}, recipe="implement", checks=(PYTEST,))
    assert judged.is_(Verdict.CHECKS_FAILED)


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param({"calc.py": "import os\nos._exit(0)\n"}, id="the code ends the runner"),
        pytest.param(
            {"calc.py": BROKEN, "tests/test_calc.py": "import unittest\n"},
            id="no test is left",
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            {
                "calc.py": BROKEN,
                "tests/test_calc.py": UNIT
                + "\n\ndef load_tests(loader, tests, pattern):\n    return unittest.TestSuite([T('test_add')])\n",
            },
            id="load_tests drops one",
            marks=pytest.mark.heavy,
        ),
    ],
)
async def test_unittest_without_a_probe(project: Any, edits: dict[str, str]) -> None:
    project.has({"calc.py": CALC, "tests/test_calc.py": UNIT})
    judged = await project.judge(edits, recipe="implement", checks=(UNITTEST,))
    assert judged.verdict in {Verdict.UNVERIFIED, Verdict.CHECKS_FAILED}
    if judged.verdict is Verdict.UNVERIFIED:
        assert judged.asks(QUESTION)


JS = "exports.add = (a, b) => a + b;\nexports.double = (a) => a * 2;\n"
JS_BROKEN = JS.replace("* 2", "* 3")
JS_TEST = "const { test } = require('node:test');\nconst assert = require('node:assert');\nconst { add, double } = require('../calc.js');\ntest('adds', () => assert.equal(add(1, 2), 3));\ntest('doubles', () => assert.equal(double(4), 8));\n"
PACKAGE = '{"name": "calc", "version": "1.0.0", "scripts": {"test": "node --test test/"}}\n'


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js here")
@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        pytest.param({"calc.js": JS_BROKEN, "test/calc.test.js": JS_TEST.replace("double(4)", "8")}, QUESTION, id="weakened"),
        pytest.param({"calc.js": JS_BROKEN, "package.json": PACKAGE.replace("--test test/", "-e 0")}, DECIDED, id="script"),
        pytest.param({"calc.js": "process.exit(0);\n"}, Verdict.CHECKS_FAILED, id="process.exit"),
        pytest.param({"calc.js": JS.replace("a * 2", "2 * a"), "package.json": PACKAGE.replace("1.0.0", "1.0.1"), "test/more.test.js": JS_TEST.replace("'adds'", "'sums'")}, Reservation.CHANGE_NOT_TESTED, id="honest"),
    ],
)  # fmt: skip
async def test_node_without_a_probe(empty_project: Any, edits: dict[str, str], expected: Verdict | Reservation) -> None:
    """The folder is listed in the script: newer versions of Node would look for tests themselves."""
    check = Check(name="suite", argv=["sh", "-c", "node --test test/*.js"])
    if "package.json" in edits:
        check = Check(name="suite", argv=["npm", "test"])
        if shutil.which("npm") is None:
            pytest.skip("no npm here")
    empty_project.has({"calc.js": JS, "test/calc.test.js": JS_TEST, "package.json": PACKAGE, "notes.md": "x"})
    judged = await empty_project.judge(edits, recipe="implement", checks=(check,), files=("calc.js",))
    if expected is Reservation.CHANGE_NOT_TESTED:
        assert judged.is_(Verdict.UNVERIFIED, expected)
        assert [place.path for place in untested(judged.places)] == ["package.json"], "no question about tests"
        return
    assert judged.is_(expected) if isinstance(expected, Verdict) else judged.asks(expected)


RUST = "pub fn double(a: i32) -> i32 {\n    a * 2\n}\n"
RUST_TESTS = "\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn doubles() {\n        assert_eq!(double(4), 8);\n    }\n}\n"


@pytest.mark.heavy
@pytest.mark.usefixtures("cargo")
async def test_weakened_tests_beside_the_code_are_asked_about(empty_project: Any) -> None:
    cargo = '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n'
    empty_project.has({"Cargo.toml": cargo, "src/lib.rs": RUST + RUST_TESTS})
    weakened = RUST.replace("* 2", "* 3") + RUST_TESTS.replace("double(4), 8", "double(4), 12")
    suite = Check(name="suite", argv=["cargo", "test", "-q", "--offline"])
    judged = await empty_project.judge(
        {"src/lib.rs": weakened}, recipe="implement", checks=(suite,), files=("src/lib.rs",)
    )
    assert judged.asks(QUESTION)
    honest = RUST.replace("a * 2", "a + a") + RUST_TESTS
    judged = await empty_project.judge(
        {"src/lib.rs": honest}, recipe="implement", checks=(suite,), files=("src/lib.rs",)
    )
    assert judged.is_(Verdict.VERIFIED)


# -- the recipe tests --------------------------------------------------------------------------------------------

NEW = "from calc import add\n\n\ndef test_sum():\n    assert add(2, 2) == 4\n"
DATA = "import json, pathlib\nfrom calc import add\n\n\ndef test_data():\n    rows = json.loads((pathlib.Path(__file__).parent / 'rows.json').read_text())\n    assert rows and all(add(a, b) == c for a, b, c in rows)\n"


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param({"tests/rows.json": "[[1, 1, 3]]"}, id="shared data overwritten"),
        pytest.param(
            {"tests/__init__.py": "import sys\nsys.modules['json'] = None\n"},
            id="a package that breaks imports",
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            {"tests/calc.py": "def add(a, b):\n    return 4\n"},
            id="a module that hides the code",
            marks=pytest.mark.heavy,
        ),
    ],
)
async def test_new_tests_must_not_break_older_ones(project: Any, edits: dict[str, str]) -> None:
    has(project, **{"tests/test_data.py": DATA, "tests/rows.json": "[[1, 2, 3]]"})
    judged = await project.judge({"tests/test_new.py": NEW, **edits})
    assert judged.verdict is Verdict.CHECKS_FAILED, (judged.said, judged.notes)
    assert "test_data" in judged.only.output_tail
    assert judged.only.passed == 1


@pytest.mark.heavy
@pytest.mark.parametrize("also_on_the_base", [False, True])
async def test_older_tests_that_no_longer_end_count_as_failed(
    project: Any, monkeypatch: pytest.MonkeyPatch, *, also_on_the_base: bool
) -> None:
    monkeypatch.setattr(earlier_tests, "LEAST_SECONDS", 3.0)
    monkeypatch.setattr(earlier_tests, "TIMES", 0.0)
    waits = "import pathlib, threading\n\n\ndef test_data():\n    if (pathlib.Path(__file__).parent / 'wait').read_text() == 'yes':\n        threading.Event().wait()\n"
    has(project, **{"tests/test_data.py": waits, "tests/wait": "yes" if also_on_the_base else "no"})
    judged = await project.judge({"tests/test_new.py": NEW, "tests/wait": "yes"})
    if also_on_the_base:
        assert judged.is_(Verdict.VERIFIED)
        assert "nor on the base" in judged.notes
        assert project.tree.made.count("base") == 1, "a run that was cut off on the base is not repeated"
    else:
        assert judged.is_(Verdict.CHECKS_FAILED)
        assert "did not finish on the result" in judged.only.output_tail


@pytest.mark.heavy
async def test_older_tests_that_are_slow_once_get_more_time(
    project: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(earlier_tests, "LEAST_SECONDS", 5.0)
    monkeypatch.setattr(earlier_tests, "TIMES", 0.0)
    busy = tmp_path / "busy"
    busy.touch()
    waits = f"import pathlib, threading\n\n\ndef test_data():\n    busy = pathlib.Path({str(busy)!r})\n    if busy.exists():\n        busy.unlink()\n        threading.Event().wait()\n"
    has(project, **{"tests/test_data.py": waits})
    judged = await project.judge({"tests/test_new.py": NEW})
    assert judged.is_(Verdict.VERIFIED), (judged.said, judged.notes, judged.only.output_tail)
    assert not busy.exists()


async def test_older_tests_run_on_the_base_only_to_see_what_they_notice(project: Any) -> None:
    has(project)
    judged = await project.judge({"tests/test_new.py": NEW})
    assert judged.is_(Verdict.VERIFIED)
    assert project.tree.made.count("base") == 2  # to run them, and to copy it


@pytest.mark.heavy
async def test_older_tests_that_fail_anyway_are_counted_in_a_note(project: Any) -> None:
    has(project, **{"tests/test_red.py": "import pytest\n\n\ndef test_red(absent):\n    pass\n"})
    judged = await project.judge({"tests/test_new.py": NEW})
    assert judged.is_(Verdict.VERIFIED), (judged.said, judged.notes)
    why = "1 of 3 earlier tests fail without the result, too, so they cannot show what it breaks"
    assert f"{why}: tests/test_red.py::test_red." in judged.notes
