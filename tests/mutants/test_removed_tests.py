"""Test that a file loses exactly the tests that a runner names, in every language."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.test_code.definitions import definitions_of
from understudy.mutants.test_code.removed_tests import without_tests
from understudy.mutants.test_code.test_ids import KnownTests

GO_MODULE = b"module example.com/m\n"


def remaining(path, source, tests, base=None):
    """Return the file without the named tests, and the names that were found."""

    def read(name):
        return source if name == path else GO_MODULE if name == "go.mod" else None

    known = KnownTests([(path, path)], read, lambda _: base)
    found = [known.find(test) for test in tests]
    gone = {one.definition for one in found if one is not None}
    rest = without_tests(path, source, gone, known.base[path])
    return rest, [one.definition.names if one is not None else None for one in found]


@dataclass(frozen=True)
class Written:
    """A piece of a generated file: a test, or a group of tests."""

    name: str
    above: str
    body: str
    inside: tuple[Written, ...] = ()


NOTES = st.sampled_from(["", "", "# about {}\n", "# two\n# lines\n", "@mark.parametrize('x', [(1, '# no'), (2, 3)])\n"])
BODIES = st.sampled_from(
    [
        "pass",
        "assert add(1, 2) == 3",
        "text = '''\n# no comment\n'''\n    assert text",
        "pass\n    # the end",
        "x = 1\n\n    y = 2",
    ]
)
TESTS = st.builds(lambda number, above, body: (number, above, body), st.integers(0, 99), NOTES, BODIES)


@st.composite
def python_files(draw):
    """Return a file of Python as pieces, with the names of some of its tests."""
    pieces = []
    for number, (_, above, body) in enumerate(draw(st.lists(TESTS, min_size=1, max_size=5))):
        inside = tuple(
            Written(f"test_{number}_{n}", note, text)
            for n, (_, note, text) in enumerate(draw(st.lists(TESTS, max_size=3)) if draw(st.booleans()) else [])
        )
        pieces.append(Written(f"{'Test' if inside else 'test_'}{number}", above, body, inside))
    tests = [(piece.name, one.name) for piece in pieces for one in piece.inside]
    tests += [(piece.name,) for piece in pieces if not piece.inside]
    return pieces, draw(st.sets(st.sampled_from(sorted(tests)))), draw(st.sampled_from(["\n", "\r\n"]))


def python(pieces, gone=frozenset()):
    """Write the pieces without those that are gone."""
    blocks = []
    for piece in pieces:
        if not piece.inside:
            if (piece.name,) not in gone:
                blocks.append(f"{piece.above.format('it')}def {piece.name}():\n    {piece.body}\n")
            continue
        kept = [one for one in piece.inside if (piece.name, one.name) not in gone]
        if kept:
            methods = [f"{one.above.format('it')}def {one.name}(self):\n    {one.body}\n" for one in kept]
            text = "\n".join(textwrap.indent(method, "    ", lambda line: bool(line.strip())) for method in methods)
            blocks.append(f"{piece.above if piece.above[:1] == '#' else ''}class {piece.name}:\n{text}")
    return '"""Tests."""\n\nimport calc\n' + "".join(f"\n\n{block}" for block in blocks)


@given(python_files())
def test_what_remains_is_the_file_without_exactly_these_tests(made):
    pieces, gone, newline = made
    source, expected = (python(pieces, left).replace("\n", newline).encode() for left in (frozenset(), gone))
    ids = ["::".join(("test_calc.py", *names)) for names in sorted(gone)]
    rest, found = remaining("test_calc.py", source, ids)
    assert found == sorted(gone)
    if rest is None:
        assert expected == b'"""Tests."""%b%bimport calc%b' % ((newline.encode(),) * 3)
    else:
        assert rest == expected
        compile(rest, "test_calc.py", "exec")


SCRIPT_TITLES = st.sampled_from(["adds", "it's", 'a "b"', "x + y (z)", "äöü", "a.b*c", "1"])


@given(
    st.lists(
        st.tuples(st.lists(SCRIPT_TITLES, unique=True, min_size=1, max_size=3), st.booleans()), min_size=1, max_size=4
    ),
    st.data(),
    st.sampled_from(["calc.test.js", "calc.test.ts", "src/calc.spec.tsx", "calc.test.mjs"]),
)
def test_tests_of_scripts_go_by_their_titles(groups, data, path):
    wanted = [(number, title) for number, (titles, _) in enumerate(groups) for title in titles]
    gone = data.draw(st.sets(st.sampled_from(wanted)))

    def write(left):
        text = 'import { expect } from "vitest";\n'
        for number, (titles, each) in enumerate(groups):
            kept = [title for title in titles if (number, title) not in left]
            lines = [
                f"  // {number}\n  {'test.only' if each else 'it'}({title!r}, () => {{ expect(/x/.test('x')); }});\n"
                for title in kept
            ]
            text += f"\ndescribe('group {number}', () => {{\n" + "\n".join(lines) + "});\n" if kept else ""
        return text.encode()

    ids = [f"{path}: group {number} {title}" for number, title in sorted(gone)]
    rest, _ = remaining(path, write(frozenset()), ids)
    assert rest == (write(gone) if len(gone) < len(wanted) else None)
    if rest is not None:
        assert not language_of(path).parse(rest).has_error


GO = b"""package calc

