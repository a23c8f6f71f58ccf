"""An entry in a table of servers of a JSON file: read it, insert it, remove it, without changing another byte. Pure.

A new entry is the first one of its table. So the comma after it belongs to it, and what follows, comments and trailing
commas included, is exactly what followed the opening brace before.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from understudy.integrations.mcp_clients import json_source
from understudy.integrations.mcp_clients.edits import Inserted, insert_at, line_end, unusable
from understudy.integrations.mcp_clients.json_source import Member, Value

_REMARK = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*.*?\*/))+", re.DOTALL)
"""Comments that begin on the line of an opening brace: they are about the table."""


@dataclass(frozen=True, slots=True)
class JsonTable:
    """The table of servers ``container``, and the entry ``name`` in it."""

    container: str
    name: str
    lenient: bool
    """Whether the client reads comments, and commas before a closing bracket."""

    def everything(self, text: str) -> dict[str, Any]:
        """Return all values of the file, to compare them. Errors: ``config_invalid`` with line and column."""
        root = json_source.parse(text, lenient=self.lenient)
        found: dict[str, Any] = {} if root is None else root.plain()
        return found

    def read(self, text: str) -> Any:
        """Return the entry, None without one. Errors: ``config_invalid``."""
        found = self._find(text)[2]
        try:
            return None if found is None else _numbers(found.value.plain())
        except ValueError:
            raise unusable(text, found.start if found else 0, "a number that is too large.") from None

    def start_of(self, text: str) -> int | None:
        """Return where the entry's name begins."""
        found = self._find(text)[2]
        return None if found is None else found.start

    def insert(self, text: str, entry: dict[str, Any]) -> Inserted:
        """Return the text with a new entry."""
        root, table, _ = self._find(text)
        style = _Style(text, root)
        if root is None:
            gap = "" if not text.strip("\ufeff") or text.endswith("\n") else style.eol
            made = gap + style.document({self.container: {self.name: entry}}) + style.eol
            return self._inserted(text, len(text), made, container=True)
        if table is None:
            start, made = _insertion(text, root, {self.container: {self.name: entry}}, style)
        else:
            start, made = _insertion(text, table.value, {self.name: entry}, style)
        return self._inserted(text, start, made, container=table is None)

    def remove(self, text: str, *, with_table: bool) -> str:
        """Return the text without the entry; with ``with_table`` also without its table, if that is empty then."""
        _, table, found = self._find(text)
        if table is None or found is None:
            return text
        text = _without(text, table.value, found)
        root, table, _ = self._find(text)
        if not with_table or root is None or table is None or text[table.value.start + 1 : table.value.end - 1].strip():
            return text
        return _without(text, root, table)

    def _inserted(self, text: str, start: int, made: str, *, container: bool) -> Inserted:
        outer = json.dumps(self.container)
        after = made.index(outer) + len(outer) if container else 0
        return insert_at(text, start, made, made.index(json.dumps(self.name), after), container=container)

    def _find(self, text: str) -> tuple[Value | None, Member | None, Member | None]:
        root = json_source.parse(text, lenient=self.lenient)
        if root is None:
            return None, None, None
        if root.members is None:
            raise unusable(text, root.start, "expected an object.")
        table = _only(text, root, self.container)
        if table is None:
            return root, None, None
        if table.value.members is None:
            raise unusable(text, table.value.start, f"`{self.container}` must be an object.")
        return root, table, _only(text, table.value, self.name)


def _only(text: str, parent: Value, name: str) -> Member | None:
    found = [one for one in parent.members or () if one.name == name]
    if len(found) > 1:
        raise unusable(text, found[1].start, f"`{name}` is there twice.", "Remove one of them, then try again.")
    return found[0] if found else None


def _insertion(text: str, parent: Value, member: dict[str, Any], style: _Style) -> tuple[int, str]:
    """Return where a new first member of ``parent`` begins, and its text."""
    members = parent.members or []
    start = parent.start + 1
    remark = _REMARK.match(text, start, parent.end - 1)
    if remark is not None:
        start = remark.end()
    rest = text[start : members[0].start if members else parent.end - 1]
    if style.one_line or (members and "\n" not in rest):
        space = rest[: len(rest) - len(rest.lstrip())] if members else ""
        made = space + style.compact(member)[1:-1] + ("," if members else "")
    else:
        closing = style.indent_at(text, parent.start)
        indent = style.indent_at(text, members[0].start) if members else closing + style.unit
        made = style.eol + indent + style.member(member, indent)
        if members:
            made += ","
        elif "\n" not in rest:
            made += style.eol + closing
    return start, made


def _without(text: str, parent: Value, found: Member) -> str:
    members = parent.members or []
    after = text[found.end :]
    before = text[: found.before]
    if found.comma is None and len(members) > 1:  # the last one: the comma before it goes
        comma = members[-2].comma
        if comma is not None:
            before = before[:comma] + before[comma + 1 :]
    if found.after_remark and not after.lstrip(" \t").startswith(("\r", "\n")):
        before += line_end(text)  # or the comment would hide what follows
    return before + after


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    if not isinstance(value, json_source.Number):
        return value
    number = json.loads(value.text)
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(value.text)
    return number


class _Style:
    """How a file is laid out."""

    def __init__(self, text: str, root: Value | None) -> None:
        self.eol = line_end(text)
        members = (root.members if root is not None else None) or []
        inside = text[root.start : root.end] if root is not None else ""
        self.one_line = bool(members) and "\n" not in inside
        self.tight = self.one_line and ": " not in inside
        indent = self.indent_at(text, members[0].start) if members and not self.one_line else ""
        self.unit = indent or "  "

    @staticmethod
    def indent_at(text: str, offset: int) -> str:
        """Return the space at the beginning of the line that ``offset`` is in."""
        line = text[text.rfind("\n", 0, offset) + 1 : offset]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def compact(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":") if self.tight else None)

    def document(self, value: dict[str, Any]) -> str:
        """Return an object's text over several lines."""
        return json.dumps(value, ensure_ascii=False, indent=self.unit).replace("\n", self.eol)

    def member(self, value: dict[str, Any], indent: str) -> str:
        """Return the text of an object's only member, whose lines begin with ``indent``, without that of the first."""
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")[1:-1]
        return (self.eol + indent).join(line.removeprefix(self.unit) for line in lines)
