"""What judging a small result costs, relative to one bare run of its tests, with each test runner.

Each repetition has bare runs before and after the judged one; the ratios are medians over the repetitions. With pytest,
two more projects have tests that run for about 1 s and 3 s.
"""

from __future__ import annotations

import compileall
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from project_python import PYTEST, make_environment

import understudy

PYTHON = '''\
def parse(text):
    """Return the pairs of `a=1,b=2`."""
    found = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if not sign:
            raise ValueError(part)
        found[name.strip()] = int(value) if value.strip().isdigit() else value.strip()
    return found


def clamp(value, low, high):
    if low > high:
        raise ValueError("low is above high")
    return max(low, min(value, high))


def shown(pairs, limit=3):
    rows = [f"{name}: {value}" for name, value in sorted(pairs.items())]
    more = len(rows) - limit
    return rows[:limit] + ([f"and {more} more"] if more > 0 else [])
'''
PYTEST_TESTS = """\
import pytest
from pairs import clamp, parse, shown


def test_parse():
    assert parse("a=1, b = x") == {"a": 1, "b": "x"}
    with pytest.raises(ValueError):
        parse("a")


def test_clamp():
    assert (clamp(5, 0, 3), clamp(-1, 0, 3), clamp(2, 0, 3), clamp(3, 3, 3)) == (3, 0, 2, 3)
    with pytest.raises(ValueError):
        clamp(1, 2, 1)


def test_shown():
    assert shown({"b": 2, "a": 1}) == ["a: 1", "b: 2"]
    assert shown({"b": 2, "a": 1, "c": 3, "d": 4}, 2) == ["a: 1", "b: 2", "and 2 more"]
"""
SLOW_TESTS = """

import time


@pytest.mark.parametrize("number", range({count}))
def test_slow(number):
    ends = time.perf_counter() + 0.1
    while time.perf_counter() < ends:
        assert clamp(number, 0, 100) == number
"""
UNITTEST_TESTS = """\
import unittest
from pairs import clamp, parse, shown


class Pairs(unittest.TestCase):
    def test_parse(self):
        self.assertEqual(parse("a=1, b = x"), {"a": 1, "b": "x"})
        self.assertRaises(ValueError, parse, "a")

    def test_clamp(self):
        self.assertEqual((clamp(5, 0, 3), clamp(-1, 0, 3), clamp(2, 0, 3), clamp(3, 3, 3)), (3, 0, 2, 3))
        self.assertRaises(ValueError, clamp, 1, 2, 1)

    def test_shown(self):
        self.assertEqual(shown({"b": 2, "a": 1}), ["a: 1", "b: 2"])
        self.assertEqual(shown({"b": 2, "a": 1, "c": 3, "d": 4}, 2), ["a: 1", "b: 2", "and 2 more"])
"""
SCRIPT = """\
function clamp(value, low, high) {
  if (low > high) {
    throw new Error("low is above high");
  }
  return Math.max(low, Math.min(value, high));
}

function total(items, rate = 2) {
  let sum = 0;
  for (const item of items) {
    if (item > 0 && item < 100) {
      sum += item * rate;
    } else {
      sum -= 1;
    }
  }
  return sum;
}

function shown(items, limit) {
  const more = items.length - limit;
  return items.slice(0, limit).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
"""
SCRIPT_TESTS = """\
test("clamp", () => {
  same([clamp(5, 0, 3), clamp(-1, 0, 3), clamp(2, 0, 3), clamp(3, 3, 3)], [3, 0, 2, 3]);
});
test("total", () => {
  same([total([1, 5]), total([0, 100, 99]), total([2], 3)], [12, 196, 6]);
});
test("shown", () => {
  same([shown([1, 2], 2), shown([1, 2, 3, 4], 2)], ["1, 2", "1, 2 and 2 more"]);
});
"""
COMMON = SCRIPT + "\nmodule.exports = { clamp, total, shown };\n"
MODULE = SCRIPT + "\nexport { clamp, total, shown };\n"
USES_COMMON = 'const { clamp, total, shown } = require("./pairs.js");\n'
EXPECTS = "const same = (one, other) => expect(one).toEqual(other);\n"
GO = """\
package pairs

func Clamp(value, low, high int) int {
	if value < low {
		return low
	}
	if value > high {
		return high
	}
	return value
}

func Total(items []int, rate int) int {
	sum := 0
	for _, item := range items {
		if item > 0 && item < 100 {
			sum += item * rate
		} else {
			sum -= 1
		}
	}
	return sum
}
"""
GO_TESTS = """\
package pairs

import "testing"

func TestClamp(t *testing.T) {
	if Clamp(5, 0, 3) != 3 || Clamp(-1, 0, 3) != 0 || Clamp(2, 0, 3) != 2 {
		t.Fatal("clamp")
	}
}

func TestTotal(t *testing.T) {
	if Total([]int{1, 5}, 2) != 12 || Total([]int{0, 100, 99}, 2) != 196 {
		t.Fatal("total")
	}
}
"""
RUST = """\
pub fn clamp(value: i32, low: i32, high: i32) -> i32 {
    if value < low {
        return low;
    }
    if value > high {
        return high;
    }
    value
}

pub fn total(items: &[i32], rate: i32) -> i32 {
    let mut sum = 0;
    for item in items {
        if *item > 0 && *item < 100 {
            sum += item * rate;
        } else {
            sum -= 1;
        }
    }
    sum
}
"""
RUST_TESTS = """\
#[test]
fn clamps() {
    assert_eq!((pairs::clamp(5, 0, 3), pairs::clamp(-1, 0, 3), pairs::clamp(2, 0, 3)), (3, 0, 2));
}
#[test]
fn totals() {
    assert_eq!((pairs::total(&[1, 5], 2), pairs::total(&[0, 100, 99], 2)), (12, 196));
}
"""
LINKED = '[worktrees]\nlink = ["node_modules"]\n'
NODE_CHECK = '[[checks]]\nname = "node"\nargv = ["node", "--test"]\n'
RUNS = 5


