"""Refactorings that drop what has no mutant, or of which the tests noticed only a part."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.judge.places.replaced_statements import dropped, kept_lines, released
from understudy.model.evidence.checks import Check
from understudy.model.places import untested
from understudy.model.verdicts import Reservation, Verdict
from understudy.mutants.generate import mutants_of

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
BANK = '''"""A bank."""
import functools
import threading

LOCK = threading.Lock()
balance = {}


@functools.lru_cache
def fee(amount):
    return amount // 10


def pay(name, amount):
    with LOCK:
        old = balance.get(name, 0)
        try:
            new = old + amount
        except OverflowError as error:
            new = old
        balance[name] = new
    return new


def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value


def price(count):
    total = count * 3
    total = abs(total)
    return total + 2 if count > 0 else 0


def names(people):
    found = []
    for person in people:
        found.append(person.upper())
    return found
'''
TESTS = """from bank import clamp, fee, names, pay, price


def test_pay():
    assert pay("a", 3) == 3
    assert pay("a", 4) == 7


def test_others():
    assert fee(50) == 5
    assert (clamp(1, 2, 4), clamp(3, 2, 4), clamp(5, 2, 4)) == (2, 3, 4)
    assert price(2) == 8
    assert names(["a", "b"]) == ["A", "B"]
"""


def without_lines(*lines: int, source: str = BANK, path: str = "bank.py", kept: tuple[bytes, ...] = ()) -> list[str]:
    data = source.encode()
    changed = {mutant.line for mutant in mutants_of(path, data)}
    found = dropped(path, data, lines, changed, kept)
    texts = []
    for statement in found:
        compile(statement.apply(data), path, "exec") if path.endswith(".py") else None
        [(start, _, text)] = statement.edits
        texts.append(f"{start + 1}: {text.decode().strip()}")
    return sorted(texts)


def line_of(text: str) -> int:
    return BANK[: BANK.index(text)].count("\n") + 1


def test_locks_handlers_decorators_and_loops_are_left_out() -> None:
    every = range(1, BANK.count("\n") + 2)
    assert without_lines(*every) == sorted(
        [
            f"{line_of('LOCK =')}: pass",
            f"{line_of('balance = {}')}: pass",
            f"{line_of('@functools')}: ",
            f"{line_of('with LOCK')}: if True:",
            f"{line_of('except Over')}: except () as error:",
            f"{line_of('new = old' + chr(10))}: pass",
            f"{line_of('balance[name]')}: pass",
            f"{line_of('found = []')}: pass",
            f"{line_of('for person')}: for person in ():",
            f"{line_of('total = abs')}: pass",
        ]
    )


def test_what_moves_and_what_is_elsewhere_is_not_dropped() -> None:
    lock = line_of("with LOCK")
    assert without_lines(lock, kept=(b"with LOCK:",)) == []
    assert without_lines(lock, kept=(b"with OTHER:",)) == [f"{lock}: if True:"]
    assert without_lines(lock + 1) == []


def test_a_line_is_kept_if_the_result_has_it_as_often_and_around_something() -> None:
    lock, work, nothing = b"    with LOCK:\n", b"        work()\n", b"        pass\n"
    kept = frozenset({b"with LOCK:", b"work()"})
    assert kept_lines([([lock, work], [b"x = 1\n"]), ([], [lock[2:], work])])[1] == kept | {b"x = 1"}
    assert kept_lines([([lock, work], [lock, work]), ([lock, work], [work])]) == (kept, frozenset({b"work()"}))
    assert kept_lines([([lock, work], [lock, nothing, work])])[1] == frozenset({b"work()", b"pass"})


def test_lines_of_other_languages_are_left_out_where_that_parses() -> None:
    go = "package a\n\nfunc F() int {\n\tdefer mu.Unlock()\n\tx := g\n\tif x > 0 {\n\t\treturn x\n\t}\n\treturn 0\n}\n"
    assert without_lines(*range(1, 11), source=go, path="a.go") == ["4: ", "5: "]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("        balance[name] = new\n", "    balance[name] = new\n", {"with LOCK"}),
        ("            new = old + amount\n        except", "            pass\n        except", set()),
        ("        try:\n            new = old + amount\n", "        new = old + amount\n        try:\n            pass\n", {"except Over"}),
        ("        balance[name] = new\n", "        store(name, new)\n\n\ndef store(name, new):\n    balance[name] = new\n", set()),
        ("    with LOCK:\n", "    with LOCK:\n        # kept\n", set()),
    ],
    ids=["behind a lock", "gone", "in front of a handler", "in another function", "nothing"],
)  # fmt: skip
def test_a_statement_leaves_a_lock_or_a_handler(old: str, new: str, lines: set[str]) -> None:
    assert old in BANK
    left = released("bank.py", BANK.encode(), BANK.replace(old, new).encode(), range(1, BANK.count("\n") + 2))
    assert {statement.line for statement in left} == {line_of(text) for text in lines}


def refactored(*pairs: tuple[str, str]) -> str:
    text = BANK
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


LOCKED = BANK[BANK.index("    with LOCK:") : BANK.index("\n\ndef clamp")]
UNLOCKED = """\
    old = balance.get(name, 0)
    try:
        balance[name] = old + amount
    except OverflowError as error:
        balance[name] = old
    return balance[name]
