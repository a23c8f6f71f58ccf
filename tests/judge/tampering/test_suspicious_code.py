"""Lines that reach into a test runner or its process are named; ordinary ones are not."""

from __future__ import annotations

import pytest

from understudy.judge.tampering import suspicious_code


def named(
    files: dict[str, str], base: dict[str, str] | None = None, code: tuple[str, ...] = ("src/calc.py",)
) -> list[tuple[str, int, str]]:
    before = base or {}
    found = suspicious_code.find(
        [("M" if path in before else "A", path) for path in files],
        lambda path: before[path].encode() if path in before else None,
        lambda path: files[path].encode() if path in files else None,
        code=code,
    )
    return [(each.path, each.line, each.what) for each in found]


@pytest.mark.parametrize(
    "line",
    [
        "import _pytest.runner",
        "from _pytest import *",
        "from unittest import result",
        "import unittest.runner as r",
        "import pluggy",
        "import understudy_report",
        "import gc; gc.get_objects()",
        "import gc as g; x = g.get_objects",
        "from gc import get_objects as f; f()",
        "import sys; sys.modules['x']",
        "from sys import modules; modules['x']",
        "import sys; sys.settrace(f)",
        "import sys; sys.monitoring.use_tool_id(0, '')",
        "import inspect; inspect.stack()",
        "import inspect; inspect.getsource(f)",
        "open('/proc/self/environ')",
        "open(f'/proc/{pid}/mem')",
        "open('src/calc.py').read()",
        "import os; os._exit(0)",
        "import os; getattr(os, '_exit')(0)",
        "__import__('os')._exit(0)",
        "__import__(name)",
        "import importlib; importlib.import_module('_pytest.main')",
        "import atexit",
        "import ctypes",
        "import os; 'PYTEST_CURRENT_TEST' in os.environ",
        "request.config.pluginmanager.register(x)",
        "request.session.items[:] = []",
        "f.__closure__",
        "frame.f_back",
        "import calc; calc.__file__",
        "def pytest_runtest_makereport(item, call): pass",
        "def load_tests(loader, tests, pattern): pass",
        "exec(code)",
        "self._outcome.result.stop()",
        "import pytest; pytest.exit('x', returncode=0)",
    ],
)
def test_python(line: str) -> None:
    found = named({"tests/test_a.py": f"\n{line}\n"})
    assert found, "it is named"
    assert {(path, number) for path, number, _ in found} == {("tests/test_a.py", 2)}


@pytest.mark.parametrize(
    "line",
    [
        "process.exit(0);",
        "process['exit'](0);",
        "globalThis.process?.exit(0);",
        "process.exitCode = 0;",
        "process.on('exit', f);",
        "const { exit } = process;",
        "import { exit } from 'node:process';",
        "if (process.env.VITEST) {}",
        "Object.keys(process.env);",
        "const v = require('vitest/node');",
        "import { VitestRunner } from 'vitest/runners';",
        "const { Session } = require('node:inspector');",
        "const { run } = await import('jest-circus/runner');",
        "require.cache[x];",
        "fs.readFileSync('./calc.js');",
        "'JEST_WORKER_ID' in x;",
        "eval('1');",
        "new Function('return process')();",
    ],
)
@pytest.mark.parametrize("name", ["a.test.js", "src/__tests__/a.test.ts"])
def test_scripts(line: str, name: str) -> None:
    assert named({name: f"\n{line}\n"}, code=("calc.js",))


def test_other_languages() -> None:
    assert named({"a_test.go": "package a\nfunc TestMain(m *testing.M) { os.Exit(0) }\n"})
    assert named({"tests/a.rs": "std::process::exit(0);\n"})
    assert named({"src/test/java/ATest.java": "System.exit(0);\n"})


def test_ordinary_tests_are_not_named() -> None:
    python = '''
"""Tests of `calc`, see /proc and PYTEST_ADDOPTS in the manual."""
import os, sys, inspect, unittest, pytest
from pathlib import Path
from unittest import mock
from calc import add

DATA = Path(__file__).parent / "data" / "x.json"

@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.setenv("HOME", "/tmp")
    sys.path.insert(0, os.getcwd())

class T(unittest.TestCase):
    def test_it(self):
        assert inspect.signature(add).parameters
        with pytest.raises(SystemExit), mock.patch("os.environ", {}):
            add("exit", items=[1])
'''
    script = """
import { test, expect, vi } from "vitest";
import path from "node:path";
import { add } from "../src/add.ts";
const { sub } = require("../src/sub");
test("adds", async () => {
  process.env.NODE_ENV = "test";
  expect(process.cwd() + path.sep).toBe(await add(1, `x`));
});
"""
    assert (
        named(
            {
                "tests/test_a.py": python,
                "a.test.ts": script,
                "README.md": "os._exit /proc/self",
                "a_test.go": "t.Fatal()",
            },
            code=("src/add.ts", "src/sub.js"),
        )
        == []
    )


def test_only_added_lines_are_named() -> None:
    before = "import os\n\ndef test_a():\n    os._exit(0)\n"
    after = "import os\n# moved\n\ndef test_a():\n    os._exit(0)\n\ndef test_b():\n    os._exit(0)\n"
    assert [line for _, line, _ in named({"test_a.py": after}, {"test_a.py": before})] == [8]


def test_code_is_searched_for_internals_of_runners_only() -> None:
    source = "import os, sys\nimport _pytest\nos._exit(sys.argv)\n'PYTEST_VERSION' in os.environ\n"
    assert [line for _, line, _ in named({"src/pkg/main.py": source})] == [2, 4]
    assert [line for _, line, _ in named({"src/calc.py": source})] == [2, 4]


def test_input_is_bounded_and_may_be_malformed() -> None:
    assert len(named({"test_a.py": "import atexit\n" * 500})) == 100
    assert named({"test_a.py": "def (:\n  import atexit\n\x00\xff("})[0][1] == 2
    assert named({"test_a.py": "(" * 20_000 + "\n"}) == []
    assert named({"test_a.py": "x" * 3_000_000}) == []