@dataclass(frozen=True, kw_only=True)
class Project:
    """A small project, and the test file that a result adds."""

    program: str
    """What must be installed; empty: nothing."""
    code: str
    files: Mapping[str, str]
    test: str
    tests: str
    mutant: float
    """The most that a mutant may cost, relative to a bare run."""
    mutation: float | None = None
    """The most that mutation testing may cost; None: not reported."""
    whole: float
    """The most that everything may cost that decides the verdict."""
    checks: list[str] | None = None
    bare: tuple[str, ...] = ()
    """What runs the tests; empty: the check's own command."""
    prepare: Callable[[Path], str | None] = field(default=lambda _: None)
    """Installs what the tests need; returns why that is not possible."""


def python(*packages: str) -> Callable[[Path], str | None]:
    """Return what makes an environment with these packages."""

    def prepare(top: Path) -> str | None:
        make_environment(top / ".venv", packages)
        return None

    return prepare


def npm(name: str) -> Callable[[Path], str | None]:
    """Return what installs the newest version of a package."""

    def prepare(top: Path) -> str | None:
        program = shutil.which("npm")
        if program is None:
            return "npm is not installed"
        done = subprocess.run(
            [program, "install", "--no-audit", "--no-fund", "--silent"], cwd=top, capture_output=True, check=False
        )
        return f"npm cannot install {name}" if done.returncode else None

    return prepare


def package(name: str) -> str:
    """Return the ``package.json`` of a project that is tested by this package."""
    return json.dumps({"name": "pairs", "version": "1.0.0", "devDependencies": {name: "*"}})


PROJECTS = {
    "pytest": Project(
        program="",
        code="pairs.py",
        files={"pairs.py": PYTHON},
        test="test_pairs.py",
        tests=PYTEST_TESTS,
        prepare=python(*PYTEST),
        mutant=0.5,
        mutation=6.0,
        whole=15.0,
    ),
    **{
        f"pytest, {count // 10} s": Project(
            program="",
            code="pairs.py",
            files={"pairs.py": PYTHON},
            test="test_pairs.py",
            tests=PYTEST_TESTS + SLOW_TESTS.format(count=count),
            prepare=python(*PYTEST),
            mutant=0.5,
            mutation=6.0,
            whole=12.0,
        )
        for count in (10, 30)
    },
    "unittest": Project(
        program="",
        code="pairs.py",
        files={"pairs.py": PYTHON},
        test="test_pairs.py",
        tests=UNITTEST_TESTS,
        prepare=python("iniconfig"),
        mutant=2.5,
        whole=70.0,
    ),
    "node": Project(
        program="node",
        code="pairs.js",
        files={"pairs.js": COMMON, ".understudy/config.toml": NODE_CHECK},
        test="pairs.test.js",
        tests='const { test } = require("node:test");\nconst assert = require("node:assert");\n'
        f"const same = (one, other) => assert.deepEqual(one, other);\n{USES_COMMON}{SCRIPT_TESTS}",
        checks=["node"],
        mutant=2.5,
        whole=70.0,
    ),
    "jest": Project(
        program="node",
        code="pairs.js",
        files={"pairs.js": COMMON, "package.json": package("jest"), ".understudy/config.toml": LINKED},
        test="pairs.test.js",
        tests=EXPECTS + USES_COMMON + SCRIPT_TESTS,
        bare=("node_modules/.bin/jest", "--ci"),
        prepare=npm("jest"),
        mutant=1.0,
        whole=30.0,
    ),
    "vitest": Project(
        program="node",
        code="pairs.mjs",
        files={"pairs.mjs": MODULE, "package.json": package("vitest"), ".understudy/config.toml": LINKED},
        test="pairs.test.mjs",
        tests='import { expect, test } from "vitest";\nimport { clamp, total, shown } from "./pairs.mjs";\n'
        + EXPECTS
        + SCRIPT_TESTS,
        bare=("node_modules/.bin/vitest", "run"),
        prepare=npm("vitest"),
        mutant=1.0,
        whole=30.0,
    ),
    "go": Project(
        program="go",
        code="pairs.go",
        files={"pairs.go": GO, "go.mod": "module example.com/pairs\n\ngo 1.18\n"},
        test="pairs_test.go",
        tests=GO_TESTS,
        mutant=4.0,
        whole=90.0,
    ),
    "cargo": Project(
        program="cargo",
        code="src/lib.rs",
        files={
            "src/lib.rs": RUST,
            "Cargo.toml": '[package]\nname = "pairs"\nversion = "0.1.0"\nedition = "2021"\n',
        },
        test="tests/pairs.rs",
        tests=RUST_TESTS,
        mutant=6.0,
        whole=150.0,
    ),
}


