"""Scan TOML that is being typed, and return its keys, values and headers with their offsets.

``config.parsing.toml_positions`` reads only valid TOML, and a text that is being typed is hardly ever valid. This
scanner recovers from errors: an open string ends with its line, an open array ends before a line that looks like the
next statement, and anything that is not TOML is skipped to the end of its line. On valid TOML both return the same
(tested).
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Literal

Path = tuple[str | int, ...]

MAX_DEPTH = 64
"""Limit of nested values, and of names in a dotted key; the rest is skipped. No valid configuration has as many."""

_BARE = re.compile(r"[^\s.=\[\]{}#,\"']+")
_NEWLINE = re.compile(r"[\r\n]")
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\r\n]*"|'[^'\r\n]*')"""
_KEY = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_NEXT_STATEMENT = re.compile(
    rf"[ \t]*(?:{_KEY}[ \t]*=|\[\[?[ \t]*(?!(?:true|false|inf|nan)\b|[0-9\"'+-]){_KEY}[ \t]*\]\]?[ \t]*(?:#.*)?$)",
    re.MULTILINE,
)
"""A line after an unclosed array that looks like the next statement."""


@dataclass
class Part:
    """One name of a key or of a header."""

    name: str
    start: int
    end: int
    path: Path
    """The path up to and including this name."""


@dataclass
class Value:
    """A value, maybe incomplete."""

    kind: Literal["string", "bare", "array", "table"]
    start: int
    end: int
    path: Path
    text: str = ""
    """The contents of a string, or the characters of a bare value."""
    closed: bool = True
    items: list[Value] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


@dataclass
class Entry:
    """``key = value``, maybe incomplete."""

    parts: list[Part]
    table: Path
    """The path of the table that contains the key."""
    inline: bool
    start: int
    end: int
    equals: int | None = None
    """The offset after the equals sign."""
    value: Value | None = None

    @property
    def path(self) -> Path:
        """The path of the value."""
        return self.parts[-1].path if self.parts else self.table


@dataclass
class Header:
    """``[table]`` or ``[[table]]``, maybe incomplete."""

    parts: list[Part]
    array: bool
    start: int
    end: int
    path: Path
    """The path of the table that begins here; for an array, of its new element."""
    entries: list[Entry] = field(default_factory=list)


