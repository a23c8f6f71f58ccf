"""Test what is reported of tests that pytest cannot collect."""

from __future__ import annotations

from pathlib import Path

import pytest
from project_python import project_python

from understudy.judge.project import collected_tests
from understudy.judge.project.collected_tests import why_not_collected
from understudy.judge.project.interpreter import Interpreter, InterpreterFacts, describe


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> InterpreterFacts:
    return describe(Interpreter(Path(project_python()), ".venv"), neutral=tmp_path_factory.mktemp("neutral"))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, ""),
        ({"test_a.py": "def test_a(): assert False\n"}, ""),
        ({"test_a.py": "def test_a(): pass\n", "pytest.ini": "[pytest]\naddopts = --failed-first\n"}, ""),
        (
            {"test_a.py": "import json\nimport numerics_x\n"},
            "test_a.py:2 cannot be loaded: numerics_x is not installed",
        ),
        ({"test_a.py": "1 +\n"}, "pytest cannot collect the tests: "),
        ({"pytest.ini": "[pytest]\naddopts = --no-such\n"}, "pytest cannot collect the tests: "),
    ],
    ids=[
        "no tests",
        "tests that fail",
        "an option that needs the cache",
        "a missing module",
        "a syntax error",
        "an unknown option",
    ],
)
def test_what_keeps_pytest_from_collecting_is_named(
    tmp_path: Path, facts: InterpreterFacts, files: dict[str, str], why: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name, text in files.items():
        (project / name).write_text(text)
    found = why_not_collected(project, facts, tmp_path)
    assert found is None if not why else found is not None and found[0].startswith(why)
    assert {path.name for path in project.iterdir()} == set(files), "nothing is written"


def test_a_suite_that_takes_too_long_to_collect_lacks_nothing(
    tmp_path: Path, facts: InterpreterFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_a.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(collected_tests, "SECONDS", 1.0)
    assert why_not_collected(tmp_path, facts, tmp_path) is None
