"""Calls of tests are recorded and repeated, and what they do reaches nothing outside of the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from understudy.judge.injected import understudy_calls
from understudy.judge.injected.understudy_lines import Lines

CODE = """
class Odd(int):
    def __eq__(self, other):
        return True
    __hash__ = int.__hash__


class Box:
    def __init__(self, value):
        self.value = value

    def total(self, *more, factor=1):
        return Odd((self.value + sum(more)) * factor)

    @staticmethod
    def write(path):
        with open(path, "w") as stream:
            stream.write("changed")


def fails(text):
    raise KeyError(text)


def counts(most):
    yield from range(most)


def opaque(function):
    return function()
"""


def recorded(folder: Path, monkeypatch: Any, run: str) -> Path:
    """Record what ``run`` calls in the code, as a test would."""
    (folder / "code_of_project.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "code_of_project", raising=False)
    recorder = understudy_calls.CallRecorder(str(folder), [])
    lines = Lines([])
    lines.on_call = recorder.called
    before = sys.gettrace()
    lines.begin()
    try:
        lines.starts("test")
        exec(run)  # noqa: S102
    finally:
        lines.end()
        sys.settrace(before)
    recorder.save(str(folder / "calls"))
    return folder / "calls"


def repeated(calls: Path) -> list[list[str]]:
    """Repeat the calls in a program of its own."""
    out = calls.with_name("out")
    run = "lambda function, positional, by_name: function(*positional, **by_name)"
    program = f"import understudy_calls\nunderstudy_calls.repeat({str(calls)!r}, {str(out)!r}, {run})\n"
    (calls.parent / "app.py").write_text(program)
    injected = Path(understudy_calls.__file__).parent
    environment = {"PYTHONPATH": str(injected), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, str(calls.parent / "app.py")], check=True, timeout=60, env=environment)
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_calls_are_repeated_with_the_same_arguments(tmp_path: Path, monkeypatch: Any) -> None:
    run = (
        "import code_of_project as code\n"
        "code.Box(2).total(3, factor=2)\n"
        "code.Box(2).total(3, factor=2)\n"
        "list(code.counts(3))\n"
        "try:\n    code.fails('a')\nexcept KeyError:\n    pass\n"
        "code.opaque(lambda: 3)\n"
    )
    calls = repeated(recorded(tmp_path, monkeypatch, run))
    assert calls[0] == [
        "code_of_project.Box.total",
        "Box(value=2), 3, factor=2",
        "Odd(10)",
    ], "its own methods do not count"
    assert ["code_of_project.counts", "3", "list(0, 1, 2)"] in calls
    assert ["code_of_project.fails", "'a'", "raises KeyError: list('a')"] in calls
    assert [name for name, _, _ in calls].count("code_of_project.Box.total") == 1
    assert not any(name == "code_of_project.opaque" for name, _, _ in calls), "its argument cannot be repeated"


def test_a_repeated_call_changes_nothing_outside(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "file"
    calls = recorded(tmp_path, monkeypatch, f"import code_of_project\ncode_of_project.Box.write({str(file)!r})\n")
    file.write_text("kept")
    ((name, _, result),) = repeated(calls)
    assert name == "code_of_project.Box.write"
    assert result.startswith("raises PermissionError")
    assert file.read_text() == "kept"
