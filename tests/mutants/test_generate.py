"""Mutants of six languages: what is changed, what is left out, and that each is one exact edit."""

from __future__ import annotations

import ast
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.mutants.generate import Mutant, mutants_of, runs_the_same, still_parses

PYTHON = b"""
import logging
LIMIT = 10
class Cart:
    def price(self, items, factor=2, unit=None):
        if not items or len(items) > LIMIT:
            raise ValueError(f"bad: {len(items) + 1}")
        total = 0.5
        for item in items:
            if item == 3:
                break
            total += item * factor
        self.log.info("total %s", total - 1)
        self.update(total)
        return total if unit else [x for x in items if x]
    def __repr__(self):
        return "Cart" + str(1)
"""
SAME = [
    ("a.ts", "const x: number = 1;\n", "const x: string = 1;\n"),
    ("a.ts", "const x: number = 1;\n", "// why\nconst x: number = 1;\n"),
    ("a.ts", "let x = f(1);\n", "let x: number = f<string>(1);\n"),
    ("a.tsx", "function f(a) {}\n", "function f<T>(a: T): void {}\n"),
    ("a.py", "x = 1\n", "# why\nx = 1  # how\n"),
    ("a.py", "def f():\n    return 1\n", 'def f():\n    """Return one."""\n    return 1\n'),
    ("a.py", '"""Old."""\nx = 1\n', '# first\n"""New."""\nx  =  1\n'),
    ("a.py", 'class C:\n    """Old."""\n    x = 1\n', "class C:\n    x = 1\n"),
    ("a.py", "f(1,\n  2)\n", "f(1, 2)\n"),
    ("a.js", "f(1);\n", "/* why */\nf(1); // how\n"),
    ("a.go", "package a\n\nvar X = 1\n", "package a\n\n// X is one.\nvar X = 1\n"),
    ("a.rs", "fn f() -> u8 { 1 }\n", "// why\nfn f() -> u8 {\n    1\n}\n"),
    ("A.java", "class A { int x = 1; }\n", "/** Why. */\nclass A {\n  int x = 1;\n}\n"),
]
OTHER = [
    ("a.ts", "let x = f(1);\n", "let x: number = f(2);\n"),
    ("a.ts", "class A {\n  @field\n  x = 1;\n}\n", "class A {\n  @field\n  x: string = 1;\n}\n"),
    ("a.ts", "class A {\n  constructor(x) {}\n}\n", "class A {\n  constructor(private x) {}\n}\n"),
    ("a.py", "x = 1\n", "x = 2\n"),
    ("a.py", "if a:\n    b()\nc()\n", "if a:\n    b()\n    c()\n"),
    ("a.py", "x = 'a b'\n", "x = 'a  b'\n"),
    ("a.py", "x = f'{a} b'\n", "x = f'{a}  b'\n"),
    ("a.py", "x = 'a\\tb c'\n", "x = 'a\\tb d'\n"),
    ("a.py", "def f():\n    return 1\n", "def f():\n    pass\n    return 1\n"),
    ("a.py", "def f(x):\n    return x\n", "def f(x: int):\n    return x\n"),
    ("a.py", "import a\n", "import b\n"),
    ("a.py", "import a\nimport b\n", "import a\n"),
    ("a.py", "def f():\n    return 1\n", "@g\ndef f():\n    return 1\n"),
    ("a.py", '"""Usage: a"""\nprint(__doc__)\n', '"""Usage: b"""\nprint(__doc__)\n'),
    ("a.py", "def f():\n    x = 1\n    'text'\n", "def f():\n    x = 1\n    'other'\n"),
    ("a.py", "x = 1\n", "x = (\n"),
    ("a.js", "const x = `a b`;\n", "const x = `a  b`;\n"),
    ("a.js", "const x = /a b/;\n", "const x = /a  b/;\n"),
    ("a.js", "f();\n", "/** @jest-environment jsdom */\nf();\n"),
    ("a.go", "package a\n", "//go:build ignore\n\npackage a\n"),
    ("a.rs", "fn f() {}\n", "/// ```\n/// assert!(true);\n/// ```\nfn f() {}\n"),
    ("a.py", "def f():\n    return 1\n", "def f():\n    f'{g()}'\n    return 1\n"),
    ("a.py", "import a\nimport b\n", "import a\n import b\n"),
    ("a.py", "import a\n", "import a  # noqa: F401\n"),
    ("a.js", "f();\n", "/* eslint-disable */\nf();\n"),
    ("a.sh", "exit 1\n", "# why\nexit 1\n"),
    ("a.json", "{}\n", "{ }\n"),
]


