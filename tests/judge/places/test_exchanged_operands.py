"""A line with another operand does something else, whatever tests noticed of the line before."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.judge.places.exchanged_operands import exchanged_operand
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
GO = "package a\n\nfunc f(t int) bool {{\n\treturn t > 10 && s == {}\n}}\n"
DOCUMENTED = 'def f(n):\n    """Add one."""\n    return n '


def exchanged(path: str, before: str, after: str) -> str | None:
    lines = [range(1, text.count("\n") + 2) for text in (before, after)]
    return exchanged_operand(path, before.encode(), after.encode(), *lines)


@pytest.mark.parametrize(
    ("path", "before", "after", "operand"),
    [
        ("a.py", "def f(rates):\n    return g(rates[x])", "def f(rates):\n    return g(RATES[x])", "rates"),
        ("a.py", "def f(t):\n    return t.startswith('-')", "def f(t):\n    return t.startswith('-1')", "'-'"),
        ("a.py", "def f(x):\n    raise E from x\n    x()", "def f(x):\n    raise E from None\n    x()", "x"),
        ("a.py", "def f(t, limit=3):\n    pass", "def f(t, limit=4):\n    pass", "3"),
        ("a.py", "if a < b:\n    pass", "if a <= b:\n    pass", "<"),
        ("a.py", "def f(a, b):\n    return a - b", "def f(a, b):\n    return b - a", "a"),
        ("a.py", "def f(a, b):\n    return g(a, b) + 1", "def f(a, b):\n    return g(b, a) + 1", "a"),
        ("a.py", "def f(p: str = 'a'):\n    pass", "def f(p: bytes = 'b'):\n    pass", "'a'"),
        ("a.py", "class A:\n    p: int = g(int)", "class A:\n    p: str = g(int)", "int"),
        ("a.js", "const f = (t) => t > 100;", "const f = (t) => t > 100.5;", "100"),
        ("a.js", "const f = (t) => t.replace(/[^a-z]/g, '');", "const f = (t) => t.replace(/[ ]/g, '');", "[^a-z]"),
        ("a.ts", "const f = (a: number, b = 3) => a + b;", "const f = (a: number, b = 4) => a + b;", "3"),
        ("a.go", GO.format('"a"'), GO.format('"b"'), '"a"'),
        ("a.rs", "fn f(t: i32) -> i32 { t + g(1) }", "fn f(t: i32) -> i32 { t + g(2) }", "1"),
    ],
)
def test_another_operand(path: str, before: str, after: str, operand: str) -> None:
    assert exchanged(path, before, after) == operand
    assert exchanged(path, before, before) is None


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.py", "def f(t):\n    for item in t:\n        g(item)", "def f(t):\n    for each in t:\n        g(each)"),
        ("a.py", "def f(t):\n    return round(t)", "def f(t):\n    return int(t)"),
        ("a.py", "def f(t):\n    return t.old", "def f(t):\n    return t.new"),
        ("a.py", "if a < b:\n    pass", "if b > a:\n    pass"),
        ("a.py", "def f(a, b):\n    return g(a + b)", "def f(a, b):\n    return g(b + a)"),
        ("a.js", "const f = (a, b) => a && b;", "const f = (a, b) => b && a;"),
        ("a.py", "def f(n):\n    return n / 100", "MOST = 100\n\n\ndef f(n):\n    return n / MOST"),
        ("a.go", "package a\n\nvar x = 1\nvar y = 2 + x\n", "package a\n\nvar x = 1\nvar y = 2 + 1\n"),
        ("a.py", "def f(n):\n    return range(0, n)", "def f(n):\n    return range(n)"),
        ("a.py", "def f(n):\n    return '%d' % n", "def f(n):\n    return f'{n}'"),
        ("a.go", "package a\n\nvar a = 1 // one\n", "package a\n\nvar a = 1 // first\n"),
        ("a.txt", "1", "2"),
        ("a.py", f"{DOCUMENTED}+ 1", f"{DOCUMENTED.replace('one', 'it')}- -1"),
        ("a.py", "def f(p: str, *q: 'a') -> int:\n    x: int = p", "def f(p: bytes, *q: 'b') -> g:\n    x: g = p\n"),
    ],
)
def test_the_same_in_other_words(path: str, before: str, after: str) -> None:
    assert exchanged(path, before, after) is None


def test_what_is_read_is_an_operand() -> None:
    before, after = f"{DOCUMENTED}+ 1", f"{DOCUMENTED.replace('one', 'it')}+ 1"
    lines = range(1, 4)
    assert exchanged_operand("a.py", before.encode(), after.encode(), lines, lines, docstrings_run=True)
    before, after = "def f(p: int):\n    int()", "def f(p: str):\n    int()"
    assert exchanged_operand("a.py", before.encode(), after.encode(), lines, lines, annotations_run=True) == "int"


async def test_what_tests_noticed_of_a_line_says_nothing_about_its_new_operand(empty_project: Any) -> None:
    code = "RATES = {'a': 2}\n\n\ndef convert(amount, name, rates=RATES):\n    return amount * rates[name]\n"
    test = "from rates import convert\n\n\ndef test_convert():\n    assert convert(3, 'a') == 6\n"
    empty_project.has({"rates.py": code, "test_rates.py": test})
    edits = {"rates.py": code.replace("* rates[", "* RATES[")}
    judged = await empty_project.judge(edits, recipe="implement", checks=(SUITE,))
    assert judged.said == [Reservation.CHANGE_NOT_TESTED]
    assert "`rates` again" in str(judged.facts)
