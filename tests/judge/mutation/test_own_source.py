"""Code that is compiled again from its own text is judged like any other."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.model.verdicts import Reservation, Verdict

CODE = '''\
import ast
import inspect
import textwrap


def again(function):
    """Compile a function again from its source, as typeguard does."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines(keepends=True)
    tree = ast.increment_lineno(ast.parse("".join(lines[1:])), function.__code__.co_firstlineno)
    found = {}
    exec(compile(tree, __file__, "exec"), function.__globals__, found)
    return found[function.__name__]


@again
def add(a, b):
    if a > 100:
        return 100
    return a + b


@again
def sub(a, b):
    return a - b
'''
HONEST = """\
from calc import add, sub


def test_add():
    assert add(1, 2) == 3
    assert add(101, 1) == 100
    assert add(100, 1) == 101


def test_sub():
    assert sub(3, 1) == 2
"""
READS = """\
import ast
import inspect

import calc

TREE = ast.dump(ast.parse(inspect.getsource(calc)))


def test_add():
    assert calc.add(1, 2) == 3
    assert "Add()" in TREE and "Gt()" in TREE
"""


@pytest.mark.heavy
async def test_a_decorator_that_reads_the_source_is_no_test_that_does(project: Any) -> None:
    judged = await project.has({"calc.py": CODE}).judge({"test_calc.py": HONEST})
    assert judged.is_(Verdict.VERIFIED), judged.notes


@pytest.mark.heavy
async def test_a_test_that_reads_the_source_is_still_found(project: Any) -> None:
    code = CODE.replace("@again\n", "")
    judged = await project.has({"calc.py": code}).judge({"test_calc.py": READS})
    assert judged.verdict is Verdict.UNVERIFIED, judged.notes
    assert Reservation.LOOKS_AT_SOURCE in judged.said