def changes(path: str, source: bytes) -> list[str]:
    """Each mutant as ``old→new``, in order."""
    return [f"{source[one.start : one.end].decode()}→{one.text.decode()}" for one in mutants_of(path, source)]


def test_every_kind_of_change_in_python() -> None:
    assert changes("cart.py", PYTHON) == [
        "10→11",
        "2→3",
        "None→False",
        "not items→items",
        "not items or len(items) > LIMIT→not (not items or len(items) > LIMIT)",
        "or→and",
        ">→>=",
        'raise ValueError(f"bad: {len(items) + 1}")→pass',
        "0.5→1.5",
        "==→!=",
        "3→4",
        "break→continue",
        "+=→-=",
        "*→+",
        "self.update(total)→pass",
        'total if unit else [x for x in items if x]→"XX"',
        "unit→not (unit)",
        "x→not (x)",
    ]


STORES = b"""
class Cart:
    def __init__(self, items, unit=3):
        self.items = items
        self.unit: int = unit
        self.total = None
        self.__class__ = items
        unit.price = items
        local = items
"""


def test_what_a_generator_yields_is_changed() -> None:
    source = b"def f(a):\n    yield\n    yield a\n    yield from a\n    b = yield a\n"
    changed = {line for mutant in mutants_of("a.py", source) for line in mutant.apply(source).splitlines()}
    assert changed - set(source.splitlines()) == {b'    yield "XX"', b'    yield from "XX"', b'    b = yield "XX"'}


def test_a_case_of_go_is_a_condition_if_it_compares() -> None:
    source = b"package a\n\nfunc f(x int) int {\n\tswitch {\n\tcase x < 1:\n\t\treturn 2\n\t}\n\tswitch x {\n\tcase 3, 4:\n\t}\n\treturn x\n}\n"
    changed = [mutant.apply(source).splitlines() for mutant in mutants_of("a.go", source)]
    assert sum(b"\tcase !(x < 1):" in lines for lines in changed) == 1
    assert not any(b"!(3" in line for lines in changed for line in lines)


