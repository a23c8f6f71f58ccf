"""New tests are judged by what they do themselves: earlier tests under new names notice nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from typing import Any

import pytest

from understudy.judge.base_runs import earlier_tests
from understudy.judge.base_runs.earlier_tests import without_unchanged_tests
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict
from understudy.mutants.test_code.definitions import definitions_of

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


EARLIER = {
    "tests/test_old.py": "test_add",
    "tests/test_class.py": "TestOld::test_add",
    "tests/test_table.py": "test_add[1-2-3]",
    "tests/test_loop.py": "test_add",
}
"""The tests of the base, as pytest names them."""
INHERITED = "from tests.test_class import TestOld\n\n\nclass TestNew(TestOld):\n    pass\n"
CALLED = "from tests import test_old\n\n\ndef test_new():\n    test_old.test_add()\n"
EXECUTED = "import pathlib\nexec(pathlib.Path(__file__).with_name('test_old.py').read_text())\n"
CONSTANT = HONEST.replace("\n\n\n", "\n\nX = 1\n\n\n", 1)
COPIED_WITHIN = HONEST + "\n\ndef test_sum():\n    assert add(1, 2) == 3\n"
MORE_CASES = {name: text.replace("3)]", "3), (2, 5, 7)]") for name, text in (("table", TABLE), ("loop", LOOP))}
OLD_DATA = "from tests.test_loop import CASES\nfrom calc import add\n\n\ndef test_new():\n    for a, b, c in CASES:\n        assert add(b, a) == c\n"
HELPED = "from tests.helpers import adds\n\n\ndef test_new():\n    adds(2, 5, 7)\n"
SHARED = "from tests.contract import Contract\n\n\nclass TestNew(Contract):\n    left = 9\n"


@pytest.mark.parametrize(
    ("result", "new", "copies"),
    [
        pytest.param({"new": "from tests.test_old import *\n"}, ["new.py::test_add"], {}, id="imported"),
        pytest.param(
            {"new": "from tests.test_old import test_add as test_sum\n"}, ["new.py::test_sum"], {}, id="by name"
        ),
        pytest.param({"new": "from tests.test_table import *\n"}, ["new.py::test_add[1-2-3]"], {}, id="with cases"),
        pytest.param({"new": CALLED}, ["new.py::test_new"], {}, id="called"),
        pytest.param({"new": INHERITED}, ["new.py::TestNew::test_add"], {}, id="inherited"),
        pytest.param({"new": EXECUTED}, ["new.py::test_add"], {}, id="executed"),
        pytest.param({"new": HONEST}, ["new.py::test_add"], {"new": ["test_add"]}, id="copied"),
        pytest.param(
            {"new": "# New.\n" + HONEST.replace("test_add", "test_sum")},
            ["new.py::test_sum"],
            {"new": ["test_sum"]},
            id="copied and renamed",
        ),
        pytest.param(
            {"new": IN_CLASS.replace("TestOld", "TestNew")},
            ["new.py::TestNew::test_add"],
            {"new": ["test_add"]},
            id="copied class",
        ),
        pytest.param({"old": "# Looked at.\n" + HONEST}, [], {}, id="a comment"),
        pytest.param(
            {"old": COPIED_WITHIN}, ["old.py::test_sum"], {"old": ["test_add", "test_sum"]}, id="copied within a file"
        ),
        pytest.param({"old": CONSTANT}, [], {}, id="an unused constant"),
        pytest.param(
            {"old": CONSTANT, "new": "from tests.test_old import *\n"},
            ["new.py::test_add"],
            {},
            id="imported from a changed file",
        ),
        pytest.param(
            {"old": HONEST + "    pass\n", "new": "from tests.test_old import *\n"},
            ["new.py::test_add"],
            {},
            id="imported after a change",
        ),
        pytest.param({"new": HONEST.replace("1, 2) == 3", "2, 2) == 4")}, ["new.py::test_add"], {}, id="own values"),
        pytest.param(
            {"old": HONEST + "\n\ndef test_more():\n    assert add(2, 5) == 7\n"},
            ["old.py::test_more"],
            {},
            id="beside an old test",
        ),
        pytest.param(
            {"old": HONEST.replace("== 3", "== 3\n    assert add(2, 5) == 7")}, [], {"old": []}, id="a stronger test"
        ),
        pytest.param({"table": MORE_CASES["table"]}, ["table.py::test_add[2-5-7]"], {"table": []}, id="a new case"),
        pytest.param({"loop": MORE_CASES["loop"]}, [], {"loop": []}, id="a new value in a loop"),
        pytest.param({"new": HELPED}, ["new.py::test_new"], {}, id="a helper"),
        pytest.param({"new": SHARED}, ["new.py::TestNew::test_add"], {}, id="tests that are shared on purpose"),
        pytest.param({"new": OLD_DATA}, ["new.py::test_new"], {}, id="data of an old test"),
    ],
)
def test_earlier_tests_and_their_copies_are_emptied(
    result: dict[str, str], new: list[str], copies: dict[str, list[str]]
) -> None:
    """Each file but those in ``copies`` loses the tests of the base, and nothing else."""
    changed = {f"tests/test_{name}.py": text for name, text in result.items()}
    earlier = [f"{path}::{test}" for path, test in EARLIER.items()]
    expected = {path: ["test_add"] for path in EARLIER} | {f"tests/test_{name}.py": copies[name] for name in copies}
    found = emptied(BASE, changed, [f"tests/test_{test}" for test in new], earlier)
    assert found == {path: tests for path, tests in expected.items() if tests}


@pytest.mark.parametrize(
    "result",
    [
        pytest.param({"tests/test_new.py": "from tests.test_old import test_add as test_sum\n"}, id="imported"),
        pytest.param(
            {"tests/test_new.py": IN_CLASS.replace("TestOld", "TestNew")}, id="copied", marks=pytest.mark.heavy
        ),
    ],
)
async def test_earlier_tests_under_new_names_notice_nothing(project: Any, result: dict[str, str]) -> None:
    judged = await project.has(BASE).judge(result)
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)
    assert "Earlier tests do not count." in judged.notes
    assert judged.only.ok


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(
            {"tests/test_new.py": HONEST.replace("1, 2) == 3", "2, 2) == 4")}, id="own values", marks=pytest.mark.heavy
        ),
        pytest.param({"tests/test_table.py": MORE_CASES["table"]}, id="a new case", marks=pytest.mark.heavy),
    ],
)
async def test_what_new_tests_do_themselves_counts(project: Any, result: dict[str, str]) -> None:
    judged = await project.has(BASE).judge(result)
    assert judged.is_(Verdict.VERIFIED), judged.notes


SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"], configured_by=["pyproject.toml"])


@pytest.mark.heavy
async def test_the_earlier_tests_of_a_check_of_all_tests_do_not_count(project: Any) -> None:
    judged = await project.has(BASE).judge({"tests/test_new.py": "from tests.test_old import *\n"}, checks=(SUITE,))
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)


async def test_earlier_tests_of_unittest_do_not_count(project: Any) -> None:
    project.environment("iniconfig")  # no pytest
    judged = await project.has({"test_old.py": IN_CLASS}).judge({"test_new.py": IMPORTED})
    assert judged.is_(Verdict.UNVERIFIED, Reservation.NO_MUTANT_KILLED)


IMPORTED = "import unittest\n\nimport test_old\n\n\nclass TestNew(test_old.TestOld):\n    left = 4\n"

NODE = """\
const test = require("node:test");
const assert = require("node:assert");
const { add } = require("./calc.js");

