"""JSON, with comments and trailing commas where the client reads them: values with their places. Pure.

The standard library returns values without places, and refuses comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from understudy.integrations.mcp_clients.edits import unusable
from understudy.model.errors import UnderstudyError

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<comment>//[^\r\n]*|/\*.*?\*/)
    |(?P<string>"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*")
    |(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.a-zA-Z]))
    |(?P<word>(?:true|false|null)(?![0-9a-zA-Z_]))
    |(?P<mark>[{}\[\],:])""",
    re.VERBOSE | re.DOTALL,
)
_MOST_LEVELS = 200
"""Of objects and lists in each other; no client writes as many."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number, as it is written: it may be one that Python would change."""

    text: str


@dataclass(slots=True)
class Member:
    """A member of an object."""

    name: str
    before: int
    """The end of the token or comment before its name."""
    after_remark: bool
    """Whether that is a comment up to the end of its line."""
    start: int
    value: Value
    comma: int | None = None
    """Where the comma after it is."""

    @property
    def end(self) -> int:
        """Return the end of the member with the comma after it."""
        return self.value.end if self.comma is None else self.comma + 1


@dataclass(slots=True)
class Value:
    """A value, from ``start`` to ``end``."""

    start: int
    end: int = 0
    scalar: Any = None
    members: list[Member] | None = None
    """Of an object."""
    items: list[Value] | None = None
    """Of a list."""

    def plain(self) -> Any:
        """Return the value as ``json`` does, except for numbers."""
        if self.members is not None:
            return {one.name: one.value.plain() for one in self.members}
        return [one.plain() for one in self.items] if self.items is not None else self.scalar


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    def is_mark(self, text: str) -> bool:
        return self.kind == "mark" and self.text == text


def parse(text: str, *, lenient: bool) -> Value | None:
    """Return the value, None if there is nothing but space and comments.

    ``lenient``: the client reads comments, and commas before a closing bracket. Errors: ``config_invalid`` with line
    and column.
    """
    return _Parser(text, lenient=lenient).parse()


class _Parser:
    def __init__(self, text: str, *, lenient: bool) -> None:
        self.text = text
        self.lenient = lenient
        self.before = 0
        """The end of the token or comment before ``next``."""
        self.remark = False
        """Whether that is a comment up to the end of its line."""
        self.tokens = self._read()
        self.next = next(self.tokens)

    def parse(self) -> Value | None:
        if self.next.kind == "end":
            return None
        found = self._value(0)
        if self.next.kind != "end":
            raise self._expected("the end of the file")
        return found

    def _read(self) -> Iterator[_Token]:
        text = self.text
        position = 1 if text.startswith("\ufeff") else 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            kind = found.lastgroup if found is not None else None
            if found is None or kind is None:
                raise unusable(text, position, self._problem(position))
            position = found.end()
            if kind == "comment":
                if not self.lenient:
                    raise unusable(text, found.start(), "this file cannot have comments.")
                self.before, self.remark = position, found[0].startswith("//")
            elif kind != "space":
                yield _Token(kind, found[0], *found.span())
        yield _Token("end", "", len(text), len(text))

    def _problem(self, position: int) -> str:
        rest = self.text[position : position + 2]
        if rest.startswith('"'):
            return "a string that does not end, or has a character or an escape that JSON does not have."
        return "a comment that does not end." if rest == "/*" else f"unexpected {rest[:1]!r}."

    def _advance(self) -> _Token:
        token = self.next
        self.before, self.remark = token.end, False
        self.next = next(self.tokens)
        return token

    def _expected(self, what: str) -> UnderstudyError:
        # Not the text itself: it may be a key.
        kinds = {"end": "the end of the file", "string": "a text"}
        found = kinds.get(self.next.kind) or repr(self.next.text[:40])
        return unusable(self.text, self.next.start, f"expected {what}, found {found}.")

    def _value(self, level: int) -> Value:
        token = self.next
        if level > _MOST_LEVELS:
            raise unusable(self.text, token.start, f"more than {_MOST_LEVELS} levels.")
        if token.is_mark("{"):
            return self._object(level)
        if token.is_mark("["):
            return self._list(level)
        if token.kind not in {"string", "number", "word"}:
            raise self._expected("a value")
        self._advance()
        return Value(token.start, token.end, Number(token.text) if token.kind == "number" else json.loads(token.text))

    def _object(self, level: int) -> Value:
        members: list[Member] = []
        found = Value(self._advance().start, members=members)
        while not self.next.is_mark("}"):
            if members and members[-1].comma is None:
                raise self._expected("`,` or `}`")
            if self.next.kind != "string":
                raise self._expected("a name in double quotes")
            before, remark = self.before, self.remark
            name = self._advance()
            if not self.next.is_mark(":"):
                raise self._expected("`:`")
            self._advance()
            members.append(Member(json.loads(name.text), before, remark, name.start, self._value(level + 1)))
            if self.next.is_mark(","):
                members[-1].comma = self._advance().start
        self._close(found, members[-1].comma if members else None)
        return found

    def _list(self, level: int) -> Value:
        items: list[Value] = []
        found = Value(self._advance().start, items=items)
        comma: int | None = None
        while not self.next.is_mark("]"):
            if items and comma is None:
                raise self._expected("`,` or `]`")
            items.append(self._value(level + 1))
            comma = self._advance().start if self.next.is_mark(",") else None
        self._close(found, comma)
        return found

    def _close(self, found: Value, comma: int | None) -> None:
        if comma is not None and not self.lenient:
            raise unusable(self.text, comma, "this file cannot have a comma before a closing bracket.")
        found.end = self._advance().end