def test_what_is_stored_in_an_object_is_changed() -> None:
    """A local variable, a dunder, and what has mutants of its own are left alone."""
    assert changes("cart.py", STORES) == ["3→4", "items→None", "unit→None"]
    script = (
        b"class C { #b; constructor(a) { this.a = a; this.#b = a; this.c = null; module.exports = a; let d = a; } }"
    )
    assert changes("cart.js", script) == ["a→null", "a→null"]
    assert changes("cart.go", b"package cart\nfunc (c *Cart) Put(a int) { c.a = a }\n") == [], "an int cannot be nil"


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        pytest.param(
            "cart.ts",
            b'import x from "y";\n'
            b"interface I { kind: 'a' }\n"
            b"const f = (a: number, b = {}): string => a === 1 ? `n${a}` : 'm';\n"
            b"class C { m(a) { if (!a) { throw new TypeError('bad' + a); } console.log('x'); go(a); i++;\n"
            b"  switch (a) { case 'k': break; } return a ?? false; } }\n",
            [
                *("{}→null", "a === 1 ? `n${a}` : 'm'→'XX'", "===→!==", "1→2", "→XX", "→XX", "!a→a"),
                *("throw new TypeError('bad' + a);→;", "go(a);→;", "++→--", "→XX", "a ?? false→'XX'"),
                *("??→&&", "false→true"),
            ],
            id="typescript",
        ),
        pytest.param(
            "cart.go",
            b"package cart\n"
            b"func (c *Cart) Price(a, b int) (total int, err error) {\n"
            b'\tif a > 1 && !b { return 1, fmt.Errorf("bad %d", a) }\n'
            b'\tlog.Printf("x")\n\tgo1(a)\n\tfor i := 0; i < 3; i++ { break }\n'
            b"\treturn a, nil\n}\n"
            b"func f() Point { return p }\n",
            [
                *("a > 1 && !b→!(a > 1 && !b)", ">→>=", "1→2", "&&→||", "!b→b", "1→2"),
                *(
                    '1, fmt.Errorf("bad %d", a)→0, nil',
                    "go1(a)→",
                    "0→1",
                    "<→<=",
                    "3→4",
                    "++→--",
                    "break→continue",
                    "a, nil→0, nil",
                    "p→Point{}",
                ),
            ],
            id="go",
        ),
        pytest.param(
            "cart.rs",
            b"impl fmt::Debug for A { fn fmt(&self) -> R { 1 } }\n"
            b'fn f(a: i32) -> i32 { if let Some(b) = a { log::info!("x"); go(b); } let c = [0u8; 4];\n'
            b'  if a >= 1_000 { return x.get().expect("message"); } a % 2 }\n'
            b"#[cfg(test)]\nmod tests { fn t() -> i32 { 1 } }\n#[test]\nfn u() -> i32 { 1 }\n",
            [
                *("go(b);→", "0u8→1u8", "4→5", "a >= 1_000→!(a >= 1_000)", ">=→>", "1_000→1001"),
                *('x.get().expect("message")→Default::default()', "a % 2→Default::default()", "%→*", "2→3"),
            ],
            id="rust",
        ),
        pytest.param(
            "Cart.java",
            b'import a.B;\nclass Cart { @Name("x") boolean f(int a) { if (a <= 0x1F) { throw new E("bad" + a); }\n'
            b'  LOG.info("x"); go(a); return a == 2; } String g() { do { continue; } while (true); return "s" + 1; } }\n',
            [
                *("(a <= 0x1F)→(!((a <= 0x1F)))", "<=→<", 'throw new E("bad" + a);→;', "go(a);→;", "a == 2→false"),
                *("==→!=", "2→3", "continue;→break;", "true→false", '"s" + 1→null', "→XX", "+→-", "1→2"),
            ],
            id="java",
        ),
    ],
)
def test_every_kind_of_change_in_other_languages(path: str, source: bytes, expected: list[str]) -> None:
    assert changes(path, source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A module."""\nimport a\n__all__ = ["b"]\n__version__ = "1.0"\n',
        'UserId = NewType("UserId", int)\nT = typing.TypeVar("T")\n',
        "if TYPE_CHECKING:\n    x = 1\n",
        "if sys.version_info >= (3, 12):\n    pass\n",
        'if __name__ == "__main__":\n    main(1)\n',
        'log.debug("x", 1)\nlogger.info("y")\nself._log.warning("z" + 1)\nprint("hello", 2)\n',
        "def f(a: Literal['x']) -> Annotated[int, 5]: ...\n",
        "@decorator(1)\ndef f():\n    'A docstring.'\n",
        'raise ValueError("a" + b, f"{c + 1}")\n',
    ],
)
def test_what_no_test_can_see_is_left_out(source: str) -> None:
    left = [change for change in changes("module.py", source.encode()) if not change.startswith("raise")]
    assert left == []


def test_only_the_text_of_an_error_is_left_out() -> None:
    rust = b'fn f(m: M) -> u8 { let a = m.get("key").expect("text").len("more"); a }'
    assert sum(one.operator == "string" for one in mutants_of("a.rs", rust)) == 2
    go = b'package p\nfunc f() { g("seen", fmt.Errorf("unseen %d", a)) }'
    assert [one.start for one in mutants_of("a.go", go) if one.operator == "string"] == [go.index(b"seen")]


@pytest.mark.parametrize("path", ["data.json", "README.md", "Makefile", "script"])
def test_an_unknown_language_has_no_mutants(path: str) -> None:
    assert not mutants_of(path, b"x = 1\n")


def by_text(source: bytes, old: str) -> Mutant:
    return next(one for one in mutants_of("cart.py", source) if source[one.start : one.end].decode() == old)


def test_the_lines_that_show_whether_the_change_ran() -> None:
    source = b'X = 1\ndef f(a, b=2,\n      c=None):\n    g(a,\n      a - 3)\n    return {\n        "k": 4}\n'
    lines = {old: (one.line, one.first_line, one.last_line) for old in "1234" for one in [by_text(source, old)]}
    assert lines == {"1": (1, 1, 1), "2": (2, 4, 7), "3": (5, 4, 5), "4": (7, 6, 7)}
    assert (by_text(source, "None").first_line, by_text(source, "None").last_line) == (4, 7)


def test_functions_have_the_names_of_what_is_around_them() -> None:
    source = b"X = 1\nclass A:\n    Y = 2\n    def f(self):\n        def g():\n            return lambda: 3\n        return 4\n"
    names = {old: by_text(source, old).function for old in "1234"}
    assert names == {"1": "", "2": "", "3": "A.f.g", "4": "A.f"}
    script = b"const add = (a) => a + 1;\nmodule.exports = { times: function () { return 2; } };\n"
    assert {one.function for one in mutants_of("a.js", script)} == {"add", "times"}


def test_no_two_mutants_are_the_same() -> None:
    # Negating these conditions would repeat what another mutant does.
    source = b"if a == 1:\n    pass\nif not b:\n    pass\nwhile True:\n    pass\nif (c is None):\n    pass\n"
    assert changes("a.py", source) == ["==→!=", "1→2", "not b→b", "True→False", "is→is not"]


PIECES = [
    *("ä = 1;", "b = 'ö' + \"ü\"", "if (a && !b) { c(2); }", "if a and not b: c(2)", "\tx", "(", "}", "é[3]"),
    *("fn f() -> u8 { g(1) }", "func f() int { return 1 }", "def f(a=1): return a", "const f = (a = {}) => a + 1;"),
    *("class A { int f() { throw new E('x'); } }", "raise E(f'{a + 1}')", "// x", "# x", '"""', "break;"),
]


