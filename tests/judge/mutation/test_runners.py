"""Real test runners on mutants of small projects: the same word for the same thing in each of them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from wait_until import until

from understudy.judge.mutant_runners import check_mutants
from understudy.judge.mutant_runners.cargo_mutants import CargoMutants
from understudy.judge.mutant_runners.check_mutants import ChangedFile
from understudy.judge.mutant_runners.mutant_runs import Lane, MutantRuns, PlannedRun, RecordedTests, run_mutants
from understudy.judge.mutant_runners.script_mutants import script_runner
from understudy.judge.mutation.mutation_test import runner_for
from understudy.judge.project.interpreter import InterpreterFacts
from understudy.judge.runs.check_run import CheckContext
from understudy.judge.runs.runner_registry import PreparedCheck
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.evidence.checks import Check
from understudy.mutants.controls import other_text, same_bytes
from understudy.mutants.generate import Mutant, mutants_of


class Place:
    """A copy of a result with a check."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        facts = InterpreterFacts(
            executable=sys.executable, version=sys.version_info[:3], import_path=(), prefixes=(), has_pytest=False
        )
        self.context = CheckContext(
            tree=self.tree,
            workspace=folder,
            scratch=self.scratch,
            temporary=self.scratch,
            mark="20261122-100000-mutants",
            facts=facts,
        )
        self.argv: list[str] = []
        self.kind: str = "command"
        self.tests: tuple[str, ...] = ()
        self.keep = True
        self.file = ""

    def has(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(text)

    def content(self) -> dict[str, bytes]:
        made = {"node_modules", "package-lock.json", "Cargo.lock", "__pycache__"}
        return {
            str(path): path.read_bytes()
            for path in self.tree.rglob("*")
            if path.is_file() and not made.intersection(path.relative_to(self.tree).parts)
        }

    async def judge(
        self,
        extra: Sequence[Mutant] = (),
        *,
        only: str = "",
        seconds: float = 300,
        first: Mapping[str, str] | None = None,
    ) -> MutantRuns:
        """Run all mutants of the file (those with the operator ``only``), the sham ones and ``extra`` ones.

        Before them, run on other contents of the files ``first``.
        """
        plan = PreparedCheck(check=Check(name="suite", argv=self.argv), kind=self.kind, tests=self.tests)
        runner = runner_for(plan, self.context, keep=self.keep)
        before = self.content()
        recorded = await runner.record([self.file], seconds=seconds)
        source = (self.tree / self.file).read_bytes()
        planned = [self.run(recorded, one) for one in (*mutants_of(self.file, source), *extra)]
        planned = [one for one in planned if only in {"", one.mutant.operator}]
        everything = tuple(recorded.passed)
        planned = [*(self.other(path, text, everything) for path, text in (first or {}).items()), *planned]
        planned += [
            PlannedRun(path=self.file, mutant=one, tests=everything, sham=True)
            for one in (same_bytes(source), other_text(self.file, source, "x"))
        ]
        runs = await run_mutants([Lane(runner=runner)], recorded, planned, seconds=seconds)
        assert self.content() == before
        self.recorded = recorded
        return runs

    def other(self, path: str, text: str, tests: tuple[str, ...]) -> PlannedRun:
        end = len((self.tree / path).read_bytes())
        mutant = Mutant(
            start=0, end=end, text=text.encode(), operator="other", line=1, first_line=1, last_line=1, function="f"
        )
        return PlannedRun(path=path, mutant=mutant, tests=tests, to_the_end=True, of_tests=True)

    def run(self, recorded: RecordedTests, mutant: Mutant) -> PlannedRun:
        return PlannedRun(path=self.file, mutant=mutant, tests=tuple(recorded.tests_of(self.file, mutant)))

    def edit(self, old: str, new: str, operator: str) -> Mutant:
        """Return a mutant of its own."""
        source = (self.tree / self.file).read_text()
        start = source.index(old)
        line = source[:start].count("\n") + 1
        return Mutant(
            start=start, end=start + len(old), text=new.encode(), operator=operator, line=line,
            first_line=line, last_line=line, function="f",
        )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(check_mutants, "LEAST_SECONDS", 4.0)  # for mutants that do not end
    monkeypatch.setattr(check_mutants, "SLOWER", 4.0)
    return Place(tmp_path)


def statuses(runs: MutantRuns) -> dict[str, str]:
    return {
        f"{one.mutant.function} {one.mutant.operator} {one.mutant.line}": one.status.value
        for one in runs.results
        if not one.sham
    }


def shams(runs: MutantRuns) -> list[str]:
    return [one.status.value for one in runs.results if one.sham]


SURVIVED = ["Survived"] * 2

JS = """\
function double(x) {
  return x * 2;
}

function count(n) {
  let i = 0;
  while (i < n) {
    i += 1;
  }
  return i;
}

function unused(x) {
  return x + 1;
}
"""
JS_EXPORTS = "module.exports = { double, count, unused };\n"
STATUSES = {
    "double return 2": "Killed",
    "double operator 2": "Killed",
    "double number 2": "Killed",
    "count number 6": "Survived",
    "count condition 7": "Killed",
    "count operator 7": "Killed",
    "count arithmetic 8": "Timeout",
    "count number 8": "Killed",
    "count return 10": "Killed",
    "unused return 14": "NoCoverage",
    "unused operator 14": "NoCoverage",
    "unused number 14": "NoCoverage",
}
BROKEN = "broken"
USE = 'const { double, count } = require("./calc.js");\n'
GOOD = """\
test("doubles", () => { expect(double(4)).toBe(8); });
test("counts", () => { expect(count(3)).toBe(3); });
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js here")
class TestNode:
    USE = """\
const { test } = require("node:test");
const assert = require("node:assert");
const { double, count } = require("./calc.js");
"""
    GOOD = (
        USE + 'test("doubles", () => assert.equal(double(4), 8));\ntest("counts", () => assert.equal(count(3), 3));\n'
    )

    @pytest.fixture
    def node(self, place: Place) -> Place:
        place.has({"calc.js": JS + JS_EXPORTS, "calc.test.js": self.GOOD})
        place.argv, place.file = ["node", "--test"], "calc.js"
        return place

    @pytest.mark.heavy
    async def test_every_status(self, node: Place) -> None:
        runs = await node.judge([node.edit("x * 2", "x *", BROKEN), node.edit("x * 2", "x.y.z", "raises")])
        [broken] = [one for one in runs.results if one.mutant.operator == BROKEN]
        assert broken.status.value == "CompileError"
        assert statuses(runs) == {**STATUSES, "f broken 2": "CompileError", "f raises 2": "Killed"}
        assert shams(runs) == SURVIVED
        assert runs.complete
        killed = next(one for one in runs.results if one.mutant.line == 2)
        assert killed.killers == ("doubles",)
        raised = next(one for one in runs.results if one.mutant.operator == "raises")
        assert (raised.crashed, killed.crashed) == (True, False)

    @pytest.mark.heavy
    async def test_tests_that_look_at_nothing(self, node: Place) -> None:
        node.has({"calc.test.js": self.USE + 'test("x", () => { double(4); count(0); });\n'})
        found = set(statuses(await node.judge()).values())
        assert found == {"Survived", "Timeout", "NoCoverage"}


@pytest.fixture(scope="module", params=["jest", "vitest"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def installed(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here")
    folder = tmp_path_factory.mktemp(kind)
    package = {"name": "calc", "version": "1.0.0", "scripts": {"test": kind}, "devDependencies": {kind: "*"}}
    (folder / "package.json").write_text(json.dumps(package))
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--silent"], cwd=folder, capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("npm cannot install here")
    return folder


NAMES = {"calc": "counts", "double": "doubles", "last": "doubles", "other": "doubles"}


@pytest.mark.heavy
class TestKeptRunners:
    """jest and vitest from the registry, in one process for all mutants and in one for each."""

    @pytest.fixture
    def scripts(self, place: Place, installed: Path) -> Place:
        shutil.copytree(installed, place.tree, symlinks=True, dirs_exist_ok=True)
        place.argv = ["npm", "test"]
        return place

    def write(self, place: Place, kind: str, tests: str) -> None:
        if kind == "jest":
            place.file = "calc.js"
            place.has({"calc.js": JS + JS_EXPORTS, "calc.test.js": USE + tests})
        else:  # transformed, so that lines are found through source maps
            place.file = "calc.ts"
            typed = JS.replace("(x)", "(x: number): number").replace("(n)", "(n: number): number")
            use = 'import { expect, test } from "vitest";\nimport { double, count } from "./calc";\n'
            place.has({"calc.ts": typed + "export { double, count, unused };\n", "calc.test.ts": use + tests})

    async def test_every_status_in_both_ways(self, scripts: Place, kind: str) -> None:
        self.write(scripts, kind, GOOD)
        found = {}
        for keep in (True, False):
            scripts.keep = keep
            runs = await scripts.judge(
                [scripts.edit("x * 2", "x *", BROKEN), scripts.edit("x * 2", "(x as any).y.z", "raises")]
                if kind == "vitest"
                else [scripts.edit("x * 2", "x *", BROKEN), scripts.edit("x * 2", "x.y.z", "raises")]
            )
            assert runs.kept is keep
            assert shams(runs) == SURVIVED
            found[keep] = [(one.mutant, one.status, one.killers, one.ran, one.crashed) for one in runs.results]
            assert statuses(runs) == {**STATUSES, "f broken 2": "CompileError", "f raises 2": "Killed"}
            assert [one.mutant.operator for one in runs.results if one.crashed] == ["raises"]
            each = [one.seconds for one in runs.results if one.status.value in {"Killed", "Survived"}]
            print(kind, keep, f"bare {scripts.recorded.seconds:.2f} s, mutant {sum(each) / len(each):.2f} s")
        assert found[True] == found[False]

    async def test_only_the_test_files_that_execute_the_line_run_up_to_the_first_failure(
        self, scripts: Place, kind: str
    ) -> None:
        self.write(scripts, kind, GOOD)
        first = "calc.test.js" if kind == "jest" else "calc.test.ts"
        both = (scripts.tree / first).read_text()
        doubles = both.replace('test("counts"', 'test.skip("counts"')
        scripts.has({first: both.replace('test("doubles"', 'test.skip("doubles"')})
        scripts.has({first.replace("calc", "double"): doubles, first.replace("calc", "last"): doubles})
        scripts.has({first.replace("calc", "other"): doubles.replace("double(4)", "8")})
        runs = await scripts.judge(only="operator")
        assert runs.kept
        assert list(statuses(runs).values()) == ["Killed", "Killed", "NoCoverage"]
        names = {name: f"{first.replace('calc', name)}: {test}" for name, test in NAMES.items()}
        for one in runs.results:
            if one.sham:
                assert set(one.ran) >= set(names.values())
            elif one.mutant.line == 2:
                assert (one.killers, one.ran) == ((names["double"],), (names["double"],))
            elif one.mutant.function == "count":
                assert (one.killers, one.ran) == ((names["calc"],), (names["calc"],))
        assert shams(runs) == SURVIVED

    async def test_tests_that_were_changed_are_as_before_in_the_next_run(self, scripts: Place, kind: str) -> None:
        self.write(scripts, kind, GOOD)
        path = "calc.test.js" if kind == "jest" else "calc.test.ts"
        text = (scripts.tree / path).read_text()
        runs = await scripts.judge(only="other", first={path: text.replace("8", "9")})
        assert runs.kept
        assert [one.status.value for one in runs.results] == ["Killed", *SURVIVED]

    async def test_tests_that_look_at_nothing(self, scripts: Place, kind: str) -> None:
        self.write(scripts, kind, 'test("x", () => { double(4); count(0); });\n')
        found = set(statuses(await scripts.judge()).values())
        assert found == {"Survived", "Timeout", "NoCoverage"}


PYTHON = """\
def double(x):
    return x * 2


def count(n):
    i = 0
    while i < n:
        i += 1
    return i


def unused(x):
    return x + 1
"""
PYTHON_STATUSES = {
    "double return 2": "Killed",
    "double arithmetic 2": "Killed",
    "double number 2": "Killed",
    "count number 6": "Survived",
    "count condition 7": "Killed",
    "count comparison 7": "Killed",
    "count arithmetic 8": "Timeout",
    "count number 8": "Killed",
    "count return 9": "Killed",
    "unused return 13": "NoCoverage",
    "unused arithmetic 13": "NoCoverage",
    "unused number 13": "NoCoverage",
}
UNITTEST = """\
import unittest
from calc import count, double


class Calc(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(4), 8)

    def test_count(self):
        self.assertEqual(count(3), 3)
"""
PYTHON_VACUOUS = """\
import unittest
from calc import count, double


class Calc(unittest.TestCase):
    def test_double(self):
        double(4)
        count(0)
"""
UNITTEST_CHECKS = {
    "built in": ("unittest", ["{python}", "-m", "unittest", "{tests}"]),
    "command": ("command", ["{python}", "-m", "unittest", "test_calc"]),
    "no names": ("command", ["{python}", "test_calc.py"]),
}


@pytest.fixture(params=["built in", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("command", "no names"))])
def python_tests(place: Place, request: pytest.FixtureRequest) -> Place:
    place.kind, place.argv = UNITTEST_CHECKS[request.param]  # type: ignore[assignment]
    place.tests, place.file = ("test_calc.py",), "calc.py"
    place.has({"calc.py": PYTHON, "test_calc.py": f"{UNITTEST}\n\nif __name__ == '__main__':\n    unittest.main()\n"})
    return place


@pytest.mark.parametrize(
    ("argv", "scripts", "expected"),
    [
        (["npm", "test"], {"test": "vitest"}, ("vitest", ["run"])),
        (["npm", "run", "unit", "--", "-t", "x"], {"unit": "vitest run a"}, ("vitest", ["run", "a", "-t", "x"])),
        (["yarn", "test"], {"test": "npm run deep"}, None),
        (["yarn", "test"], {"test": "npm run deep", "deep": "jest --ci"}, ("jest", ["--ci"])),
        (["npx", "jest", "--watch"], {}, ("jest", [])),
        (["npx", "--no-install", "vitest", "run"], {}, ("vitest", ["run"])),
        (["npx", "-y", "jest", "--ci"], {}, ("jest", ["--ci"])),
        (["npx", "--package", "vitest", "vitest"], {}, None),
        (["pnpm", "exec", "vitest", "run"], {}, ("vitest", ["run"])),
        (["npm", "test"], {"test": "tsc && node --test"}, None),
        (["npm", "test"], {"test": "node --test lib"}, ("node", ["--test", "lib"])),
        (["npm", "test"], {"test": "npm test"}, None),
        (["make", "test"], {}, None),
    ],
)
def test_the_runner_behind_a_command(
    place: Place, argv: list[str], scripts: dict[str, str], expected: tuple[str, list[str]] | None
) -> None:
    place.has({"package.json": json.dumps({"scripts": scripts})})
    for name in ("jest", "vitest"):
        place.has({f"node_modules/.bin/{name}": ""})
        (place.tree / "node_modules" / ".bin" / name).chmod(0o755)
    found = script_runner(PreparedCheck(check=Check(name="suite", argv=argv)), place.tree)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        kind, arguments = expected
        assert found.kind == kind
        assert list(found.arguments)[: len(arguments)] == arguments


async def test_a_function_on_one_line_that_no_test_calls(place: Place) -> None:
    """The line runs when the file is loaded, the function does not."""
    place.kind, place.argv = "unittest", UNITTEST_CHECKS["built in"][1]
    place.tests, place.file = ("test_calc.py",), "calc.py"
    place.has({"calc.py": "double = lambda x: x * 2\ncount = lambda x: x - 1\n"})
    place.has({"test_calc.py": PYTHON_VACUOUS.replace("        count(0)\n", "")})
    found = await place.judge(only="arithmetic")
    assert [one.status.value for one in found.results if not one.sham] == ["Survived", "NoCoverage"]


async def test_python_without_pytest(python_tests: Place) -> None:
    more = [python_tests.edit("x * 2", "x *", BROKEN), python_tests.edit("x * 2", "x.y", "raises")]
    runs = await python_tests.judge(more)
    assert statuses(runs) == {**PYTHON_STATUSES, "f broken 2": "CompileError", "f raises 2": "Killed"}
    raised = [one.mutant.operator for one in runs.results if one.crashed]
    assert "raises" in raised
    assert "arithmetic" not in raised
    assert shams(runs) == SURVIVED
    killers = {one.mutant.line: one.killers for one in runs.results if one.status.value == "Killed"}
    ran = {one.mutant.line: one.ran for one in runs.results if one.status.value == "Killed"}
    if python_tests.kind == "unittest":
        assert killers[2] == ran[2] == ("test_calc.Calc.test_double",)
    elif "-m" in python_tests.argv:
        assert killers[2] == ("test_calc.Calc.test_double",)
        assert len(ran[2]) == 2
    else:
        assert killers[2] == ("suite",)


@pytest.mark.heavy
async def test_python_tests_that_look_at_nothing(place: Place) -> None:
    place.kind, place.argv = "unittest", UNITTEST_CHECKS["built in"][1]
    place.tests, place.file = ("test_calc.py",), "calc.py"
    place.has({"calc.py": PYTHON, "test_calc.py": PYTHON_VACUOUS})
    assert set(statuses(await place.judge()).values()) == {"Survived", "Timeout", "NoCoverage"}


async def test_fixture_of_a_class_that_fails_fails_its_tests(place: Place) -> None:
    place.kind, place.argv = "unittest", UNITTEST_CHECKS["built in"][1]
    place.tests, place.file = ("test_calc.py",), "calc.py"
    fixture = "    @classmethod\n    def setUpClass(cls):\n        assert double(1) == 2\n\n"
    tests = UNITTEST.replace("    def test_double", f"{fixture}    def test_double")
    place.has({"calc.py": PYTHON, "test_calc.py": tests.replace("double(4), 8", "double(0), 0")})
    found = statuses(await place.judge(only="number"))
    assert found["double number 2"] == "Killed"


async def test_a_check_that_fails_is_not_used(place: Place) -> None:
    place.argv, place.file = ["{python}", "test_calc.py"], "calc.py"
    place.has({"calc.py": PYTHON, "test_calc.py": "raise SystemExit('no reason')\n"})
    with pytest.raises(UnderstudyError) as caught:
        await place.judge()
    assert caught.value.kind is ErrorKind.TOOL_CRASHED
    assert "no reason" in str(caught.value.hint)


async def test_a_link_out_of_the_tree_is_not_mutated(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(PYTHON)
    (place.tree / "calc.py").symlink_to(outside)
    place.has({"test_calc.py": UNITTEST + "\nunittest.main()\n"})
    place.argv, place.file = ["{python}", "test_calc.py"], "calc.py"
    with pytest.raises(UnderstudyError) as caught:
        await place.judge()
    assert caught.value.kind is ErrorKind.PATH_ESCAPE
    assert outside.read_text() == PYTHON


async def test_the_file_is_put_back_when_a_run_is_cancelled(place: Place) -> None:
    place.argv, place.file = ["{python}", "test_calc.py"], "calc.py"
    flag = place.scratch / "second"
    # The first two runs are on the unchanged code.
    place.has(
        {
            "calc.py": PYTHON,
            "test_calc.py": "import pathlib, time\nfrom calc import double\n"
            f"if double(4) != 8:\n    pathlib.Path({str(flag)!r}).touch()\n    time.sleep(600)\n",
        }
    )
    judging = asyncio.create_task(place.judge())
    await asyncio.to_thread(until, flag.exists)
    assert (place.tree / "calc.py").read_text() != PYTHON
    judging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judging
    assert (place.tree / "calc.py").read_text() == PYTHON


GO = """\
package calc

func Double(x int) int {
	return x * 2
}

func Count(n int) int {
	i := 0
	for i < n {
		i += 1
	}
	return i
}

func Unused(x int) int {
	return x + 1
}
"""
GO_TESTS = """\
package calc

import "testing"

func TestDouble(t *testing.T) {
	if Double(4) != 8 {
		t.Fatal("double")
	}
}

func TestCount(t *testing.T) {
	if Count(3) != 3 {
		t.Fatal("count")
	}
}
"""


@pytest.mark.skipif(shutil.which("go") is None, reason="no go here")
class TestGo:
    @pytest.fixture
    def go(self, place: Place) -> Place:
        place.has({"go.mod": "module example.com/calc\n\ngo 1.18\n", "calc.go": GO, "calc_test.go": GO_TESTS})
        place.argv, place.file = ["go", "test", "./..."], "calc.go"
        return place

    @pytest.mark.heavy
    async def test_every_status(self, go: Place) -> None:
        runs = await go.judge([go.edit("x * 2", '"x"', BROKEN)])
        assert statuses(runs) == {
            "Double return 4": "Killed",
            "Double operator 4": "Killed",
            "Double number 4": "Killed",
            "Count number 8": "Survived",
            "Count operator 9": "Killed",
            "Count arithmetic 10": "Timeout",
            "Count number 10": "Killed",
            "Count return 12": "Killed",
            "Unused return 16": "NoCoverage",
            "Unused operator 16": "NoCoverage",
            "Unused number 16": "NoCoverage",
            "f broken 4": "CompileError",
        }
        assert shams(runs) == SURVIVED

    async def test_operators(self, go: Place) -> None:
        runs = await go.judge(only="operator")
        assert statuses(runs) == {
            "Double operator 4": "Killed",
            "Count operator 9": "Killed",
            "Unused operator 16": "NoCoverage",
        }
        assert shams(runs) == SURVIVED

    @pytest.mark.heavy
    async def test_a_panic_kills(self, go: Place) -> None:
        runs = await go.judge([go.edit("x * 2", "[]int{}[x]", "panic")], only="panic")
        [panic] = [one for one in runs.results if not one.sham]
        assert panic.status.value == "Killed"
        assert panic.crashed
        assert panic.killers == ("example.com/calc.TestDouble",)


# Counting down from 0, an i32 overflows, which ends the program, before the time limit of a busy machine.
RUST = """\
pub fn double(x: i32) -> i32 {
    x * 2
}

pub fn count(n: i64) -> i64 {
    let mut i = 0;
    while i < n {
        i += 1;
    }
    i
}

pub fn unused(x: i32) -> i32 {
    x + 1
}
"""
RUST_TESTS = """\
#[test]
fn doubles() {
    assert_eq!(calc::double(4), 8);
}
#[test]
fn counts() {
    assert_eq!(calc::count(3), 3);
}
"""


async def test_cargo_builds_again_what_is_put_back_with_its_old_time(place: Place) -> None:
    place.has({"lib.rs": "", "tests.rs": ""})
    check = Check(name="suite", argv=["{python}", "-c", "", "--quiet"])
    runner = CargoMutants(PreparedCheck(check=check), place.context)
    assert runner.plan.check.argv == ["{python}", "-c", ""]
    await runner.mutated_run(ChangedFile(path="lib.rs", content=b"// other"), 30)
    os.utime(place.tree / "lib.rs", (1, 1))
    await runner.mutated_run(ChangedFile(path="tests.rs", content=b"// other"), 30)
    assert (place.tree / "lib.rs").stat().st_mtime > 1


@pytest.mark.heavy
@pytest.mark.usefixtures("cargo")
async def test_rust(place: Place) -> None:
    place.has(
        {
            "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": RUST,
            "tests/calc.rs": RUST_TESTS,
        }
    )
    place.argv, place.file = ["cargo", "test"], "src/lib.rs"
    runs = await place.judge([place.edit("x * 2", '"x"', BROKEN), place.edit("x * 2", "double(x) * 2", "deep")])
    assert shams(runs) == SURVIVED
    assert statuses(runs) == {**STATUSES, "f broken 2": "CompileError", "f deep 2": "Killed"}
    assert [one.mutant.operator for one in runs.results if one.crashed] == ["deep"]