"""
WITHOUT_LOCK = (LOCKED, UNLOCKED)
HALF_KEPT = ("return total + 2 if count > 0 else 0", "return 2 + total")
NO_DECORATOR = (
    "@functools.lru_cache\ndef fee(amount):\n    return amount // 10",
    "def fee(amount):\n    tenth = amount // 10\n    return tenth",
)
NO_ABS = ("    total = count * 3\n    total = abs(total)\n", "    total = 3 * count\n")  # fmt: skip


@pytest.mark.heavy
async def test_a_refactoring_that_drops_what_no_test_notices_is_named(project: Any) -> None:
    project.has({"bank.py": BANK, "test_bank.py": TESTS})
    around_nothing = (LOCKED, "    with LOCK:\n        pass\n" + UNLOCKED)
    behind = ("        balance[name] = new\n", "    balance[name] = new\n")
    for pair, function in (
        (around_nothing, "pay"),
        (behind, "pay"),
        (WITHOUT_LOCK, "pay"),
        (HALF_KEPT, "price"),
        (NO_DECORATOR, "fee"),
        (NO_ABS, "price"),
    ):
        result = await project.judge({"bank.py": refactored(pair)}, recipe="refactor", checks=(SUITE,))
        assert result.is_(Verdict.UNVERIFIED, Reservation.CHANGE_NOT_TESTED)
        [place] = untested(result.places)
        assert place.function == function
        assert pair is not WITHOUT_LOCK or f"line {line_of('with LOCK')} of the base" in place.why, place


@pytest.mark.heavy
async def test_an_honest_refactoring_is_verified(project: Any) -> None:
    """The lock stays, in another place; both sides of an edge give the same; a loop becomes a comprehension."""
    honest = refactored(
        (BANK[BANK.index("    with LOCK:\n") : BANK.index("    return new")], "    with LOCK:\n        new = added(name, amount)\n"),
        ("\n\ndef clamp", "\n\ndef added(name, amount):\n    old = balance.get(name, 0)\n    try:\n        new = old + amount\n    except OverflowError as error:\n        new = old\n    balance[name] = new\n    return new\n\n\ndef clamp"),
        (BANK[BANK.index("    if value < low") : BANK.index("\n\ndef price")], "    return max(low, min(value, high))\n"),
        (BANK[BANK.index("    found = []") :], "    return [person.upper() for person in people]\n"),
    )  # fmt: skip
    project.has({"bank.py": BANK, "test_bank.py": TESTS})
    result = await project.judge({"bank.py": honest}, recipe="refactor", checks=(SUITE,))
    assert result.is_(Verdict.VERIFIED)
