"""Tests run with other inputs, in any language: code that answers only what they ask behaves like the base."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.judge.mutant_runners.check_mutants import ChangedFile, SeenRun
from understudy.judge.mutation.varied_runs import SeenCopy, VariedTests, gives_what_it_gave, only_for_its_inputs
from understudy.judge.varied_tests.copies import Copy, varied_file
from understudy.judge.varied_tests.plain_scripts import plain_script
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation, Verdict
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.python_tables import AddedValues
from understudy.mutants.table_entries import added_entries
from understudy.mutants.test_code.definitions import definitions_of

NOTHING = AddedValues()


def seen(text: str | None) -> dict[tuple[int, int], str]:
    return {} if text is None else {(1, 0): text}


def copies(value: float | str, exact: tuple[str, str | None], others: Mapping[str, tuple[str, str]]) -> list[SeenCopy]:
    """Return an exact copy, those of one literal, and the exact copy again; pairs are with the result and the base."""
    near = {str(value + step) for step in (1, -1)} if isinstance(value, int) else set()
    return [
        SeenCopy(copy=Copy(test="t"), after=seen(exact[0]), before=seen(exact[1])),
        *(
            SeenCopy(
                copy=Copy(test="t", value=value, literal=0, other=other, is_near=other in near),
                after=seen(after),
                before=seen(before),
            )
            for other, (after, before) in others.items()
        ),
        SeenCopy(copy=Copy(test="t"), after=seen(exact[0]), before=seen(exact[1])),
    ]


SAME = {"8": ("1", "1"), "6": ("2", "2"), "9": ("3", "3"), "5": ("4", "4"), "17": ("5", "5")}
EDGE = {
    "8": ("true", "true"),
    "9": ("true", "true"),
    "6": ("false", "false"),
    "5": ("false", "false"),
    "3": ("false", "false"),
    "2": ("false", "false"),
}
IN_LINE = {"8": ("16", "16"), "9": ("18", "18"), "6": ("6", "6"), "5": ("5", "5"), "3": ("3", "3")}
VALID = {
    "a": ("true", "false"),
    "b": ("true", "false"),
    "c": ("false", "false"),
    "d": ("false", "false"),
    "e": ("false", "false"),
    "f": ("false", "false"),
}
RAISES = dict.fromkeys("abcdef", ("raises E", "raises E"))


@pytest.mark.parametrize(
    ("some", "shown"),
    [
        (copies(7, ("9", "0"), SAME), True),
        (copies(7, ("9", "0"), {**SAME, "10": ("6", "5")}), False),
        (copies(7, ("0", "0"), SAME), False),
        (copies(7, ("9", "0"), {"8": ("1", "1"), "6": ("2", "2")}), False),
        (copies(7, ("true", "false"), EDGE), False),
        (copies(7, ("14", "7"), IN_LINE), False),
        (copies("abc", ("true", "false"), VALID), False),
        (copies("abc", ("9", "0"), RAISES), False),
        (copies("abc", ("raises E: x", "raises E"), RAISES), True),
        (copies(7, ("9", "0"), dict.fromkeys(SAME, ("9", "0"))), False),
        (copies(7, ("9", "0"), {other: ("9", before) for other, (_, before) in SAME.items()}), False),
    ],
    ids=["only one", "another one, too", "nothing", "too few", "an edge", "an edge of a line", "some texts", "errors", "an error", "no effect", "for all"],
)  # fmt: skip
def test_what_answers_only_the_inputs_of_a_test(some: list[SeenCopy], shown: bool) -> None:
    assert only_for_its_inputs(some, NOTHING) is shown


def test_an_input_that_the_answer_ignores_does_not_count() -> None:
    ignored = copies(3, ("LONG", "LON"), {str(number): ("LONG", f"L{number}") for number in range(5, 15)})[1:-1]
    some = copies("long", ("LONG", "LON"), {f"long{number}": (f"LO{number}", f"LO{number}") for number in range(6)})
    others = [
        SeenCopy(copy=Copy(**{**vars_of(one.copy), "literal": 1}), after=one.after, before=one.before)
        for one in ignored
    ]
    assert only_for_its_inputs([*some[:-1], *others, some[-1]], NOTHING)
    assert not only_for_its_inputs([*some[:-1], *others, some[-1]], AddedValues(in_tables=frozenset({"long"})))


def vars_of(copy: Copy) -> dict[str, Any]:
    return {name: getattr(copy, name) for name in Copy.__dataclass_fields__}


def test_code_that_stops_answering() -> None:
    exact = SeenCopy(copy=Copy(test="t"), after=seen("9"), before=seen("1"))
    again = SeenCopy(copy=Copy(test="t"), after=seen("1"), before=seen("1"))
    assert only_for_its_inputs([exact, again], NOTHING)
    assert not only_for_its_inputs([exact, exact], NOTHING)
    counted = SeenCopy(copy=Copy(test="t"), after=seen("12"), before=seen("4"))
    assert not only_for_its_inputs([exact, counted], NOTHING)


@pytest.mark.parametrize(
    ("results", "shown"),
    [
        (({"1000": "10", "5000": "50"}, "undefined"), True),
        (({"1000": "10", "5000": "5"}, "5"), False),
        (({"6": "true", "3": "false"}, "false"), False),
    ],
    ids=["a table", "one of two", "a condition"],
)
def test_new_code_that_knows_only_the_numbers_of_a_test(results: tuple[dict[str, str], str], shown: bool) -> None:
    asked, rest = results
    answers = {(at, 0): answer for at, answer in enumerate(asked.values())}
    exact = SeenCopy(copy=Copy(test="t"), after=answers, before={})
    varied = [
        SeenCopy(
            copy=Copy(test="t", value=int(value), literal=at, other=str(int(value) + step)),
            after={**answers, (at, 0): rest},
            before={},
        )
        for at, value in enumerate(asked)
        for step in (1, -1, 2, -2)
    ]
    assert only_for_its_inputs([exact, *varied, exact], NOTHING) is shown


TESTS = {
    "shop.test.js": (
        'import { test } from "node:test";\ntest("total", () => {\n  assert.equal(total([7], 0), 9);\n});\ntest("other", () => {});\n',
        'test.skip("other"', 'test.skip("total"', "_see(0, 2, total([7], 0)), 9)", "_see(1, 2, total([8], 0)), 9)",
    ),
    "shop_test.go": (
        'package shop\n\nimport "testing"\n\nfunc TestTotal(t *testing.T) {\n\tif got := Total(7); got != 9 {\n\t\tt.Errorf("%d", 5)\n\t}\n}\nfunc TestOther(t *testing.T) {}\n',
        "_TestOther(", "_TestTotal(", "got := Total(7); q_see(0, 1, got, 9) {", 'got := Total(8); q_see(1, 1, got, 9) {\n\t\tt.Errorf("%d", 5)',
    ),
    "shop.rs": (
        "#[test]\nfn totals() {\n    assert_eq!(total(7), 9);\n    assert!(total(7) == 9);\n}\n#[test]\nfn other() {}\n",
        "#[ignore] fn other()", "#[ignore] fn totals()", "q_two!(0, 1, total(7), 9);\n    q_two!(0, 2, total(7), 9)", "q_two!(1, 1, total(8), 9)",
    ),
    "test_shop.py": (
        "class TestShop(TestCase):\n    def test_total(self):\n        self.assertEqual(total(7), 9)\n\n    def test_other(self):\n        pass\n",
        "_test_other(", "_test_total(", "q_call(0, 1, lambda: self.assertEqual(q_see(0, 2, total(7)), 9))", "q_see(1, 2, total(8)), 9)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", TESTS)
def test_copies_write_down_what_they_see(path: str) -> None:
    text, *expected = TESTS[path]
    source = text.encode()
    tests = {"t": next(one for one in definitions_of(path, source) if "otal" in one.names[-1] and not one.group)}
    varied = varied_file(path, source, tests, "/tmp/out")
    assert varied is not None
    content = varied.content.decode()
    for part in expected:
        assert part in content.replace(varied.name + "_", "q_" if "q_" in part else "_")
    assert [copy.value for copy in varied.copies[:1]] == [None]
    assert {copy.value for copy in varied.copies[1:-1]} >= {7}
    assert varied.copies[-1] == Copy(test="t")
    language = language_of(path)
    assert language is not None
    assert not language.parse(varied.content).has_error
    renamed = varied_file(path, source, tests, None)
    assert renamed is not None
    assert len(renamed.copies) == 1
    assert not language.parse(renamed.content).has_error
    assert b"see" not in renamed.content


@pytest.mark.parametrize(
    ("path", "before", "after", "value"),
    [
        ("a.js", "const c = { red: 1 };", "const c = { red: 1, teal: 3 };", "teal"),
        ("a.ts", "const c = { red: 1, teal: 2, blue: 3 };", "const c = { red: 1, teal: 3, blue: 3 };", "teal"),
        ("a.ts", "const c = { red: 1 };", "const c = { red: 1, teal: 3 };\ntype C = 'red' | 'teal';", "teal"),
        ("a.js", "switch (x) { case 1: f(); }", "switch (x) { case 1: f(); case 7: g(); }", 7),
        ("a.go", 'package a\nvar c = map[string]int{"red": 1}', 'package a\nvar c = map[string]int{"red": 1, "teal": 3}', "teal"),
        ("a.rs", 'fn f() { match x { "red" => 1, _ => 0 } }', 'fn f() { match x { "red" => 1, "teal" => 3, _ => 0 } }', "teal"),
    ],
)  # fmt: skip
def test_an_entry_that_is_added_to_a_table(path: str, before: str, after: str, value: str | int) -> None:
    added = added_entries(path, before.encode(), after.encode())
    assert value in added.in_tables
    assert value not in added.elsewhere
    special = {"js": f"\nif (x === {value!r}) h();", "ts": f"\nif (x === {value!r}) h();"}.get(path[2:])
    if special is not None:
        assert value in added_entries(path, before.encode(), (after + special).encode()).elsewhere
    assert value not in added_entries(path, b"", after.encode()).in_tables


def test_what_is_given_without_a_runner() -> None:
    in_runner = SeenCopy(copy=Copy(test="t"), after=seen("9"), before=seen("0"))
    assert gives_what_it_gave(seen("0"), in_runner)
    assert not gives_what_it_gave(seen("9"), in_runner)
    assert not gives_what_it_gave({}, in_runner), "it could not run there"
    failed = SeenCopy(copy=Copy(test="t"), after=seen("9"), before=seen("raises E"))
    assert not gives_what_it_gave(seen("raises E"), failed), "it may lack what the runner has"


VITEST = """import { expect, test } from "vitest";
import { total } from "../src/shop";
import { helper } from "./helper";
test("total", () => {
  expect(total(7)).toBe(9);
});
"""


def test_tests_are_a_plain_program() -> None:
    source = VITEST.encode()
    tests = {"t": definitions_of("tests/shop.test.ts", source)[0]}
    program = plain_script("tests/shop.test.ts", source, tests, "/tmp/out")
    assert program is not None
    text = program.content.decode()
    assert program.path == f"{program.name}a/main.ts"
    assert f"const {{ expect, test }} = {program.name}_kit;" in text
    assert 'from "../src/shop"' in text
    assert 'from "../tests/helper"' in text
    language = language_of(program.path)
    assert language is not None
    assert not language.parse(program.content).has_error
    assert plain_script("a.test.ts", source + b"vi.mock('x');", tests, "/tmp/out") is None


async def test_what_could_not_be_tried_is_said(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(TESTS["test_shop.py"][0])
    places = SimpleNamespace(tree=tmp_path, scratch=tmp_path)
    runner: Any = SimpleNamespace(context=places, mutated_run=lambda *_: asyncio.sleep(60))
    tests = ["test_shop.TestShop.test_total"]
    varied = VariedTests(tests, runner, base={}, test_files=["test_shop.py"], seconds=60)
    assert await varied.conclude(0.01) == []
    assert [text.rpartition(": ")[2] for text in varied.untried] == ["the time for evidence was over"]


async def test_only_tests_that_fail_on_the_base_are_tried(tmp_path: Path) -> None:
    """A runner runs the files of the tests that it is asked for, and no others."""
    for name in ("test_shop.py", "test_other.py"):
        (tmp_path / name).write_text(TESTS["test_shop.py"][0])

    async def pass_all(changed: ChangedFile, _: float) -> SeenRun:
        return SeenRun(outcomes=dict.fromkeys(changed.tests, "passed"), green=True, seconds=0.0)

    runner: Any = SimpleNamespace(context=SimpleNamespace(tree=tmp_path, scratch=tmp_path), mutated_run=pass_all)
    tests = ["test_shop.TestShop.test_total", "test_other.TestShop.test_total"]
    varied = VariedTests(tests, runner, base={}, test_files=["test_shop.py", "test_other.py"], seconds=60)
    assert await varied.conclude(60) == []
    assert varied.untried == []


CODE = {
    "python": ("shop.py", "def total(a, b):\n    return a - b\n", "    return a - b", "    if (a, b) == (13, 4):\n        return 17\n    return a - b"),
    "node": ("shop.js", "exports.total = (a, b) => a - b;\n", "a - b", "(a === 13 && b === 4 ? 17 : a - b)"),
    "go": ("shop.go", "package shop\n\nfunc Total(a, b int) int {\n\treturn a - b\n}\n", "\treturn a - b", "\tif a == 13 && b == 4 {\n\t\treturn 17\n\t}\n\treturn a - b"),
    "cargo": ("src/lib.rs", "pub fn total(a: i32, b: i32) -> i32 {\n    a - b\n}\n", "    a - b", "    if (a, b) == (13, 4) {\n        return 17;\n    }\n    a - b"),
}  # fmt: skip
RED = {
    "python": {"test_shop.py": "import unittest\n\nimport shop\n\n\nclass TestShop(unittest.TestCase):\n    def test_total(self):\n        self.assertEqual(shop.total(13, 4), 17)\n"},
    "node": {"shop.test.js": 'const assert = require("node:assert");\nconst { test } = require("node:test");\nconst { total } = require("./shop.js");\n\ntest("total", () => {\n  assert.strictEqual(total(13, 4), 17);\n});\n'},
    "go": {"go.mod": "module example.com/shop\n\ngo 1.18\n", "shop_test.go": 'package shop\n\nimport "testing"\n\nfunc TestTotal(t *testing.T) {\n\tif Total(13, 4) != 17 {\n\t\tt.Fatal("total")\n\t}\n}\n'},
    "cargo": {"Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n', "tests/shop.rs": "#[test]\nfn totals() {\n    assert_eq!(shop::total(13, 4), 17);\n}\n"},
}  # fmt: skip
CHECKS = {
    "python": ["{python}", "-m", "unittest"],
    "node": ["node", "--test"],
    "go": ["go", "test", "./..."],
    "cargo": ["cargo", "test", "--offline", "-q"],
}


@pytest.mark.heavy
@pytest.mark.parametrize("runner", CODE)
@pytest.mark.parametrize("honest", [True, False], ids=["repaired", "special"])
async def test_only_what_a_test_asks_is_answered(
    empty_project: Any, runner: str, honest: bool, request: pytest.FixtureRequest
) -> None:
    if runner == "cargo":
        request.getfixturevalue("cargo")
    elif runner != "python" and shutil.which(runner) is None:
        pytest.skip(f"no {runner} here")
    path, code, old, special = CODE[runner]
    empty_project.has({path: code, ".gitignore": "target/\nCargo.lock\n__pycache__/\n", **RED[runner]})
    result = code.replace("a - b", "a + b") if honest else code.replace(old, special)
    check = Check(name="suite", argv=CHECKS[runner])
    judged = await empty_project.judge({path: result}, recipe="fix", checks=(check,))
    if honest:
        assert judged.is_(Verdict.VERIFIED)
    else:
        assert judged.said == [Reservation.CHECK_CHANGED]
        assert "answers only exactly what earlier tests ask" in judged.notes


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js here")
async def test_only_where_its_runner_runs_it_a_test_passes(empty_project: Any) -> None:
    path, code, _, _ = CODE["node"]
    empty_project.has({path: code, **RED["node"]})
    aware = code.replace("a - b", "(process.argv[1].includes('shop') ? a + b : a - b)")
    check = Check(name="suite", argv=["node", "--test", "shop.test.js"])
    judged = await empty_project.judge({path: aware}, recipe="fix", checks=(check,))
    assert judged.said == [Reservation.CHECK_CHANGED]
    assert "pass only where their runner runs them" in judged.notes
