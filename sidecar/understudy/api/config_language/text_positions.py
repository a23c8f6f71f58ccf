r"""Convert between offsets and positions of a text, and find the part of a file that is TOML.

Columns are code points everywhere in this package; frontends convert them for their clients. Lines end at ``\n``,
``\r\n`` and ``\r`` (LSP 3.17).
"""

from __future__ import annotations

import bisect
import functools
import re
from dataclasses import dataclass

from understudy.config.locations import FileKind
from understudy.config.parsing.recipe_file import front_matter

_LINE_END = re.compile(r"\r\n|\r|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, order=True)
class Place:
    """A position between two characters, from 0; ``character`` counts code points."""

    line: int
    character: int


@dataclass(frozen=True)
class Span:
    """A range from ``start`` to ``end``, which is excluded."""

    start: Place
    end: Place


class Text:
    """A document's text with its lines; offsets are code points from its beginning."""

    def __init__(self, text: str) -> None:
        """Index the text; lone surrogates, which UTF-8 cannot encode, become U+FFFD."""
        self.text = _SURROGATE.sub("\ufffd", text)
        self._starts = [0]
        self._ends: list[int] = []
        for found in _LINE_END.finditer(self.text):
            self._ends.append(found.start())
            self._starts.append(found.end())
        self._ends.append(len(self.text))

    @functools.cached_property
    def data(self) -> bytes:
        """The text in UTF-8."""
        return self.text.encode()

    def offset(self, line: int, character: int) -> int:
        """Return the offset of a position; one outside of the text is moved to the nearest one inside."""
        if line < 0:
            return 0
        if line >= len(self._starts):
            return len(self.text)
        return min(self._starts[line] + max(character, 0), self._ends[line])

    def place(self, offset: int) -> Place:
        """Return the position of an offset."""
        line = bisect.bisect_right(self._starts, offset) - 1
        return Place(line, min(offset, self._ends[line]) - self._starts[line])

    def span(self, start: int, end: int) -> Span:
        """Return the span between two offsets."""
        return Span(self.place(start), self.place(end))

    def line_start(self, offset: int) -> int:
        """Return where the line of ``offset`` begins."""
        return self._starts[bisect.bisect_right(self._starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """Return where the line of ``offset`` ends, before its line break."""
        return self._ends[bisect.bisect_right(self._starts, offset) - 1]

    def next_line(self, offset: int) -> int:
        """Return where the line after the one of ``offset`` begins."""
        following = bisect.bisect_right(self._starts, offset)
        return self._starts[following] if following < len(self._starts) else len(self.text)

    def from_utf16(self, row: int, units: int) -> int:
        r"""Return the offset of a position of ``config``: rows end only at ``\n``, columns are UTF-16 code units.

        A byte order mark at the beginning is not part of the first row.
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
        """Return where the TOML of the file begins and ends; None if a recipe has no front matter yet."""
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