@dataclass
class Document:
    """The result of a scan."""

    start: int
    end: int
    root: list[Entry] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    comments: list[tuple[int, int]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    values: dict[Path, Value] = field(default_factory=dict)
    """The first value of each path."""
    entries: list[Entry] = field(default_factory=list)
    """All entries, including those in inline tables."""

    def header_before(self, offset: int) -> Header | None:
        """Return the last header at or before an offset."""
        found = None
        for header in self.headers:
            if header.start > offset:
                break
            found = header
        return found

    def names_in(self, table: Path) -> set[str]:
        """Return the keys of a table, wherever in the file they are set."""
        depth = len(table)
        return {part.name for part in self.parts if len(part.path) == depth + 1 and part.path[:depth] == table}

    def string(self, path: Path) -> str | None:
        """Return the string at a path."""
        value = self.values.get(path)
        return value.text if value is not None and value.kind == "string" else None


def scan(text: str, start: int, end: int) -> Document:
    """Scan ``text`` from ``start`` to ``end``; never raises."""
    scanner = _Scanner(text, start, end)
    scanner.run()
    return scanner.document


class _Scanner:
    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.at = start
        self.end = end
        self.document = Document(start, end)
        self._counts: dict[Path, int] = {}

    def run(self) -> None:
        """Read statement by statement; each reads at least one character."""
        table: Path = ()
        entries = self.document.root
        while self.at < self.end:
            self._blank(newlines=True)
            if self.at >= self.end:
                return
            if self.text[self.at] == "[":
                header = self._header()
                self.document.headers.append(header)
                table, entries = header.path, header.entries
                self._rest_of_line()
                continue
            before = self.at
            entry = self._entry(table, inline=False, depth=0)
            if entry is not None:
                entries.append(entry)
            self._rest_of_line()
            self.at = max(self.at, before + 1)

    def _char(self) -> str:
        return self.text[self.at] if self.at < self.end else ""

    def _blank(self, *, newlines: bool) -> None:
        """Skip white space and comments."""
        while self.at < self.end:
            character = self.text[self.at]
            if character == "#":
                line_end = self._line_end()
                self.document.comments.append((self.at, line_end))
                self.at = line_end
            elif character in " \t\ufeff" or (newlines and character in "\r\n"):
                self.at += 1
            else:
                return

    def _line_end(self) -> int:
        found = _NEWLINE.search(self.text, self.at, self.end)
        return found.start() if found else self.end

    def _rest_of_line(self) -> None:
        """Skip the rest of the line after a statement."""
        self._blank(newlines=False)
        while self.at < self.end and self.text[self.at] not in "\r\n":
            if self.text[self.at] == "#":
                self._blank(newlines=False)
            elif self.text[self.at] in "\"'":
                self._string(())
            else:
                self.at += 1

    def _header(self) -> Header:
        start = self.at
        array = self.text.startswith("[[", self.at, self.end)
        self.at += 2 if array else 1
        names = self._key()
        path: Path = ()
        parts: list[Part] = []
        for number, (name, begin, stop) in enumerate(names):
            path = (*path, name)
            parts.append(Part(name, begin, stop, path))
            if number < len(names) - 1 and path in self._counts:
                path = (*path, self._counts[path] - 1)  # within an array of tables: its last element
        if array and parts:
            count = self._counts.get(path, 0)
            self._counts[path] = count + 1
            path = (*path, count)
        self._blank_only()
        closing = "]]" if array else "]"
        for _ in closing:
            if self._char() == "]":
                self.at += 1
        self.document.parts += parts
        return Header(parts, array, start, self.at, path)

    def _blank_only(self) -> None:
        while self._char() in {" ", "\t"}:
            self.at += 1

    def _key(self) -> list[tuple[str, int, int]]:
        """Read the names of a dotted key and return each with its start and end."""
        names: list[tuple[str, int, int]] = []
        while True:
            before = self.at
            self._blank_only()
            start = self.at
            character = self._char()
            if character and character in "\"'":
                name = self._string(()).text
            elif found := _BARE.match(self.text, self.at, self.end):
                self.at, name = found.end(), found[0]
            else:
                self.at = before
                return names
            if len(names) < MAX_DEPTH:
                names.append((name, start, self.at))
            after = self.at
            self._blank_only()
            if self._char() != ".":
                self.at = after
                return names
            self.at += 1

    def _entry(self, table: Path, *, inline: bool, depth: int) -> Entry | None:
        start = self.at
        names = self._key()
        path = table
        parts: list[Part] = []
        for name, begin, stop in names:
            path = (*path, name)
            parts.append(Part(name, begin, stop, path))
        entry = Entry(parts, table, inline, start, parts[-1].end if parts else self.at)
        after = self.at
        self._blank_only()
        if self._char() != "=":
            self.at = after
        else:
            self.at += 1
            entry.equals = entry.end = self.at
            self._blank_only()
            entry.value = self._value(path, depth)
            if entry.value is not None:
                entry.end = entry.value.end
            else:
                self.at = entry.end
        if not parts:
            return None
        self.document.parts += parts
        self.document.entries.append(entry)
        return entry

    def _value(self, path: Path, depth: int) -> Value | None:
        character = self._char()
        if not character or character in "\r\n#,]}":
            return None
        if depth > MAX_DEPTH:
            start = self.at
            self.at = self._line_end()
            return Value("bare", start, self.at, path)
        if character in "\"'":
            value = self._string(path)
        elif character == "[":
            value = self._array(path, depth)
        elif character == "{":
            value = self._inline_table(path, depth)
        else:
            start = self.at
            while self.at < self.end and self.text[self.at] not in ",]}#\r\n":
                self.at += 1
            characters = self.text[start : self.at].rstrip(" \t")
            self.at = start + len(characters)
            value = Value("bare", start, self.at, path, characters)
        self.document.values.setdefault(path, value)
        return value

    def _string(self, path: Path) -> Value:
        start = self.at
        quote = self.text[start]
        if self.text.startswith(quote * 3, start, self.end):
            return self._long_string(path, quote)
        self.at += 1
        while self.at < self.end:
            character = self.text[self.at]
            if character in "\r\n":
                break
            if character == "\\" and quote == '"' and self.at + 1 < self.end and self.text[self.at + 1] not in "\r\n":
                self.at += 2
                continue
            self.at += 1
            if character == quote:
                token = self.text[start : self.at]
                return Value("string", start, self.at, path, _decoded(token, token[1:-1]))
        return Value("string", start, self.at, path, self.text[start + 1 : self.at], closed=False)

    def _long_string(self, path: Path, quote: str) -> Value:
        start = self.at
        self.at += 3
        while self.at < self.end:
            if self.text[self.at] == "\\" and quote == '"':
                self.at += 2
            elif self.text.startswith(quote * 3, self.at, self.end):
                self.at += 3
                for _ in range(2):  # the string may end with up to two quotes before the closing three
                    if self._char() == quote:
                        self.at += 1
                token = self.text[start : self.at]
                return Value("string", start, self.at, path, _decoded(token, token[3:-3]))
            else:
                self.at += 1
        self.at = min(self.at, self.end)
        return Value("string", start, self.at, path, self.text[start + 3 : self.at], closed=False)

    def _array(self, path: Path, depth: int) -> Value:
        array = Value("array", self.at, self.at, path, closed=False)
        self.at += 1
        while self.at < self.end:
            if not self._blank_in_array():
                break
            character = self._char()
            if character == "]":
                self.at += 1
                array.closed = True
                break
            if character == ",":
                self.at += 1
                continue
            item = self._value((*path, len(array.items)), depth + 1)
            if item is None:  # a stray brace
                self.at += 1
            else:
                array.items.append(item)
        array.end = self.at
        return array

    def _blank_in_array(self) -> bool:
        """Skip blanks, comments and line ends; return false at the end, or if the next line looks like a statement.

        Such a line is not an element: the closing bracket is missing.
        """
        while self.at < self.end:
            self._blank(newlines=False)
            character = self._char()
            if not character or character not in "\r\n":
                return bool(character)
            if _NEXT_STATEMENT.match(self.text, self.at + 1, self.end):
                return False
            self.at += 1
        return False

    def _inline_table(self, path: Path, depth: int) -> Value:
        table = Value("table", self.at, self.at, path, closed=False)
        self.at += 1
        while self.at < self.end:
            self._blank_only()
            character = self._char()
            if character == "}":
                self.at += 1
                table.closed = True
                break
            if not character or character in "\r\n#":
                break  # an inline table ends with its line
            before = self.at
            if character == ",":
                self.at += 1
                continue
            entry = self._entry(path, inline=True, depth=depth + 1)
            if entry is not None:
                table.entries.append(entry)
            self.at = max(self.at, before + 1)
        table.end = self.at
        return table


def _decoded(token: str, otherwise: str) -> str:
    """Return the contents of a string token; ``otherwise`` if the token is not valid."""
    if "\\" not in token and len(token) < 6:
        return otherwise
    try:
        contents = tomllib.loads(f"key = {token}")["key"]
    except (tomllib.TOMLDecodeError, ValueError):
        return otherwise
    return contents if isinstance(contents, str) else otherwise
