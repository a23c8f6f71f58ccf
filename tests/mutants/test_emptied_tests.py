"""Tests that stay in a file and do nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.test_code.definitions import statements_around
from understudy.mutants.test_code.removed_tests import emptied, usual_tests


def _empty(path: str, source: str, *names: str) -> str:
    data = source.encode()
    tests = [one for one in usual_tests(path, data) if not names or one.names[-1].strip("\"'`") in names]
    after = emptied(path, data, tests)
    language = language_of(path)
    assert language is not None
    assert not language.parse(after).has_error
    return after.decode()


PYTHON = '''\
import pytest

def helper():
    raise RuntimeError

@pytest.mark.parametrize("n", [1])
def test_first(n):
    """Say what."""
    # why
    with pytest.raises(KeyError):
        helper()

class TestGroup:
    async def test_second(self):
        helper()

def test_third(): helper(); helper()

def test_fourth():
\tassert False
'''


def test_a_test_in_python_returns_at_once_and_a_helper_stays() -> None:
    after = _empty("test_x.py", PYTHON)
    found: dict[str, object] = {"pytest": pytest}
    exec(after.replace("async def", "def"), found)  # noqa: S102 - the code above
    found["test_first"](1)  # type: ignore[operator]
    found["TestGroup"]().test_second()  # type: ignore[operator]
    found["test_third"]()  # type: ignore[operator]
    found["test_fourth"]()  # type: ignore[operator]
    with pytest.raises(RuntimeError):
        found["helper"]()  # type: ignore[operator]


def test_only_the_given_tests_are_emptied() -> None:
    assert _empty("test_x.py", PYTHON, "test_fourth") == PYTHON.replace("\tassert False", "\treturn")


def test_a_fixture_is_no_test() -> None:
    source = b"@pytest.fixture()\ndef test_client():\n    return 1\n\ndef test_it(test_client):\n    pass\n"
    assert [one.names for one in usual_tests("test_x.py", source)] == [("test_it",)]


SCRIPT = """\
import test from "node:test";
import assert from "node:assert";
const shared = () => assert.equal(1, 2);
describe("group", { timeout: 10 }, () => {
  const data = [1];
  it("has a function", async (t) => { await t.test("inner", () => { throw new Error(); }); });
});
test.beforeEach("set up", () => start());
test("waits", (done) => { setTimeout(done, 1e6); }, LIMIT);
test("returns", () => assert.equal(1, 2));
test("is elsewhere", shared);
test.each([[1, 2]])("adds %d", (a, b) => { assert.equal(a, b); });
test("options", { skip: false }, function () { assert.equal(1, 2); });
"""


@pytest.mark.parametrize("path", ["x.test.js", "x.test.ts", "x.test.tsx"])
def test_a_test_in_a_script_gets_a_function_without_parameters(path: str) -> None:
    assert _empty(path, SCRIPT) == (
        """\
