"""Reach probes: one function of the file ends its process, and nothing else changes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from understudy.mutants.controls import reach_probe
from understudy.mutants.generate import mutants_of
from understudy.mutants.languages.by_suffix import LANGUAGES, language_of

PYTHON = b'''
class A:
    def text(self, x=1 + 2):
        """Doc."""
        return [lambda y: y + 1][0](x)
    def short(self): return 1
    async def later(self):
        # why
        if x > 1:
            pass
def braces():
    {1: 2}
    return 3
'''
SCRIPT = b"""function f(a){ "use strict"; return a+1 }
const g = (a) => a + 1, h = a => ({b: a + 2});
class A extends B { constructor(x){ super(); this.x = x + 1 } get y() { return 1 } }
"""
SOURCES = {
    "a.py": (PYTHON, 5),
    "a.js": (SCRIPT, 5),
    "a.ts": (
        b"export const f = (p: {a: number}): number => p.a + 1;\nfunction g(a: number, b = 3 * 4) { return a }\n",
        2,
    ),
    "a.tsx": (b"const f = (p: {a: number}) => <b>{p.a + 1}</b>;\n", 1),
    "a.go": (
        b'package a // c\nimport "os"\nfunc f(x int) int { return x + 1 }\nfunc (a *A) g() { defer func() { h(1 + 2) }() }\n',
        2,
    ),
    "a.rs": (
        b"impl A { fn f(&self) -> i32 { self.x + 1 } }\nfn g<T>(x: T) -> i32 where T: U { let c = |y| y + 1; c(2) }\n",
        2,
    ),
    "A.java": (b"class A extends B { A() { super(1); x = 1 + 2; } int f(int y) { return y + 1; } }\n", 2),
}


def probes(path: str, source: bytes) -> dict[int, bytes]:
    found = [reach_probe(path, source, one) for one in mutants_of(path, source)]
    return {probe.function: probe.source for probe in found if probe is not None}


@pytest.mark.parametrize("path", SOURCES)
def test_one_function_changes_and_the_file_still_parses(path: str) -> None:
    source, functions = SOURCES[path]
    language = language_of(path)
    assert language is not None
    found = probes(path, source)
    assert len(found) == functions
    assert len(set(found.values())) == functions
    call = language.abort.rstrip(";").encode()
    for probe in found.values():
        assert not language.parse(probe).has_error
        assert probe.count(call) == 1
        assert abs(len(probe) - len(source) - len(call)) < 60


def test_every_language_has_one() -> None:
    assert {language.name for language in LANGUAGES} == {language_of(path).name for path in SOURCES}  # type: ignore[union-attr]


def test_code_outside_functions_has_none() -> None:
    assert probes("a.py", b"X = 1 + 2\n") == {}


def test_a_function_on_one_line_is_marked() -> None:
    source = b"def f(): return 1\ndef g():\n    return 2\n"
    found = [reach_probe("a.py", source, one) for one in mutants_of("a.py", source)]
    assert {(probe.function, probe.one_line) for probe in found if probe} == {(0, True), (18, False)}


@pytest.mark.parametrize("call", ["A().text()", "A().short()", "braces()", "asyncio.run(A().later())"])
def test_the_process_ends_only_when_the_function_is_called(call: str) -> None:
    codes = []
    for probe in probes("a.py", PYTHON).values():
        guarded = f"try:\n    {call}\nexcept BaseException:\n    pass\n"
        program = f"import asyncio\nx = 0\n{probe.decode()}\n{guarded}"
        codes.append(subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode)
    ended = 2 if "text" in call else 1  # the lambda in it too
    assert sorted(codes) == [0] * (5 - ended) + [97] * ended


def test_a_docstring_stays() -> None:
    found = probes("a.py", PYTHON).values()
    assert sum(b'"""Doc."""\n        __import__("os")._exit(97)\n        return' in probe for probe in found) == 1
