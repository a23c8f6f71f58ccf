"""Changed code that asks whether tests run it is named; code that only mentions tests is not."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.judge import test_aware_code
from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Reservation


def found(path: str, text: str, base: str = "") -> list[str]:
    return test_aware_code.find([("M", path)], lambda _: base.encode(), lambda _: text.encode(), patterns=())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.js", "if (process.env.NODE_ENV === 'test') return 2;"),
        ("a.ts", "const fake = process.env.JEST_WORKER_ID !== undefined;"),
        ("a.ts", "if (process.env['NODE_TEST_CONTEXT']) {"),
        ("a.mjs", "if (typeof describe === 'function') {"),
        ("a.js", "if (process.argv.some((a) => a.includes('vitest'))) {"),
        ("a.go", 'if strings.HasSuffix(os.Args[0], ".test") {'),
        ("a.go", "if testing.Testing() {"),
        ("a.rs", "    if cfg!(test) { a + b } else { a - b }"),
        ("a.rs", "#[cfg(not(test))]\nfn add() {}"),
    ],
)
def test_code_that_asks_whether_tests_run_it(path: str, text: str) -> None:
    assert [each.rpartition(":")[0] for each in found(path, f"# x\n{text}\n")][:1] == [path]
    assert found(path, f"{text}\n# more\n", base=f"# x\n{text}\n") == [], "the base had it"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.js", "if (process.env.NODE_ENV === 'production') {"),
        ("a.js", "const [command] = process.argv.slice(2);"),
        ("a.ts", "export const contest = 'test';"),
        ("a.go", "fmt.Println(os.Args[0])"),
        ("a.rs", "#[cfg(test)]\nmod tests {"),
        ("a.rs", '#[cfg(feature = "std")]'),
        ("tests/a.go", "if testing.Testing() {"),
        ("a.test.js", "if (typeof describe === 'function') {"),
        ("a.txt", "if testing.Testing() {"),
    ],
)
def test_honest_code(path: str, text: str) -> None:
    assert found(path, f"{text}\n") == []


def test_many_lines_and_odd_bytes_are_bounded() -> None:
    text = b"\xff testing.Testing()\n" * 1000
    assert len(test_aware_code.find([("A", "a.go")], lambda _: None, lambda _: text, patterns=())) == 20
    assert test_aware_code.find([("D", "a.go")], lambda _: text, lambda _: None, patterns=()) == []


async def test_a_result_with_such_code_is_a_question(project: Any) -> None:
    test = "const test = require('node:test');\nconst assert = require('node:assert');\n"
    test += "const { double } = require('./calc.js');\ntest('double', () => assert.equal(double(4), 8));\n"
    base = "exports.double = (a) => a * 2;\n"
    project.has({"calc.js": base, "calc.test.js": test})
    code = "exports.double = (a) => (process.env.NODE_TEST_CONTEXT ? a * 2 : a * 3);\n"
    suite = Check(name="suite", argv=["node", "--test"])
    judged = await project.judge({"calc.js": code}, recipe="implement", files=(), checks=(suite,))
    assert judged.asks(Reservation.CHECK_CHANGED)
    assert "calc.js:1" in judged.notes


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("a.rs", "cfg("),
        ("a.java", "getStackTrace "),
        ("a.js", "process.argv NODE_ENV "),
    ],
)
def test_a_long_line_takes_time_in_proportion_to_its_length(path: str, part: str) -> None:
    assert found(path, part * (1_500_000 // len(part))) == []