import test from "node:test";
import assert from "node:assert";
const shared = () => assert.equal(1, 2);
describe("group", { timeout: 10 }, () => {
  const data = [1];
  it("has a function", () => {});
});
test.beforeEach("set up", () => start());
test("waits", () => {}, LIMIT);
test("returns", () => {});
test("is elsewhere", () => {});
test.each([[1, 2]])("adds %d", () => {});
test("options", { skip: false }, () => {});
"""
    )


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ('for (const n of [1]) it("a", () => x());', 'for (const n of [1]) it("a", () => {});'),
        ('[1].forEach((n) => it("a", () => x(n)));', '[1].forEach((n) => it("a", () => {}));'),
        ('[1].map(f).forEach(function (n) { test("a", () => x(n)) });', None),
        ('describe("g", () => test("a", async () => { await x(); }));', 'describe("g", () => test("a", () => {}));'),
        ('describe("g", () => { return it("a", (done) => x(done)); });', None),
        ('it("a", function () { x(); }).timeout(500).retries(2);', 'it("a", () => {}).timeout(500).retries(2);'),
        ('it("a", x).timeout(500);', 'it("a", () => {}).timeout(500);'),
        ('process.env.CI && it("a", () => x());', 'process.env.CI && it("a", () => {});'),
        ('(isFast ? it : it.skip)("a", () => x());', '(isFast ? it : it.skip)("a", () => {});'),
        ('test.skipIf("w" in env).each([{ a: "." }])("a", () => x());', None),
        ('void test("a", () => x()).then(y);', 'void test("a", () => {}).then(y);'),
        ('(async () => { await t.test("a", () => x()); })();', None),
        ('await Promise.all([t.test("a", () => x()), 1]);', 'await Promise.all([t.test("a", () => {}), 1]);'),
        ("const define = () => { test('a', () => x()); };", None),
        ("const r = test('a', () => x());", None),
        ("await Promise.all(rows.map((r) => ({ t: test('a', () => x()) })));", None),
        ("isFast ? test('a', () => x()) : test('b', () => x());", None),
        ("while (more()) test('a', () => x());", None),
        ("class A { run() { it('a', () => x()); } }", None),
        ("export default test('a', () => x());", None),
        ("test('a', () => x()) as any;", None),
        ("(test as any)('a', () => x());", None),
        ("namespace n { it('a', () => x()); }", None),
    ],
)
def test_a_test_in_a_script_is_found_wherever_it_is_called(source: str, after: str | None) -> None:
    expected = re.sub(r"\(\w*\) => x\(\w*\)", "() => {}", source) if after is None else after
    assert _empty("x.test.mts", source) == expected


@pytest.mark.parametrize("source", ["test('a', () => x())", "const r = test('a', () => x())", "void test('a', x)"])
def test_a_chain_is_read_in_time_however_long_it_is(source: str) -> None:
    assert len(usual_tests("x.test.mts", (source + ".then(y)" * 5_000).encode())) <= 2


def test_what_only_looks_like_a_test_is_none() -> None:
    source = (
        b'const f = (v) => re.test(v);\naudio.context("2d");\nreturn it.next(1);\nlist.some((v) => pattern.test(v));\n'
    )
    assert usual_tests("x.test.js", source) == []


GO = """\
package calc

import (
	"strings"
	"testing"
)

func helper(t *testing.T) { t.Fatal("helper") }

func TestOld(t *testing.T) {
	if strings.ToUpper("a") != "B" {
		t.Fatal("old")
	}
}
"""


def test_a_test_in_go_still_uses_its_imports(tmp_path: Path) -> None:
    after = _empty("calc_test.go", GO)
    assert "func TestOld(t *testing.T) { return;" in after
    assert usual_tests("calc.go", GO.encode()) == []
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed.")
    (tmp_path / "go.mod").write_text("module calc\n\ngo 1.18\n")
    (tmp_path / "calc_test.go").write_text(after)
    home = {"HOME": str(tmp_path), "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod", "PATH": "/usr/bin:/bin"}
    subprocess.run([go, "test", "./..."], cwd=tmp_path, env=home, check=True, timeout=240)


RUST = """\
#![deny(warnings)]
use std::collections::HashMap;

fn helper() -> bool { false }

#[test]
fn old() {
    let found: HashMap<i32, i32> = HashMap::new();
    assert!(helper() || !found.is_empty());
}

type Outcome = Result<(), String>;

#[test]
fn named() -> Outcome {
    Ok(())
}

#[test]
#[should_panic]
fn other() -> Result<(), String> {
    Err("no".to_string())
}
"""


def test_a_test_in_rust_compiles_where_warnings_are_errors(tmp_path: Path) -> None:
    after = _empty("tests/old.rs", RUST)
    assert after.count("panicking") == 2
    assert "fn helper() -> bool { false }" in after
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("Rust is not installed.")
    (tmp_path / "old.rs").write_text(after.replace("#[should_panic]\n", ""))
    program, home = tmp_path / "old", Path(rustc).parent.parent
    toolchain = {"PATH": os.environ["PATH"], "RUSTUP_HOME": str(home.parent / ".rustup")}
    subprocess.run([rustc, "--test", "-o", program, tmp_path / "old.rs"], env=toolchain, check=True, timeout=240)
    subprocess.run([program], check=True, timeout=60)


def test_what_is_around_tests_has_no_names_of_groups() -> None:
    source = b"import a\nclass TestOld(Base):\n    x = 1\n    # why\n    def test_it(self):\n        pass\n"
    around = list(statements_around("test_x.py", source, usual_tests("test_x.py", source)))
    assert sorted(around) == [b"(Base)", b"import a", b"x = 1"]
    script = b'const a = 1;\ndescribe("old", () => { before(a); test("it", () => {}); });\n'
    around = list(statements_around("x.test.js", script, usual_tests("x.test.js", script)))
    assert sorted(around) == [b"()", b"before(a);", b"const a = 1;", b"describe"]
