"""The sample of mutants, and the sham ones."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.judge.mutation.planning import sample
from understudy.mutants.controls import other_text, same_bytes
from understudy.mutants.generate import mutants_of
from understudy.mutants.languages.by_suffix import language_of

SOURCE = b"".join(
    b"def f%d(a):\n%s    return a + %d\n" % (index, b"    a = a * 2\n" * (1 + 20 * (index == 0)), index)
    for index in range(5)
)
ALL = [("a.py", one) for one in mutants_of("a.py", SOURCE)]


@given(st.integers(min_value=0, max_value=60), st.text(max_size=40))
def test_a_sample_is_even_over_functions_and_always_the_same(count: int, seed: str) -> None:
    chosen = sample(ALL, count, seed)
    assert len(chosen) == min(count, len(ALL)) == len(set(chosen))
    assert chosen == sample(reversed(ALL), count, seed)
    # Any beginning of it is even, too: no function is ahead of one that has mutants left.
    total = Counter(one.function for _, one in ALL)
    for end in range(len(chosen)):
        taken = Counter(one.function for _, one in chosen[:end])
        least = min((taken[name] for name in total if taken[name] < total[name]), default=0)
        assert all(taken[name] <= least + 1 for name in total if taken[name] < total[name] or taken[name] > least + 1)


def test_another_seed_gives_another_sample() -> None:
    assert len({tuple(sample(ALL, 8, str(seed))) for seed in range(20)}) > 15


def without_stores(source: bytes) -> str:
    """Return the syntax of a file without stores of nothing, of which it has at least one."""
    tree = ast.parse(source)
    added = {node for node in ast.walk(tree) if isinstance(node, ast.Assign) and ast.unparse(node).endswith(" = 0")}
    names = [re.fullmatch(r"[a-z]+_[a-z]+_[a-z]+ = 0", ast.unparse(node)) for node in added]
    assert any(names), ast.unparse(tree)
    for node in ast.walk(tree):
        if hasattr(node, "body") and isinstance(node.body, list):
            node.body = [one for one in node.body if one not in added]
    return ast.dump(tree)


@pytest.mark.parametrize("source", [b"", b"def f():\n    return 1", b"x = 1\n", b"x = 1\r\n"])
def test_sham_mutants_change_nothing_that_runs(source: bytes) -> None:
    assert same_bytes(source).apply(source) == source
    changed = other_text("a.py", source, "seed").apply(source)
    assert b"# " in changed
    assert without_stores(changed) == ast.dump(ast.parse(source))


def test_every_function_gets_a_store_that_shows_in_its_compiled_code() -> None:
    source = b"""\
class A:
    def one(self):
        \'\'\'Only this.\'\'\'

    def two(self, x):
        if x:
            return 1  # a comment

def three(): return 3

def four():
    return locals()

async def five(x):
    def six():
        yield x
    with x as y:
        return six
"""
    store = other_text("a.py", source, "seed")
    changed = ast.parse(store.apply(source))
    functions = [node for node in ast.walk(changed) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    stored = {node.name for node in functions if any(isinstance(one, ast.Assign) for one in node.body)}
    assert stored == {"two", "five", "six"}


@pytest.mark.parametrize("path", ["a.js", "a.ts", "a.tsx", "a.go", "a.rs", "a.java"])
def test_sham_mutants_parse_in_every_language(path: str) -> None:
    language = language_of(path)
    assert language is not None
    changed = other_text(path, b"", "seed").apply(b"")
    assert len(changed.splitlines()) == 2
    assert not language.parse(changed).has_error


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a.ts", "const f = (x: number) => { const y = x; return y; };\nclass C { m() { if (1) { return 2; } } }\n"),
        ("a.js", "function f() { 'use strict'; return 1 }\nconst g = function () { throw new Error('x') }\n"),
        ("a.go", "package a\n\nfunc F(x int) int {\n\tx++\n\treturn x\n}\n\nfunc (c *C) G() int { return 2 }\n"),
        ("a.rs", "fn f(x: i32) -> i32 {\n    let y = x;\n    y + 1\n}\nimpl C { fn g(&self) -> i32 { return 2; } }\n"),
        ("A.java", "class A { int f(int x) { x++; return x; } A() { super(); } void g() { run(); } }\n"),
    ],
)
def test_functions_of_every_language_get_a_store(path: str, source: str) -> None:
    language = language_of(path)
    assert language is not None
    changed = other_text(path, source.encode(), "seed").apply(source.encode())
    assert not language.parse(changed).has_error
    assert changed.count(b" = 0") == 2
    assert changed.count(b"\n") == source.count("\n") + 1, "no line moves"


@pytest.mark.parametrize("module", ["argparse", "dataclasses", "difflib", "string", "textwrap", "traceback"])
def test_wider_spaces_change_nothing_that_runs(module: str) -> None:
    source = Path(importlib.import_module(module).__file__ or "").read_bytes()
    changed = other_text("a.py", source, "seed").apply(source)
    assert without_stores(changed) == without_stores(source + b"\na_b_c = 0\n")
    lines = [line.rstrip() for line in source.splitlines()]
    assert len(set(lines) - set(changed.splitlines())) > len(set(lines)) / 4


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("a.py", "x = f'{a = }' + 'b  c' # d e\n", "x  =  f'{a = }'  +  'b  c'  # d e\n"),
        ("a.js", "let x = `${a + b} c` + /d e/ + 'f g'\n", "let  x  =  `${a + b} c`  +  /d e/  +  'f g'\n"),
        ("a.tsx", "const x = <p>a b</p>\n", "const  x  =  <p>a b</p>\n"),
        ("a.go", 'var x = `a b` + "c d"\n', 'var  x  =  `a b`  +  "c d"\n'),
        ("a.rs", "let x = stringify!(a + b);\n", "let  x  =  stringify!(a + b);\n"),
        ("a.py", "x = a + b < c and d\n", "x  =  (a)  +  (b)  <  (c)  and  (d)\n"),
        ("b.java", "class A { boolean x = a + b < f(c); }\n", "class  A  {  boolean  x  =  (a)  +  (b)  <  f(c);  }\n"),
        ("A.java", "class A { int x = 1 + 2; }\n", "class  A  {  int  x  =  1  +  2;  }\n"),
    ],
)
def test_spaces_in_texts_stay(path: str, source: str, expected: str) -> None:
    changed = other_text(path, source.encode(), "seed").apply(source.encode()).decode()
    assert changed.startswith(expected)


def test_sham_mutants_depend_on_the_seed_and_have_no_common_name() -> None:
    lines = [line for seed in ("a", "b") for line in other_text("a.py", b"", seed).text.splitlines()]
    assert len(set(lines)) == 4
    assert not any(b"understudy" in line or b"sham" in line for line in lines)
    assert other_text("a.json", b"{}", "seed").apply(b"{}") == b"{}"
