"""Find the problems of a configuration file's unsaved text: those that ``load`` would report if it were saved.

The other files are those of an ``loader.Snapshot``. Nothing here writes a file or reads one of an untrusted workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from understudy.config.findings import Code
from understudy.config.loading.loader import Snapshot, snapshot
from understudy.config.locations import place_of
from understudy.config.parsing.file_syntax import utf16
from understudy.model.errors import Position, Range

__all__ = ["Diagnostic", "Snapshot", "diagnostics", "is_config_file", "snapshot"]

MAX_DIAGNOSTICS = 200
"""Limit for one file."""


@dataclass(frozen=True)
class Diagnostic:
    """A problem or remark about a range of a file."""

    range: Range
    severity: Literal["error", "warning", "information"]
    message: str
    """What is wrong, then what to do about it."""
    code: Code


def is_config_file(path: Path) -> bool:
    """Return whether a path, which need not exist, is that of one of Understudy's configuration files."""
    return path.is_absolute() and place_of(path) is not None


def diagnostics(path: Path, text: str, files: Snapshot) -> list[Diagnostic]:
    """Return what is wrong with ``text`` as the content of ``path``, in order of position; ``files`` has the others."""
    data = text.encode("utf-8", "replace")  # half a character cannot be encoded
    return [
        Diagnostic(
            range=_visible(remark.location.range, text),
            severity=remark.severity,
            message=f"{remark.message} {remark.hint}" if remark.hint else remark.message,
            code=remark.code,
        )
        for remark in files.remarks(path, data)[:MAX_DIAGNOSTICS]
        if remark.location is not None
    ]


def _visible(where: Range, text: str) -> Range:
    """Return a range that can be underlined: of an empty one, the rest of its line, its line, or the text above it."""
    start, end = where.start, where.end
    if start == end:
        lines = [line.rstrip() for line in text.removeprefix("\ufeff").split("\n")]
        row, column = start.line, start.character
        if column >= utf16(lines[row]):
            row = next((above for above in range(row, -1, -1) if lines[above]), row)
            column = len(lines[row]) - len(lines[row].lstrip())
        start, end = Position(row, column), Position(row, utf16(lines[row]))
    if text.startswith("\ufeff"):  # not part of the first line for ``config``, but for the editor that sent it
        start, end = (Position(at.line, at.character + (at.line == 0)) for at in (start, end))
    return Range(start, end)