test("adds", () => assert.equal(add(1, 2), 3));
"""


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
@pytest.mark.parametrize(("own", "looped"), [(False, True), (True, False)], ids=["earlier tests", "own test"])
async def test_earlier_tests_of_node_do_not_count(empty_project: Any, own: bool, looped: bool) -> None:
    *before, last = NODE.splitlines(keepends=True)
    old = (
        "".join([*before, f"[2].forEach((two) => {last.strip().rstrip(';').replace('2', 'two')});\n"])
        if looped
        else NODE
    )
    text = NODE.replace("1, 2), 3", "2, 2), 4").replace('"adds"', '"adds twos"')
    if not own:
        text = 'const test = require("node:test");\ntest("new", () => { require("./old.test.js"); });\n'
    empty_project.has({"calc.js": "exports.add = (a, b) => a + b;\n", "old.test.js": old})
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


GO_SUITE = """\
package calc

import (
	"reflect"
	"strings"
	"testing"
)

type Calc struct{ t *testing.T }

func run(t *testing.T, suite *Calc) {
	of := reflect.TypeOf(suite)
	for n := 0; n < of.NumMethod(); n++ {
		if method := of.Method(n); strings.HasPrefix(method.Name, "Test") {
			t.Run(method.Name, func(t *testing.T) {
				suite.t = t
				method.Func.Call([]reflect.Value{reflect.ValueOf(suite)})
			})
		}
	}
}