import (
	"strings"
	"testing"
)

// TestAdd is good.
func TestAdd(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fail()
	}
}

func TestRuns(t *testing.T) {
	strings.TrimSpace("x")
}
"""
RUST = b"""pub fn add(a: i32, b: i32) -> i32 { a + b }

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs.
    #[test]
    #[should_panic]
    fn runs() { add(1, 2); }

    #[test]
    fn adds() { assert_eq!(add(1, 2), 3); }
}
"""


def test_go_code_compiles_afterwards():
    rest, found = remaining("calc/add_test.go", GO, ["example.com/m/calc.TestRuns/sub", "example.com/m/other.TestAdd"])
    assert found == [("TestRuns",), None]
    assert rest == GO[: GO.index(b"\nfunc TestRuns")].replace(b'\t"strings"\n', b"")
    assert remaining("add_test.go", GO, ["TestRuns", "example.com/m.TestAdd"])[0] is None


@pytest.mark.parametrize(
    "source", ["test('a', f).then(() => test('b', g));\ntest('c', h);\n", "const r = test('a', f);\nr();\n"]
)
def test_a_test_that_others_depend_on_stays(source):
    with pytest.raises(ValueError, match=r"another test|is used"):
        remaining("a.test.js", source.encode(), ["a.test.js: a"])


def test_a_method_of_a_suite_in_go_is_a_test():
    suite = (
        b"package calc\n\ntype S struct{}\n\nfunc (s *S) TestOne() {}\n\nfunc TestS(t *testing.T) { run(t, &S{}) }\n"
    )
    rest, found = remaining("s_test.go", suite, ["TestS/TestOne"])
    assert found == [("S", "TestOne")]
    assert rest == suite.replace(b"\nfunc (s *S) TestOne() {}\n", b"")
    assert remaining("s_test.go", suite, ["TestS/other"])[1] == [("TestS",)]
    assert remaining("s_test.go", suite, ["TestOne"])[1] == [None]


def test_a_module_of_tests_that_the_base_has_not_goes_with_its_last_test():
    code = RUST[: RUST.index(b"\n#[cfg")]
    rest, _ = remaining("src/lib.rs", RUST, ["unittests src/lib.rs tests::runs"], code)
    start, end = RUST.index(b"    /// Runs."), RUST.index(b"    #[test]\n    fn adds")
    assert rest == RUST[:start] + RUST[end:]
    rest, _ = remaining("src/lib.rs", RUST, ["unittests src/lib.rs tests::runs", "tests::adds"], code)
    assert rest == code
    emptied = RUST.replace(b"runs", b"old")
    rest, _ = remaining("src/lib.rs", RUST, ["tests::runs", "tests::adds"], emptied)
    assert b"mod tests {\n    use super::*;\n}" in rest


@pytest.mark.parametrize(
    ("path", "test", "names"),
    [
        ("tests/test_a.py", "test_a.py::TestA::test_it[a::b]", ("TestA", "test_it")),
        ("tests/test_a.py", "tests.test_a.TestA.test_it", ("TestA", "test_it")),
        ("tests/test_a.py", "test_a.TestA.test_it (value=1)", ("TestA", "test_it")),
        ("tests/test_a.py", "other/test_a.py::TestA::test_it", None),
        ("tests/test_a.py", "TestA.test_it", None),
        ("tests/test_a.py", "tests/test_a.py::test_it", None),
        ("tests/test_a.py", "tests/test_a.py::TestA", None),
        ("a.test.ts", "a.test.ts: group 3 is 4", ('"group %i"', '"is %i"')),
        ("a.test.ts", "a.test.ts: group 3 of all", ('"group %i"', "`of ${name}`")),
        ("a.test.ts", "b.test.ts: group 3 is 4", None),
        ("a.test.ts", "  is 4", ('"group %i"', '"is %i"')),
        ("a.test.ts", "a.test.ts: twice", None),
        ("tests/it.rs", "tests/it.rs works", ("works",)),
        ("tests/it.rs", "tests/other.rs works", None),
        ("src/deep/mod.rs", "unittests src/lib.rs deep::works", ("works",)),
        ("src/deep.rs", "unittests src/lib.rs other::works", None),
    ],
)
def test_ids_of_every_runner(path, test, names):
    sources = {
        ".py": b"class TestA:\n    def test_it(self):\n        pass\n",
        ".ts": b'describe.each([3])("group %i", () => {\n  test.each([4])("is %i", () => {});\n  it(`of ${name}`, () => {});\n});\n'
        b'it("twice", () => {});\nit("twice", () => {});\n',
        ".rs": b"#[test]\nfn works() {}\n",
    }
    suffix = path[path.rindex(".") :]
    assert remaining(path, sources[suffix], [test])[1] == [names]


@pytest.mark.parametrize(
    ("path", "source", "test", "rest"),
    [
        ("test_a.py", "def test_a(): pass\nx()\n", "test_a.py::test_a", "x()\n"),
        ("test_a.py", "if A:\n    def test_a(): pass\n\ny()\n", "test_a.py::test_a", "if A:\n    pass\n\ny()\n"),
        ("test_a.py", "#!/usr/bin/env python\ndef test_a(): pass\ny()\n", "test_a.py::test_a", "#!/usr/bin/env python\ny()\n"),
        ("test_a.py", "class TestA:\n    x = 1\n\n    def test_a(self): pass\n", "test_a.py::TestA::test_a", "class TestA:\n    x = 1\n"),
        ("a.test.js", "it('a', f); it('b', f);\n", "a.test.js: a", " it('b', f);\n"),
        ("a.test.js", "describe('g', () => it('a', f)); it('b', f);\n", "a.test.js: g a", " it('b', f);\n"),
        ("a.test.js", "[1].forEach(n => it('a', f));\nit('b', f);\n", "a.test.js: a", "[1].forEach(n => undefined);\nit('b', f);\n"),
        ("a.test.js", "function g() {\n  return it('a', f);\n}\nit('b', f);\n", "a.test.js: a", "function g() {\n}\nit('b', f);\n"),
        ("a.test.js", "it('a', f).timeout(5);\nit('b', f);\n", "a.test.js: a", "it('b', f);\n"),
        ("a.test.js", "await Promise.all([test('a', f), test('b', f)]);\n", "a.test.js: a", "await Promise.all([undefined, test('b', f)]);\n"),
        ("a.test.js", "for (const n of [1]) it('a', f);\nit('b', f);\n", "a.test.js: a", "for (const n of [1]) ;\nit('b', f);\n"),
        ("a.test.js", "if (ok) it('a', f);\nelse it('b', f);\n", "a.test.js: a", "if (ok) ;\nelse it('b', f);\n"),
        ("a.test.js", "export const x = 1;\nit('a', f);\n", "a.test.js: a", "export const x = 1;\n"),
        ("a.test.js", "beforeEach(f);\n\n/**\n * A.\n */\nit('a', f); // x\nit('b', f);\n", "a.test.js: a", "beforeEach(f);\n\nit('b', f);\n"),
    ],
)  # fmt: skip
def test_what_is_around_a_test_stays(path, source, test, rest):
    assert remaining(path, source.encode(), [test])[0].decode() == rest


def test_a_group_of_the_base_keeps_its_place():
    base = b"class TestA:\n    def test_old(self):\n        pass\n"
    source = base.replace(b"test_old", b"test_new")
    assert remaining("test_a.py", source, ["test_a.py::TestA::test_new"], base)[0] == b"class TestA:\n    pass\n"


def test_a_test_that_was_moved_is_not_new():
    text = b"def test_it():\n    pass\n"
    known = KnownTests([("b.py", None), (None, "a.py")], lambda _: text, lambda path: text if path == "a.py" else None)
    assert not known.is_new(known.find("b.py::test_it"))


def test_broken_code_is_not_made_worse():
    source = b"def test_a():\n    pass\n\n\ndef test_b(:\n"
    known = definitions_of("test_a.py", source)
    gone = [one for one in known if one.names == ("test_a",)]
    assert b"def test_b(:" in (without_tests("test_a.py", source, gone, ()) or b"")
