"""A batch file is decoded by the declarations of the protocol; every problem has its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.api import batch_file
from understudy.model.errors import ErrorKind, UnderstudyError

TOML = b"""\
[budget]
max_usd = "2.50"

[[tasks]]
recipe = "tests"
files = ["src/a.py", "file:///elsewhere/b.py"]
context_files = ["notes.md"]
limits = { max_turns = 20 }

[[tasks]]
recipe = "docs"
delegator = "claude"
"""
LINES = b'{"recipe": "tests", "files": ["src/a.py"]}\n\n{"recipe": "docs", "contextFiles": ["notes.md"]}\n'


def read(data: bytes, name: str = "tasks.toml") -> batch_file.BatchFile:
    return batch_file.read(data, Path("/project") / name, Path("/project"))


def refused(data: bytes, name: str = "tasks.toml") -> UnderstudyError:
    with pytest.raises(UnderstudyError) as caught:
        read(data, name)
    assert caught.value.kind is ErrorKind.INVALID_PARAMS
    return caught.value


def line_of(error: UnderstudyError) -> int:
    assert error.location is not None
    return error.location.range.start.line + 1


@pytest.mark.parametrize("name", ["tasks.toml", "stdin"])
def test_a_toml_file_has_tasks_and_a_budget(name):
    found = read(TOML, name).params
    first, second = found.tasks
    assert first.files == ["file:///project/src/a.py", "file:///elsewhere/b.py"]
    assert first.context_files == ["file:///project/notes.md"]
    assert first.limits is not None
    assert first.limits.max_turns == 20
    assert (second.recipe, second.delegator) == ("docs", "claude")
    assert found.budget is not None
    assert found.budget.max_usd == "2.50"


@pytest.mark.parametrize("name", ["tasks.jsonl", "stdin"])
def test_each_line_of_json_is_a_task(name):
    found = read(LINES, name)
    assert [task.recipe for task in found.params.tasks] == ["tests", "docs"]
    assert found.params.tasks[1].context_files == ["file:///project/notes.md"]
    error = found.locate(UnderstudyError(ErrorKind.UNKNOWN_RECIPE, "No.", parameter="tasks[1].recipe"))
    assert line_of(error) == 3, "empty lines count"


def test_an_error_of_a_start_gets_the_place_of_its_task():
    error = read(TOML).locate(UnderstudyError(ErrorKind.UNKNOWN_DELEGATOR, "No.", parameter="tasks[1]"))
    assert line_of(error) == 10
    assert read(TOML).locate(UnderstudyError(ErrorKind.DISK_FULL, "Full.")).location is None


@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        (TOML.replace(b"delegator =", b"delegatr ="), 12, "Unknown key `delegatr`"),
        (TOML.replace(b"max_turns = 20", b'max_turns = "20"'), 8, "max_turns"),
        (TOML.replace(b'recipe = "docs"\n', b""), 10, "recipe"),
        (b"[[tasks]\n", 1, "not TOML"),
        (b"", 1, "`tasks` is missing"),
        (b"tasks = []", 1, "no tasks"),
        (b"\xff", 1, "UTF-8"),
    ],
)
def test_a_problem_in_a_toml_file_has_its_line(data, line, says):
    error = refused(data)
    assert line_of(error) == line
    assert says in error.message


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b'{"recipe": "tests"', "truncated"),
        (b'{"recipe": 1}', "Expected `str`"),
        (b'{"recipe": "tests", "max_turns": 1}', "unknown field `max_turns`"),
        (b"[1]", "array"),
        (b'"x"', "Expected `object`"),
        (b"[" * 100_000, ""),
        (b'{"recipe": "\xff"}', "utf-8"),
    ],
)
def test_a_problem_in_lines_of_json_has_its_line(bad, says):
    error = refused(LINES + bad + b"\n" + bad, "tasks.jsonl")
    assert line_of(error) == 4
    assert says.lower() in error.message.lower()
    assert error.names is not None
    assert error.names[0].startswith("line 5: ")


def test_a_file_that_is_too_large_is_not_decoded():
    with pytest.raises(UnderstudyError) as caught:
        read(b" " * (batch_file.MOST_BYTES + 1))
    assert caught.value.kind is ErrorKind.FILE_TOO_LARGE


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (b'{"recipe": "docs", "delegater": "claude"}', "Did you mean `delegator`?"),
        (b'{"recipe": "docs", "context_files": []}', "Did you mean `contextFiles`?"),
        (b'{"recipe": "docs", "limits": {"maxTurn": 3}}', "Did you mean `maxTurns`?"),
        (b'{"recipe": "docs", "launch": {"modell": "x"}}', "Did you mean `model`?"),
    ],
)
def test_an_unknown_field_of_a_line_suggests_the_known_one(line: bytes, hint: str) -> None:
    assert refused(line, "tasks.jsonl").hint == hint


def test_a_task_that_comes_after_others_has_the_line_of_its_field():
    data = b'[[tasks]]\nname = "a"\nrecipe = "docs"\n\n[[tasks]]\nrecipe = "docs"\nafter = ["a"]\n'
    found = read(data)
    assert [(task.name, task.after) for task in found.params.tasks] == [("a", None), (None, ["a"])]
    error = found.locate(UnderstudyError(ErrorKind.INVALID_PARAMS, "No.", parameter="tasks[1].after"))
    assert line_of(error) == 7
    lines = read(b'{"recipe": "docs", "name": "a"}\n{"recipe": "docs", "after": ["a"]}\n', "tasks.jsonl")
    error = lines.locate(UnderstudyError(ErrorKind.INVALID_PARAMS, "No.", parameter="tasks[1].after"))
    assert line_of(error) == 2
