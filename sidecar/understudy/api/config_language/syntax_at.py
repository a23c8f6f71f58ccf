"""Find out whether a cursor is on a key, in a value, in a header, or where one of them could begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from understudy.api.config_language.text_positions import Text
from understudy.api.config_language.toml_scanner import Document, Entry, Header, Part, Path, Value


@dataclass(frozen=True)
class Cursor:
    """The syntax at a position."""

    kind: Literal["key", "value", "header", "statement"]
    """``statement``: an empty line, or one with a word on it, where a key or a header may be."""
    path: Path
    """Of a key or statement: the path of its table; of a value: its own path; of a header: the path of its table."""
    start: int
    end: int
    """A completion replaces the text from ``start`` to ``end``."""
    bare: bool = False
    """No equals sign and no value follow, so a completion inserts both."""
    after: str = ""
    """The separator that a completion has to end with, because another element follows."""
    part: Part | None = None
    value: Value | None = None
    header: Header | None = None
    array: Value | None = None
    """The array that contains the value, or would contain it."""


def find(content: Text, document: Document, offset: int) -> Cursor | None:
    """Return the syntax at ``offset``; None in a comment and where no key, value or header can be."""
    if not document.start <= offset <= document.end:
        return None
    if any(start < offset <= end for start, end in document.comments):
        return None
    header = document.header_before(offset)
    if header is not None and offset <= max(header.end, header.start + 1):
        part = next((part for part in header.parts if part.start <= offset <= part.end), None)
        return Cursor("header", header.path, header.start, header.end, part=part, header=header)
    for entry in header.entries if header is not None else document.root:
        if entry.start <= offset <= entry.end or _is_awaited(content, entry, offset):
            return _in_entry(content, entry, offset)
    line = content.text[max(content.line_start(offset), document.start) : offset]
    rest = content.text[offset : content.line_end(offset)].strip()
    if line.strip("\ufeff \t") or (rest and not rest.startswith("#")):
        return None
    return Cursor("statement", header.path if header is not None else (), offset, offset, bare=True)


def _is_awaited(content: Text, entry: Entry, offset: int) -> bool:
    """Return whether ``offset`` is where the missing value of an entry belongs."""
    return (
        entry.value is None
        and entry.equals is not None
        and entry.equals <= offset
        and not content.text[entry.equals : offset].strip(" \t")
    )


def _in_entry(content: Text, entry: Entry, offset: int) -> Cursor | None:
    for part in entry.parts:
        if part.start <= offset <= part.end:
            bare = part is entry.parts[-1] and entry.equals is None and _ends(content, part.end, inline=entry.inline)
            kind: Literal["key", "statement"] = "key" if entry.inline or not bare else "statement"
            if len(entry.parts) > 1:
                kind = "key"
            return Cursor(kind, part.path[:-1], part.start, part.end, bare=bare, part=part)
    if entry.value is None:
        if not _is_awaited(content, entry, offset) or not _ends(content, offset, inline=entry.inline):
            return None
        return Cursor("value", entry.path, offset, offset)
    if entry.value.start <= offset <= entry.value.end:
        return _in_value(content, entry.value, offset, None)
    return None


def _in_value(content: Text, value: Value, offset: int, array: Value | None) -> Cursor | None:
    if value.kind in {"string", "bare"}:
        return Cursor("value", value.path, value.start, value.end, value=value, array=array)
    if offset <= value.start or (value.closed and offset >= value.end):
        return None  # outside of the brackets
    for item in value.items:
        if item.start <= offset <= item.end:
            return _in_value(content, item, offset, value)
    for entry in value.entries:
        if entry.start <= offset <= entry.end or _is_awaited(content, entry, offset):
            return _in_entry(content, entry, offset)
    before = content.text[value.start : offset].rstrip()
    if not before or before[-1] not in "[{,":
        return None  # after a missing comma or a comment
    after = _separator(content, offset, value)
    if value.kind == "array":
        number = sum(item.end <= offset for item in value.items)
        return Cursor("value", (*value.path, number), offset, offset, after=after, array=value)
    return Cursor("key", value.path, offset, offset, bare=True, after=after)


def _separator(content: Text, offset: int, value: Value) -> str:
    """Return a comma if an element or entry follows without one, else an empty string."""
    following = [item.start for item in value.items] + [entry.start for entry in value.entries]
    later = [start for start in following if start >= offset]
    if not later or "," in content.text[offset : min(later)]:
        return ""
    return ", "


def _ends(content: Text, offset: int, *, inline: bool) -> bool:
    """Return whether the statement ends at ``offset``."""
    rest = content.text[offset : content.line_end(offset)].lstrip(" \t")
    return not rest or rest.startswith("#") or (inline and rest[0] in ",}]")