func (c *Calc) TestAdd() {
	if Add(1, 2) != 3 {
		c.t.Fatal("add")
	}
}

func TestCalc(t *testing.T) { run(t, &Calc{}) }
"""


NO_TEST = "func TestNothing(t *testing.T) {}\n"
SUBTESTS = GO.replace("\tif Add", '\tt.Run("one", func(t *testing.T) {\n\tif Add').replace("\t}\n}", "\t}\n\t})\n}")


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("go") is None, reason="no go here")
@pytest.mark.parametrize(
    ("old", "result", "is_honest"),
    [
        (GO_SUITE, {"new_test.go": NO_TEST.replace("{}", "{ run(t, &Calc{}) }")}, False),
        (GO_SUITE, {"new_test.go": NO_TEST.replace("TestNothing(t *testing.T)", "(c *Calc) TestNothing()")}, False),
        (
            GO_SUITE,
            {"new_test.go": "func (c *Calc) TestTwos() {\n\tif Add(2, 2) != 4 {\n\t\tc.t.Fatal()\n\t}\n}\n"},
            True,
        ),
        (
            GO_SUITE,
            {
                "calc_test.go": GO_SUITE.replace(
                    "{ run(t, &Calc{})", '{ run(t, &Calc{}); t.Run("x", func(t *testing.T) { run(t, &Calc{}) })'
                )
            },
            False,
        ),
        (
            GO_SUITE,
            {
                "calc_test.go": GO_SUITE.replace(
                    "TestAdd() {\n",
                    'TestAdd() {\n\tc.t.Run("twos", func(t *testing.T) {\n\t\tif Add(2, 2) != 4 {\n\t\t\tt.Fatal()\n\t\t}\n\t})\n',
                )
            },
            True,
        ),
        (SUBTESTS, {"calc_test.go": f"{SUBTESTS}\n{NO_TEST}"}, False),
        (
            SUBTESTS,
            {"calc_test.go": SUBTESTS.replace("\t})\n}", '\t})\n\tt.Run("two", func(t *testing.T) {})\n}')},
            False,
        ),
        (GO, {"new_test.go": "func two() int { return 2 }\n"}, False),
    ],
    ids=[
        "earlier methods",
        "an empty method",
        "a method",
        "run twice",
        "a subtest of a method",
        "no subtest",
        "an empty subtest",
        "no test",
    ],
)
async def test_earlier_subtests_of_go_do_not_count(
    empty_project: Any, old: str, result: dict[str, str], is_honest: bool
) -> None:
    head = 'package calc\n\nimport "testing"\n\n'
    uses = {path: head if "testing." in text else "package calc\n\n" for path, text in result.items()}
    result = {path: text if path == "calc_test.go" else uses[path] + text for path, text in result.items()}
    code = "package calc\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n"
    empty_project.has({"go.mod": "module example.com/calc\n\ngo 1.18\n", "calc.go": code, "calc_test.go": old})
    judged = await empty_project.judge(result, files=("calc.go",), writes=["*_test.go"])
    if is_honest:
        assert judged.is_(Verdict.VERIFIED), judged.notes
    else:
        assert judged.verdict is Verdict.UNVERIFIED, judged.notes
        assert {Reservation.NO_MUTANT_KILLED, Reservation.NOT_MUTATION_TESTED} & set(judged.said)


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("go") is None, reason="no go here")
async def test_earlier_tests_of_go_are_known_where_the_suite_takes_too_long(
    empty_project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier_tests, "LEAST_SECONDS", 4.0)
    monkeypatch.setattr(earlier_tests, "TIMES", 0.0)
    code = "package calc\n\nfunc Add(a, b int) int {\n\treturn a + b\n}\n"
    slow = 'package slow\n\nimport (\n\t"testing"\n\t"time"\n)\n\nfunc TestSlow(t *testing.T) { time.Sleep(time.Minute) }\n'
    base = {"go.mod": "module example.com/calc\n\ngo 1.18\n", "calc.go": code, "calc_test.go": GO}
    empty_project.has({**base, "slow/slow_test.go": slow})
    result = {"new_test.go": "package calc\n\nfunc two() int { return 2 }\n"}
    judged = await empty_project.judge(result, files=("calc.go",), writes=["*_test.go"])
    assert judged.verdict is Verdict.UNVERIFIED, judged.notes
    assert Reservation.NO_MUTANT_KILLED in judged.said


class Trial:
    """What `without_unchanged_tests` reads of a result."""

    test_patterns = ()
    files = ("calc.py",)

    def __init__(self, base: dict[str, str], result: dict[str, str]) -> None:
        self.tree, self.base, self.head = self, "base", "head"
        self.commits = {"base": base, "head": {**base, **result}}
        self.changes = [("M" if path in base else "A", path) for path in result]

    def paths(self, commit: str) -> list[str]:
        return sorted(self.commits[commit])

    def read(self, commit: str, path: str) -> bytes | None:
        text = self.commits[commit].get(path)
        return None if text is None else text.encode()

    def read_many(self, commit: str, paths: list[str]) -> dict[str, bytes]:
        return {path: self.commits[commit][path].encode() for path in paths}


def emptied(
    base: dict[str, str], result: dict[str, str], new: list[str], earlier: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return the emptied tests by file."""
    trial: Any = Trial(base, result)
    found = {}
    for path, content in without_unchanged_tests(trial, new=new, earlier=earlier).items():
        source = trial.read("head", path)
        ones = [one for one in definitions_of(path, source) if not one.group]
        after = [one for one in definitions_of(path, content) if not one.group]
        kept = {(one.names, content[one.start : one.end]) for one in after}
        found[path] = [one.names[-1] for one in ones if (one.names, source[one.start : one.end]) not in kept]
    return found


