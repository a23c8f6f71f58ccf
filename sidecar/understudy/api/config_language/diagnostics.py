"""What is wrong with the text of a file, as a load would say if it were saved now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from understudy.config.folders import FileKind, place_of
from understudy.config.sources import Code, Remark
from understudy.faces.lsp.own_files.known import Known
from understudy.faces.lsp.own_files.text import Span, Text

MAX_FINDINGS = 200
"""Shown in one file; who has more repairs some of them first."""


@dataclass(frozen=True)
class Finding:
    """Something wrong with a file, or worth saying about it."""

    span: Span
    severity: Literal["error", "warning", "information"]
    message: str
    """What is wrong, then what to do about it."""
    code: Code
    suggestions: tuple[str, ...] = ()
    """Names or values that may have been meant, the likeliest first; not quoted."""
    path: tuple[str | int, ...] = ()
    """The way to what it is about, in the file's spelling."""


def kind_of(path: Path) -> FileKind | None:
    """Return which of Understudy's own files a path is; ``None``: none of them. The file need not exist."""
    place = place_of(path) if path.is_absolute() else None
    return place[0] if place else None


def diagnostics(kind: FileKind, path: Path, text: str, known: Known) -> list[Finding]:
    """Return everything that is wrong with ``text`` as the content of ``path``, by place.

    The other files are taken from ``known``. A path that is none of Understudy's files, or of another kind,
    has no findings.
    """
    if kind_of(path) is not kind:
        return []
    content = Text(text)
    return [_finding(remark, content) for remark in known.snapshot.remarks(path, content.data)[:MAX_FINDINGS]]


def _finding(remark: Remark, content: Text) -> Finding:
    start, end = 0, 0
    if remark.location is not None:
        where = remark.location.range
        start = content.from_utf16(where.start.line, where.start.character)
        end = max(start, content.from_utf16(where.end.line, where.end.character))
    if start == end:
        start, end = _seen(content, start)
    return Finding(
        span=content.span(start, end),
        severity=remark.severity,
        message=f"{remark.message} {remark.hint}" if remark.hint else remark.message,
        code=remark.code,
        suggestions=tuple(remark.names),
        path=remark.about,
    )


def _seen(content: Text, offset: int) -> tuple[int, int]:
    """Return a stretch that can be seen for a problem that has a place only: the rest of the line, else all of it."""
    line_end = content.line_end(offset)
    rest = content.text[offset:line_end].rstrip()
    if rest:
        return offset, offset + len(rest)
    start = content.line_start(offset)
    line = content.text[start:line_end]
    indent = len(line) - len(line.lstrip())
    return (start + indent, start + len(line.rstrip())) if line.strip() else (offset, offset)
