"""Renames that a result carries through: the base's tests run with the new names, and say what they said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from understudy.judge.base_runs.renames import Renames, renamed, renames_of
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict

PYTEST = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
SHOP = """\
def label(name, count=1):
    if count == 1:
        return f"one {name}"
    return f"{count} {name}s"


class Basket:
    def put(self, price):
        self.prices.append(price)
        return len(self.prices)
"""
TESTS = 'from shop import label\n\n\ndef test_label():\n    assert label("cat") == "one cat"\n    assert label("cat", count=2) == "2 cats"\n'
SCRIPT = 'import { add } from "../src/calc.js";\n\ntest("add", () => {\n  vi.mock("../src/calc.js");\n  expect(add(1)).toBe(2);\n});\n'


def found(base: Mapping[str, str], result: Mapping[str, str]) -> Renames:
    def reader(tree: Mapping[str, str]) -> Any:
        return lambda path: tree[path].encode() if path in tree else None

    letters = {
        path: "M" if path in base and path in result else "D" if path in base else "A" for path in {*base, *result}
    }
    return renames_of(
        [(letter, path) for path, letter in sorted(letters.items())],
        reader(base),
        reader(result),
        result_paths=result,
        is_code=lambda path: "test" not in path,
    )


def given(base: Mapping[str, str], result: Mapping[str, str], tests: str, at: str = "tests/test_shop.py") -> str:
    return renamed(at, tests.encode(), found(base, result)).decode()


@pytest.mark.parametrize(
    ("old", "new"),
    [("label", "describe"), ("Basket", "Cart"), ("put(", "add("), ("count", "number")],
    ids=["function", "class", "method", "parameter"],
)
def test_names(old: str, new: str) -> None:
    tests = f'{TESTS}    assert Basket().put(3) == 1\n    assert "{old}"\n'
    expected = tests.replace(old, new).replace(f'"{new}"', f'"{old}"').replace(f"test_{new}", f"test_{old}")
    assert given({"shop.py": SHOP}, {"shop.py": SHOP.replace(old, new)}, tests) == expected


@pytest.mark.parametrize(
    ("base", "result", "statement", "expected"),
    [
        ("shop.py", "store.py", "from shop import label", "from store import label"),
        ("shop.py", "store.py", "import shop\nshop.label()", "import store\nstore.label()"),
        ("shop.py", "lib/shop.py", "import shop\nshop.label()", "import lib.shop as shop\nshop.label()"),
        ("src/a/shop.py", "src/a/store.py", "from a.shop import label", "from a.store import label"),
        ("a/shop.py", "b/store.py", "import a.shop as s", "import b.store as s"),
        ("a/shop.py", "a/store.py", "from ..shop import label", "from ..store import label"),
        ("a/shop.py", "b/store.py", 'patch("a.shop.label")', 'patch("b.store.label")'),
        ("a/shop.py", "b/store.py", 'assert x == "a.shop.label"', 'assert x == "a.shop.label"'),
        ("shop.py", "shop/__init__.py", "from shop import label", "from shop import label"),
    ],
)
def test_modules(base: str, result: str, statement: str, expected: str) -> None:
    assert given({base: SHOP}, {result: SHOP}, statement) == expected


def test_scripts_and_go() -> None:
    code = "export function add(a) {\n  return a + 1;\n}\n"
    moved = given({"src/calc.js": code}, {"src/sums.js": code}, SCRIPT, at="tests/calc.test.js")
    assert moved == SCRIPT.replace("calc", "sums")
    named = given({"src/calc.js": code}, {"src/calc.js": code.replace("add", "plus")}, SCRIPT, at="tests/calc.test.js")
    assert named == SCRIPT.replace("{ add }", "{ plus }").replace("(add(", "(plus(")
    go = "package calc\n\nfunc Clamp(value int) int {\n\treturn value\n}\n"
    tests = "package calc\n\nfunc TestClamp(t *testing.T) {\n\tClamp(5)\n}\n"
    assert given({"calc.go": go}, {"calc.go": go.replace("Clamp", "Limit")}, tests, at="calc_test.go") == tests.replace(
        "\tClamp", "\tLimit"
    )


@pytest.mark.parametrize(
    "result",
    [
        {"shop.py": SHOP.replace("label", "describe") + "\n\nlabel = print\n"},
        {"shop.py": SHOP.replace("label", "describe") + '\n\nglobals()["la" + "bel"] = print\n'},
        {"shop.py": "from more import *\n" + SHOP.replace("label", "describe"), "more.py": "x = 1\n"},
        {"shop.py": SHOP.replace("def label(name, count=1)", "def first(a, b, c, d, e)")[:30] + "    pass\n"},
        {"store.py": SHOP, "lib/shop.py": "label = print\n"},
        {"store.py": SHOP, "shop/__init__.py": "label = print\n"},
    ],
    ids=["kept too", "made at run time", "imported", "another function", "two modules", "module and package"],
)
def test_what_is_there_twice_or_unlike_was_not_renamed(result: dict[str, str]) -> None:
    assert given({"shop.py": SHOP}, result, TESTS) == TESTS


def test_no_test_gets_a_name_that_it_has() -> None:
    tests = f"{TESTS}\n\ndef test_equal():\n    describe = 1\n    assert label(2) == describe\n"
    assert given({"shop.py": SHOP}, {"shop.py": SHOP.replace("label", "describe")}, tests) == tests


RENAMED = {"shop.py": SHOP.replace("label", "describe"), "tests/test_shop.py": TESTS.replace("label", "describe")}


@pytest.mark.parametrize(
    ("edits", "question"),
    [
        ({}, None),
        (
            {
                "shop.py": RENAMED["shop.py"].replace("one {", "a {"),
                "tests/test_shop.py": RENAMED["tests/test_shop.py"].replace("one cat", "a cat"),
            },
            Reservation.TESTS_CHANGED,
        ),
    ],
    ids=["nothing else", "another expectation"],
)
async def test_a_rename_is_no_question_and_what_it_hides_is(
    project: Any, edits: dict[str, str], question: Reservation | None
) -> None:
    project.has({"shop.py": SHOP.split("\n\nclass", maxsplit=1)[0], "tests/test_shop.py": TESTS})
    result = {path: text.split("\n\nclass", maxsplit=1)[0] for path, text in {**RENAMED, **edits}.items()}
    judged = await project.judge(result, recipe="implement", checks=(PYTEST,))
    if question is None:
        assert judged.is_(Verdict.VERIFIED)
        assert "label is describe" in judged.notes
    else:
        assert judged.asks(question)