FIXTURE = """\
import pytest

from calc import add


@pytest.fixture
def test_client():
    return add


def test_data():
    return [(2, 5, 7)]


class FakeLink:
    def test_connection(self):
        return True


def test_old(test_client):
    assert test_client(1, 2) == 3
"""
MORE = "\n\ndef test_more(test_client):\n    assert test_client(2, 5) == 7\n"


def test_only_what_the_base_ran_is_a_test_of_the_base() -> None:
    base, result = {"tests/test_old.py": FIXTURE}, {"tests/test_old.py": FIXTURE + MORE}
    new, earlier = ["tests/test_old.py::test_more"], ["tests/test_old.py::test_old"]
    assert emptied(base, result, new, earlier) == {"tests/test_old.py": ["test_old"]}
    assert "test_client" not in emptied(base, result, new)["tests/test_old.py"], "a fixture, whatever is known"


def test_tests_of_a_class_that_only_others_inherit_are_shared_on_purpose() -> None:
    shared = "class Contract:\n    def test_add(self):\n        assert self.sum(1, 2) == 3\n\n\nclass TestOld(Contract):\n    sum = staticmethod(add)\n"
    result = {"tests/test_old.py": shared + "\n\nclass TestNew(Contract):\n    sum = staticmethod(plus)\n"}
    new, earlier = (
        ["tests/test_old.py::TestNew::test_add"],
        ["tests/test_old.py::TestOld::test_add", "tests/test_x.py::test_x"],
    )
    base = {"tests/test_old.py": shared, "tests/test_x.py": "def test_x():\n    pass\n"}
    assert emptied(base, result, new, earlier) == {"tests/test_x.py": ["test_x"]}


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        pytest.param(("def test", "def unused():\n    pass\n\n\ndef test"), False, id="an unused function"),
        pytest.param(("import add", "import (add)"), False, id="another form of an import"),
        pytest.param(("import add", "import add, sub"), False, id="an unused import"),
        pytest.param(("assert add", "pass\n    assert add"), False, id="a statement that does nothing"),
        pytest.param(("add(1, 2)", "add(\n        1,\n        2,\n    )"), False, id="another format"),
        pytest.param(("== 3", "== 3.0"), True, id="another value"),
        pytest.param(("ROWS = [(1, 2, 3)]", "ROWS = [(1, 2, 3), (2, 5, 7)]"), True, id="a row that is used indirectly"),
        pytest.param(("OTHER = 1", "OTHER = 2"), False, id="a value that is not used"),
        pytest.param(("def test_add():", 'def test_add():\n    """Add."""'), False, id="a docstring"),
        pytest.param(("== 3", "== 3  # sum"), False, id="a comment beside a statement"),
    ],
)
def test_without_new_tests_a_changed_one_counts(change: tuple[str, str], counts: bool) -> None:
    text = "from calc import add\n\nROWS = [(1, 2, 3)]\nCASES = [*ROWS]\nOTHER = 1\n\n\ndef test_add():\n    assert add(1, 2) == 3\n    assert CASES\n"
    result = {"test_calc.py": text.replace(*change)}
    assert result["test_calc.py"] != text
    found = emptied({"test_calc.py": text}, result, [], ["test_calc.py::test_add"])
    assert found == ({} if counts else {"test_calc.py": ["test_add"]})


