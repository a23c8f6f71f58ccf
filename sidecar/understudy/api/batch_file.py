"""Read the tasks of a batch: a TOML file with ``[[tasks]]``, or one JSON object on each line.

A TOML file has the fields of ``groups/start`` in snake_case, a line those of one of its tasks. Paths may be relative to
a folder. Every problem has its place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from understudy.api.messages import GroupStartParams
from understudy.config.findings import LocatedFinding, near
from understudy.config.parsing import file_schema
from understudy.config.parsing.source_file import MAX_BYTES, Source, unusable_value
from understudy.model.config.delegators import Limits
from understudy.model.delegation.delegations import GroupTask, LaunchOverride
from understudy.model.errors import ErrorKind, Location, Position, Range, UnderstudyError
from understudy.model.text import path_quoting
from understudy.model.wire import ready

MOST_BYTES = 32 * MAX_BYTES
"""The largest file: tasks may contain text to work on."""
_SHOWN = 20
_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]*)`(?: - at `(?P<path>[^`]*)`)?")
_LIST_FIELDS = ("files", "context_files")
_PATH_FIELDS = ("target", "workspace")


@dataclass(frozen=True)
class BatchFile:
    """The tasks of a file, and the places of them."""

    params: GroupStartParams
    places: list[Location]
    source: Source | None = None
    """The text, if it has the place of each field, too."""

    def locate(self, error: UnderstudyError) -> UnderstudyError:
        """Add its place in the file to an error about a task (``tasks[N]`` in ``parameter``)."""
        number, _, rest = (error.parameter or "").removeprefix("tasks[").partition("]")
        if error.location is None and number.isdecimal() and int(number) < len(self.places):
            error.location = self.places[int(number)]
            field = rest.removeprefix(".").partition(".")[0]
            if self.source is not None and field:
                error.location = self.source.location(self.source.where(("tasks", int(number), field)))
        return error


def read(data: bytes, path: Path, folder: Path) -> BatchFile:
    """Decode the content of ``path``; relative paths in it start in ``folder``.

    Raises ``invalid_params`` with the first problem and its place; ``names`` has the others.
    """
    if len(data) > MOST_BYTES:
        raise UnderstudyError(
            ErrorKind.FILE_TOO_LARGE, f"{path} has more than {MOST_BYTES} bytes.", hint="Start several batches."
        )
    problems: list[LocatedFinding] = []
    source = Source(path, data)
    is_toml = path.suffix == ".toml" if path.suffix else not data.lstrip().startswith(b"{")
    params, places = _toml(source, problems) if is_toml else _lines(source, problems)
    if not problems and not params.tasks:
        problems.append(source.problem("The file has no tasks.", hint="Add one: [[tasks]], or a line of JSON."))
    if problems:
        first, *others = problems
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            first.message,
            hint=first.hint,
            location=first.location,
            names=[_described(problem) for problem in others[:_SHOWN]] or None,
        )
    return BatchFile(
        msgspec.structs.replace(
            params, tasks=[msgspec.structs.replace(task, **dict(_paths(task, folder))) for task in params.tasks]
        ),
        places,
        source if is_toml else None,
    )


def _toml(source: Source, problems: list[LocatedFinding]) -> tuple[GroupStartParams, list[Location]]:
    value, wrong = source.parse()
    problems += wrong
    params = None if value is None else file_schema.decode(value, GroupStartParams, source, (), problems)
    if params is None:
        return GroupStartParams(tasks=[]), []
    return params, [source.location(source.where(("tasks", number))) for number in range(len(params.tasks))]


def _lines(source: Source, problems: list[LocatedFinding]) -> tuple[GroupStartParams, list[Location]]:
    tasks, places = [], []
    for number, line in enumerate(source.data.split(b"\n")):
        if not line.strip():
            continue
        at = Range(Position(number, 0), Position(number, 0))
        try:
            value: Any = msgspec.json.decode(line)
            if (unusable := unusable_value(value)) is not None:
                raise msgspec.ValidationError(f"A value {unusable[1]}")  # noqa: TRY301 - as msgspec does for others
            tasks.append(msgspec.convert(value, ready(GroupTask)))
            places.append(source.location(at))
        except msgspec.ValidationError as error:
            hint = _suggested(str(error)) or "See protocol/README.md for the fields of a task."
            problems.append(source.problem(f"{error}.", hint=hint, at=at, code="wrong_type"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problems.append(source.problem(f"{error}.", hint="Each line is one JSON object.", at=at, code="syntax"))
    return GroupStartParams(tasks=tasks), places


def _suggested(message: str) -> str | None:
    """Return a hint for the unknown field that msgspec names, None for any other problem."""
    match = _UNKNOWN.search(message)
    if match is None:
        return None
    declared: Any = Limits if match["path"] == "$.limits" else LaunchOverride if match["path"] == "$.launch" else None
    if declared is None and match["path"]:
        return None
    return near(match["name"], (field.encode_name for field in msgspec.structs.fields(declared or GroupTask)))


def _described(problem: LocatedFinding) -> str:
    line = "" if problem.location is None else f"line {problem.location.range.start.line + 1}: "
    return line + problem.message


def _paths(task: GroupTask, folder: Path) -> Iterator[tuple[str, Any]]:
    for name in _LIST_FIELDS:
        value = getattr(task, name)
        if value is not None:
            yield name, [_uri(text, folder) for text in value]
    for name in _PATH_FIELDS:
        value = getattr(task, name)
        if value is not None:
            yield name, _uri(value, folder)


def _uri(text: str, folder: Path) -> str:
    return text if text.startswith("file:") else path_quoting.uri_of(folder / Path(text).expanduser())
