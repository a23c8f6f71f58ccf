r"""Text as an editor counts it: lines, characters, and the part of a file that is TOML.

Columns are code points everywhere in this folder; whoever speaks to a client converts them. Lines end
where LSP says they do: at ``\n``, ``\r\n`` and ``\r``.
"""

from __future__ import annotations

import bisect
import functools
import re
from dataclasses import dataclass

from understudy.config.folders import FileKind
from understudy.config.recipes import front_matter

_LINE_END = re.compile(r"\r\n|\r|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, order=True)
class Place:
    """A place between two characters, both counted from 0; ``character`` in code points."""

    line: int
    character: int


@dataclass(frozen=True)
class Span:
    """From ``start`` up to, not including, ``end``."""

    start: Place
    end: Place


class Text:
    """A document's text with its lines; offsets are code points from its beginning."""

    def __init__(self, text: str) -> None:
        """Take the text; lone surrogates, which no file can hold, count as the character that marks a loss."""
        self.text = _SURROGATE.sub("\ufffd", text)
        self._starts = [0]
        self._ends: list[int] = []
        for found in _LINE_END.finditer(self.text):
            self._ends.append(found.start())
            self._starts.append(found.end())
        self._ends.append(len(self.text))

    @functools.cached_property
    def data(self) -> bytes:
        """The text as a file would hold it."""
        return self.text.encode()

    def offset(self, line: int, character: int) -> int:
        """Return the offset of a place; what lies outside counts as the nearest place that does not."""
        if line < 0:
            return 0
        if line >= len(self._starts):
            return len(self.text)
        return min(self._starts[line] + max(character, 0), self._ends[line])

    def place(self, offset: int) -> Place:
        """Return the place of an offset."""
        line = bisect.bisect_right(self._starts, offset) - 1
        return Place(line, min(offset, self._ends[line]) - self._starts[line])

    def span(self, start: int, end: int) -> Span:
        """Return the places of two offsets."""
        return Span(self.place(start), self.place(end))

    def line_start(self, offset: int) -> int:
        """Return where the line of ``offset`` begins."""
        return self._starts[bisect.bisect_right(self._starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Return where the line of ``offset`` ends, before what ends it."""
        return self._ends[bisect.bisect_right(self._starts, offset) - 1]

    def next_line(self, offset: int) -> int:
        """Return where the line after that of ``offset`` begins."""
        following = bisect.bisect_right(self._starts, offset)
        return self._starts[following] if following < len(self._starts) else len(self.text)

    def from_utf16(self, row: int, units: int) -> int:
        r"""Return the offset of a place as the config room counts: rows end at ``\n`` alone, columns are UTF-16.

        A byte order mark at the beginning is no part of its first row.
        """
        start = 0
        for _ in range(row):
            start = self.text.find("\n", start) + 1
            if start == 0:
                return len(self.text)
        if row == 0 and self.text.startswith("\ufeff"):
            start = 1
        end = self.text.find("\n", start)
        line = self.text[start : end if end >= 0 else len(self.text)]
        if line.isascii():
            return start + min(units, len(line))
        for number, character in enumerate(line):
            if units <= 0:
                return start + number
            units -= 2 if ord(character) > 0xFFFF else 1
        return start + len(line)

    def toml(self, kind: FileKind) -> tuple[int, int] | None:
        """Return where the TOML of the file begins and ends; ``None``: there is no front matter yet."""
        if kind is not FileKind.RECIPE:
            return (1 if self.text.startswith("\ufeff") else 0), len(self.text)
        found = front_matter(self.data)
        if found is None:
            return None
        start, end = found
        before = len(self.data[:start].decode())
        if end is None:
            return before, len(self.text)
        return before, before + len(self.data[start:end].decode())