def test_without_new_tests_one_counts_whose_helper_changed() -> None:
    text = "from tests.cases import CASES\n\n\ndef test_add():\n    assert CASES\n"
    base = {"tests/test_a.py": text, "tests/cases.py": "CASES = [1]\n"}
    touched = {"tests/test_a.py": "# Looked at.\n" + text}
    earlier = ["tests/test_a.py::test_add"]
    assert emptied(base, touched, [], earlier) == {"tests/test_a.py": ["test_add"]}
    assert emptied(base, {**touched, "tests/cases.py": "CASES = [1, 2]\n"}, [], earlier) == {}
    assert emptied(base, {**touched, "conftest.py": "import a\n"}, [], earlier) == {}


def test_a_test_that_is_expected_to_fail_stays() -> None:
    base = {"test_a.py": "import pytest\n\n\n@pytest.mark.xfail(strict=True)\ndef test_add():\n    assert False\n"}
    assert emptied(base, {"test_b.py": "X = 1\n"}, ["test_b.py::test_b"], ["test_a.py::test_add"]) == {}


def test_a_decorated_class_is_no_copy() -> None:
    old = "class TestSmall:\n    def test_add(self):\n        assert self.add() == 3\n"
    new = "@pytest.mark.usefixtures('big')\n" + old.replace("Small", "Big")
    base, result = {"tests/test_a.py": old}, {"tests/test_b.py": new}
    found = emptied(base, result, ["tests/test_b.py::TestBig::test_add"], ["tests/test_a.py::TestSmall::test_add"])
    assert found == {"tests/test_a.py": ["test_add"]}