def judging(bench: ModuleType) -> None:
    """Measure the check of a new test file with each test runner, and everything that decides its verdict."""
    # An installed Understudy is compiled; one that starts from source compiles itself at each start.
    compileall.compile_dir(str(Path(understudy.__file__).parent), quiet=2)
    for name, project in PROJECTS.items():
        why = f"{project.program} is not installed" if project.program and not shutil.which(project.program) else None
        top = None if why else bench.repository(f"judging-{name.replace(', ', '-').replace(' ', '')}", 1)
        if top is not None:
            why = _written(bench, top, project)
        if top is None or why is not None:
            print(f"skip judging    {name}: {why}", flush=True)
            continue
        _measure(bench, top, name, project)


def _written(bench: ModuleType, top: Path, project: Project) -> str | None:
    for path, text in project.files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    (top / ".gitignore").write_text(".venv\nnode_modules\ntarget\n")
    why = project.prepare(top)
    bench.git("add", "-A", cwd=top)
    bench.git("commit", "-qm", "code", cwd=top)
    bench.call("workspace/trust", workspace=str(top), trusted=True)
    return why


def _measure(bench: ModuleType, top: Path, name: str, project: Project) -> None:
    target = f"p = pathlib.Path({project.test!r}); p.parent.mkdir(exist_ok=True); p.write_text({project.tests!r})"
    program = f'import pathlib; {target}; print(\'{{"type":"result","ok":true,"text":""}}\')'
    writes = f"writes-{top.name}"
    bench.delegator(writes, sys.executable, "-c", program)
    identifier = bench.call(
        "delegations/start",
        recipe="tests",
        files=[str(top / project.code)],
        delegator=writes,
        workspace=str(top),
        checks=project.checks,
    ).id
    done = bench.wait(identifier)
    [check] = done.checks
    environment = {**os.environ, "CARGO_TARGET_DIR": str(top / "target")}

    def bare() -> float:
        (Path(done.worktree) / project.code).touch()  # cargo builds again, as for a mutant
        began = time.perf_counter()
        subprocess.run(project.bare or check.argv, cwd=done.worktree, env=environment, check=True, capture_output=True)
        return time.perf_counter() - began

    bare()  # the first one builds
    runs, mutation, whole = [bare()], [], []
    for _ in range(RUNS):
        began = time.perf_counter()
        [again] = bench.call("delegations/check", id=identifier).checks
        whole.append(time.perf_counter() - began)
        mutation.append(again.mutation.seconds)
        runs.append(bare())
    ones = [(before + after) / 2 for before, after in itertools.pairwise(runs)]
    viable = check.mutation.viable

    def ratio(seconds: list[float]) -> float:
        return statistics.median(many / one for many, one in zip(seconds, ones, strict=True))

    bench.row(
        "judging",
        f"{name}: one of {viable} mutants, all shared among them / one bare run ({statistics.median(ones):.2f} s)",
        ratio(mutation) / max(1, viable),
        project.mutant,
        "x",
    )
    if project.mutation is not None:
        bench.row("judging", f"{name}: mutation testing / one bare run", ratio(mutation), project.mutation, "x")
    bench.row(
        "judging",
        f"{name}: everything that decides the verdict / one bare run",
        ratio(whole),
        project.whole,
        "x",
    )
