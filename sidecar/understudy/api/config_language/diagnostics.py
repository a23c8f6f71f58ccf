"""Find the problems that loading a file would find if its text were saved now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from understudy.api.config_language.known_names import Known
from understudy.api.config_language.text_positions import Span, Text
from understudy.config.findings import Code, LocatedFinding
from understudy.config.locations import FileKind, place_of

MAX_FINDINGS = 200
"""Limit of findings for one file."""


@dataclass(frozen=True)
class Finding:
    """A problem or remark about a range of a file."""

    span: Span
    severity: Literal["error", "warning", "information"]
    message: str
    """What is wrong, then what to do about it."""
    code: Code
    suggestions: tuple[str, ...] = ()
    """Names or values that the user may have meant, the likeliest first; not quoted."""
    path: tuple[str | int, ...] = ()
    """The path of the key or value that the finding is about, with the names that the file uses."""


def kind_of(path: Path) -> FileKind | None:
    """Return the kind of configuration file at a path, which need not exist; None for other files."""
    place = place_of(path) if path.is_absolute() else None
    return place[0] if place else None


def diagnostics(kind: FileKind, path: Path, text: str, known: Known) -> list[Finding]:
    """Return the findings for ``text`` as the content of ``path``, in order of position.

    ``known`` has the other files. There are no findings if ``path`` is not a file of this kind.
    """
    if kind_of(path) is not kind:
        return []
    content = Text(text)
    return [_finding(remark, content) for remark in known.snapshot.remarks(path, content.data)[:MAX_FINDINGS]]


def _finding(remark: LocatedFinding, content: Text) -> Finding:
    start, end = 0, 0
    if remark.location is not None:
        where = remark.location.range
        start = content.from_utf16(where.start.line, where.start.character)
        end = max(start, content.from_utf16(where.end.line, where.end.character))
    if start == end:
        start, end = _visible(content, start)
    return Finding(
        span=content.span(start, end),
        severity=remark.severity,
        message=f"{remark.message} {remark.hint}" if remark.hint else remark.message,
        code=remark.code,
        suggestions=tuple(remark.names),
        path=remark.about,
    )


def _visible(content: Text, offset: int) -> tuple[int, int]:
    """Return a non-empty range to underline for a finding without one: the rest of the line, or the whole line."""
    line_end = content.line_end(offset)
    rest = content.text[offset:line_end].rstrip()
    if rest:
        return offset, offset + len(rest)
    start = content.line_start(offset)
    line = content.text[start:line_end]
    indent = len(line) - len(line.lstrip())
    return (start + indent, start + len(line.rstrip())) if line.strip() else (offset, offset)