def test_an_old_test_that_is_loaded_elsewhere_has_no_new_case() -> None:
    old = 'describe("g", () => {\n  it("adds", () => { works(); });\n});\n'
    found = emptied(
        {"old.test.js": old},
        {"new.test.js": 'test("new", () => require("./old.test.js"));\n'},
        ["new", "    g", "        adds"],
        ["g", "    adds"],
    )
    assert found == {"old.test.js": ['"adds"']}
    rust = {"tests/api.rs": "#[test]\nfn adds() {\n    works();\n}\n"}
    found = emptied(rust, {"tests/new_test.rs": "mod api;\n"}, ["tests/new_test.rs api::adds"], ["tests/api.rs adds"])
    assert found == {"tests/api.rs": ["adds"]}


def test_many_tests_of_node_are_found_by_their_titles() -> None:
    text = "".join(f'test("adds {n} (twice)", () => {{ works({n}); }});\n' for n in range(3000))
    earlier = [f"adds {n} (twice)" for n in range(3000)]
    began = time.process_time()
    found = emptied({"a.test.js": text}, {"b.test.js": 'test("new", () => works());\n'}, ["new"], earlier)
    assert len(found["a.test.js"]) == 3000
    assert time.process_time() - began < 30, "each title is not compared with every other"


def test_copies() -> None:
    other = "from calc import add\n\n\ndef test_other():\n    assert add(2, 5) == 7\n"
    base = {"tests/test_old.py": HONEST, "tests/test_other.py": other}
    earlier = ["tests/test_old.py::test_add", "tests/test_other.py::test_other"]
    joined = "import os\n\n" + HONEST + "\n\n" + other.partition("\n\n\n")[2]
    new = ["tests/test_new.py::test_add", "tests/test_new.py::test_other"]
    assert emptied(base, {"tests/test_new.py": joined}, new, earlier)["tests/test_new.py"] == ["test_add", "test_other"]
    elsewhere = HONEST.replace("from calc", "from others.calc")
    assert "tests/test_new.py" not in emptied(base, {"tests/test_new.py": elsewhere}, new, earlier)
    relative = HONEST.replace("from calc", "from .calc")
    found = emptied(
        {"v1/test_a.py": relative}, {"v2/test_a.py": relative}, ["v2/test_a.py::test_add"], ["v1/test_a.py::test_add"]
    )
    assert found == {"v1/test_a.py": ["test_add"]}


GO_TABLE = """\
package calc

import "testing"

func TestMain(m *testing.M) { os.Exit(m.Run()) }

func TestingAdd(t *testing.T) func(int, int) int { return Add }

func TestAdd(t *testing.T) {
	for name, c := range map[string][3]int{"one": {1, 2, 3}} {
		t.Run(name, func(t *testing.T) { check(t, c) })
	}
}

func TestOld(t *testing.T) {
	check(t, [3]int{1, 2, 3})
}
"""


@pytest.mark.parametrize("known", [True, False])
def test_go(known: bool) -> None:
    base = {"go.mod": "module example.com/calc\n", "calc_test.go": GO_TABLE, "v1/sub_test.go": GO_TABLE}
    names = [
        f"example.com/calc{folder}.{name}" for folder in ("", "/v1") for name in ("TestAdd", "TestAdd/one", "TestOld")
    ]
    row = {"calc_test.go": GO_TABLE.replace("{1, 2, 3}}", '{1, 2, 3}, "two": {2, 2, 4}}')}
    found = emptied(base, row, ["example.com/calc.TestAdd/two"], names if known else [])
    assert found == {"calc_test.go": ["TestOld"], "v1/sub_test.go": ["TestAdd", "TestOld"]}
    same = {"v2/new_test.go": "package v2\n\nfunc TestOld(t *testing.T) {\n\tcheck(t, [3]int{2, 2, 4})\n}\n"}
    found = emptied(base, same, ["example.com/calc/v2.TestOld"], names if known else [])
    assert found == {path: ["TestAdd", "TestOld"] for path in ("calc_test.go", "v1/sub_test.go")}


