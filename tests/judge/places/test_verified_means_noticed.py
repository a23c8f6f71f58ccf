"""Whatever a result changes: if it is verified, undoing any of its functions is noticed, or makes no difference."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from understudy.model.evidence.checks import Check
from understudy.model.verdicts import Verdict

SUITE = Check(name="suite", argv=["{python}", "-m", "pytest", "-q"])
FUNCTIONS = {
    "clamp": "def clamp(a, b):\n    if a > b:\n        return b\n    return a\n",
    "scale": "def scale(a, b):\n    if b == 0:\n        return 0\n    total = a * b\n    return total + 1\n",
    "steps": "def steps(a, b):\n    count = 0\n    while a < b:\n        a += 2\n        count += 1\n    return count\n",
    "sign": "def sign(a, b):\n    if a < 0 and b < 0:\n        return -1\n    return 1\n",
}
TESTS = {
    "clamp": "assert clamp(3, 2) == 2\n    assert clamp(1, 2) == 1\n    assert clamp(2, 2) == 2",
    "scale": "assert scale(3, 2) == 7\n    assert scale(3, 0) == 0",
    "steps": "assert steps(0, 5) == 3\n    assert steps(5, 5) == 0",
    "sign": "assert sign(-1, -2) == -1\n    assert sign(0, -2) == 1\n    assert sign(-1, 0) == 1",
}
REFACTORED = {
    "clamp": "def clamp(a, b):\n    return min(a, b)\n",
    "scale": "def scale(a, b):\n    return a * b + 1 if b else 0\n",
    "steps": "def steps(a, b):\n    return max(0, (b - a + 1) // 2)\n",
    "sign": "def sign(a, b):\n    return -1 if a < 0 and b < 0 else 1\n",
}
INPUTS = list(itertools.product(range(-3, 11), repeat=2))


@dataclass
class Result:
    """Functions by name, and the assertions of their tests."""

    functions: dict[str, str]
    tests: dict[str, str]

    def files(self) -> dict[str, str]:
        code = "\n\n".join(self.functions.values())
        tests = "".join(f"\n\ndef test_{name}():\n    {text}\n" for name, text in self.tests.items())
        return {"calc.py": code, "test_calc.py": f"from calc import {', '.join(self.tests)}\n{tests}"}


def change_with_test(result: Result, name: str, number: int) -> None:
    result.functions[name] = result.functions[name].replace(
        "(a, b):\n", f"(a, b):\n    if a == {number}:\n        return {number} + b\n"
    )
    result.tests[name] += (
        f"\n    assert {name}({number}, 2) == {number + 2}\n    assert {name}({number}, 1) == {number + 1}"
    )


def change_without_test(result: Result, name: str, number: int) -> None:
    result.functions[name] = result.functions[name].replace(
        "(a, b):\n", f"(a, b):\n    if b > {number}:\n        return {number}\n"
    )


def half_tested_change(result: Result, name: str, number: int) -> None:
    change_with_test(result, name, number)
    result.functions[name] = result.functions[name].replace("(a, b):\n", "(a, b):\n    a = min(a, 1000)\n")


def refactoring(result: Result, name: str, number: int) -> None:
    result.functions[name] = REFACTORED[name]


def dropped_branch(result: Result, name: str, number: int) -> None:
    lines = result.functions[name].splitlines(keepends=True)
    result.functions[name] = "".join([lines[0], *lines[3:]]) if lines[1].startswith("    if") else "".join(lines)


def words(result: Result, name: str, number: int) -> None:
    result.functions[name] = result.functions[name].replace("(a, b):\n", f'(a, b):\n    """Say {number}."""\n')


def addition_with_test(result: Result, name: str, number: int) -> None:
    result.functions[f"{name}_more"] = f"def {name}_more(a, b):\n    return {name}(a, b) + {number}\n"
    result.tests[f"{name}_more"] = f"assert {name}_more(1, 2) == {name}(1, 2) + {number}"
    result.tests[name] = result.tests.pop(name)


def called_addition(result: Result, name: str, number: int) -> None:
    addition_with_test(result, name, number)
    result.tests[f"{name}_more"] = f"{name}_more(1, 2)"


HONEST: list[Callable[[Result, str, int], None]] = [change_with_test, refactoring, words, addition_with_test]
CHANGES = [*HONEST, change_without_test, half_tested_change, dropped_branch, called_addition]


def values(code: str, name: str) -> list[Any]:
    space: dict[str, Any] = {}
    exec(code, space)  # noqa: S102
    return [space[name](a, b) for a, b in INPUTS]


def is_noticed(result: Result, name: str, folder: Path) -> bool:
    """Return whether a test fails, or what the function does is the same, when it is as it was before."""
    functions = dict(result.functions)
    if name in FUNCTIONS:
        functions[name] = FUNCTIONS[name]
        undone = Result(functions, result.tests).files()
        if values(result.files()["calc.py"], name) == values(undone["calc.py"], name):
            return True
    else:
        functions[name] = f"def {name}(a, b):\n    return None\n"
        undone = Result(functions, result.tests).files()
    for path, text in undone.items():
        (folder / path).write_text(text)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(argv, cwd=folder, capture_output=True, check=False, timeout=60).returncode == 1


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(10))
async def test_a_verified_result_has_no_function_that_can_be_undone(project: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    base = Result(dict(FUNCTIONS), dict(TESTS))
    result = Result(dict(FUNCTIONS), dict(TESTS))
    only_honest = seed % 3 == 0
    changed = chance.sample(sorted(FUNCTIONS), 2)
    for name in changed:
        chance.choice(HONEST if only_honest else CHANGES)(result, name, chance.randint(7, 9))
    project.has(base.files())
    judged = await project.judge(result.files(), recipe="implement", checks=(SUITE,))
    folder = tmp_path / "undone"
    folder.mkdir()
    missed = [
        name
        for name, code in result.functions.items()
        if code != FUNCTIONS.get(name) and not is_noticed(result, name, folder)
    ]
    if judged.verdict is Verdict.VERIFIED:
        assert missed == []
    if only_honest:
        assert judged.verdict is Verdict.VERIFIED, judged.notes