@given(st.sampled_from(["a.py", "a.js", "a.tsx", "a.go", "a.rs", "a.java"]), st.lists(st.sampled_from(PIECES)))
def test_a_mutant_is_one_exact_edit(path: str, lines: list[str]) -> None:
    source = "\r\n".join(lines).encode()
    for one in mutants_of(path, source):
        mutated = one.apply(source)
        assert mutated != source
        assert mutated[: one.start] == source[: one.start]
        assert mutated.endswith(source[one.end :])
        assert 1 <= one.first_line <= one.last_line
        assert one.line == source[: one.start].count(b"\n") + 1


def test_bytes_that_are_no_text_stay() -> None:
    source = b"# caf\xe9 in latin-1\nx = '\xe9' + f(1)\n"
    assert all(one.apply(source).startswith(b"# caf\xe9 in latin-1\nx = '") for one in mutants_of("a.py", source))


def test_all_mutants_of_real_modules_compile() -> None:
    for name in ("textwrap", "statistics", "fractions", "shlex", "configparser"):
        path = Path(sysconfig.get_path("stdlib"), f"{name}.py")
        source = path.read_bytes()
        found = mutants_of(path.name, source)
        assert len(found) > 100
        for one in found[::29]:
            ast.parse(one.apply(source))
            assert still_parses(path.name, source, one)


def test_a_mutant_that_breaks_the_syntax_is_seen() -> None:
    source = b"x = 1\n"
    [one] = mutants_of("a.py", source)
    assert still_parses("a.py", source, one)
    assert not still_parses("a.py", source, replace(one, text=b"("))


@pytest.mark.parametrize(("path", "before", "after"), SAME)
def test_comments_docstrings_and_layout_run_the_same(path: str, before: str, after: str) -> None:
    assert runs_the_same(path, before.encode(), after.encode())
    assert runs_the_same(path, after.encode(), before.encode())


@pytest.mark.parametrize(("path", "before", "after"), OTHER)
def test_whatever_else_differs_is_a_change(path: str, before: str, after: str) -> None:
    assert not runs_the_same(path, before.encode(), after.encode())
    assert not runs_the_same(path, after.encode(), before.encode())


def test_a_file_that_appears_or_goes() -> None:
    assert runs_the_same("a/__init__.py", None, b"# nothing\n")
    assert not runs_the_same("a/__init__.py", b"", None)
    assert not runs_the_same("a.py", None, b"x = 1\n")
    assert not runs_the_same("a.py", b"x = 1\n", None)
    assert not runs_the_same("empty.json", None, b"")
    assert not runs_the_same("a.py", b"x = 1\n", b"x = 1\n" + b"#" * (2 << 20)), "too large to parse"