def test_a_go_test_that_another_process_runs_stays() -> None:
    helper = (
        'func TestHelper(t *testing.T) { work() }\n\nfunc run() { exec.Command(os.Args[0], "-test.run=TestHelper") }\n'
    )
    base = {"a_test.go": "package a\n\n" + helper, "go.mod": "module a\n"}
    assert emptied(base, {"b_test.go": "package a\n"}, ["a.TestB"], ["a.TestHelper"]) in ({}, {"a_test.go": []})


def test_new_tests_inside_and_beside_old_ones_in_a_script() -> None:
    old = 'test("group", async (t) => {\n  await t.test("old", () => { works(); });\n});\n'
    new = old.replace("});\n});", '});\n  await t.test("new", () => { works(2); });\n});')
    assert new != old
    trial: Any = Trial({"a.test.js": old}, {"a.test.js": new})
    found = without_unchanged_tests(trial, new=["    new"], earlier=["group", "    old"])["a.test.js"].decode()
    assert found == new.replace("() => { works(); }", "() => {}")
    rows = 'for (const [name, n] of [["one", 1]]) test(name, () => { works(n); });\n'
    found = emptied(
        {"a.test.js": rows, "b.test.js": rows},
        {"b.test.js": rows.replace('["one", 1]', '["one", 1], ["two", 2]')},
        ["two"],
        ["one"],
    )
    assert "b.test.js" not in found


def test_scripts_and_rust_tests_in_a_folder_of_tests_are_read() -> None:
    base = {
        "test/old.js": 'test("adds", () => { works(); });\n',
        "tests/api.rs": "#[test]\nfn adds() {\n    works();\n}\n",
    }
    found = emptied(base, {"test/new.js": 'import("./old.js");\n'}, ["new"], [])
    assert found == {"test/old.js": ['"adds"'], "tests/api.rs": ["adds"]}


def test_a_case_of_a_rust_table_is_a_case_of_its_test() -> None:
    old = "#[rstest]\n#[case(1, 2, 3)]\nfn adds(#[case] a: i32) {\n    works(a);\n}\n\n#[cfg(test)]\nfn check() {}\n"
    base = {"tests/api.rs": old}
    result = {"tests/api.rs": old.replace("3)]", "3)]\n#[case(2, 2, 4)]")}
    assert emptied(base, result, ["tests/api.rs adds::case_2"]) == {}


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("test_a.py", "def test_a():\n    pass\n", "def test_a():\n" + "\n" * 50_000 + "    pass\n"),
        (
            "test_a.py",
            "def test_a():\n    pass\n",
            "def test_a():\n    x = (\n" + '    """a""" "b"\n' * 10_000 + "    )\n",
        ),
        ("a.test.js", "test('a', () => {});\n", "test('a', () => { return 1 " + "/ 2 /* " * 20_000 + "*/ });\n"),
        ("a.test.js", "test('a', () => {});\n", "".join(f"test('a{n}', () => {{}});\n" for n in range(5_000))),
        ("test_a.py", "def test_a():\n    assert 1\n", "def test_b():\n    assert 1\n\n" * 5_000),
        (
            "test_a.py",
            "def test_a():\n    assert x0\n",
            "".join(f"x{n} = x{n + 1}\n" for n in range(5_000)) + "def test_a():\n    assert x0\n",
        ),
    ],
    ids=["empty lines", "strings", "comments", "tests", "copies", "statements"],
)
def test_a_result_cannot_make_this_slow(path: str, old: str, new: str) -> None:
    began = time.process_time()
    emptied({path: old}, {path: new}, [])
    assert time.process_time() - began < 20
