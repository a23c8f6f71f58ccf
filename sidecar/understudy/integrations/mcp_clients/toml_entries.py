"""An entry in a table of servers of a TOML file: read it, insert it, remove it, without changing another byte. Pure.

A new entry is a table at the end of the file, unless the table of servers is an inline table.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli_w

from understudy.config.parsing import toml_positions
from understudy.integrations.mcp_clients.edits import Inserted, insert_at, line_end, unusable
from understudy.model.errors import ErrorKind, UnderstudyError

if TYPE_CHECKING:
    from tree_sitter import Node

_MARK = "\ufeff".encode()


@dataclass(frozen=True, slots=True)
class TomlTable:
    """The table of servers ``container``, and the entry ``name`` in it."""

    container: str
    name: str

    def everything(self, text: str) -> dict[str, Any]:
        """Return all values of the file, to compare them. Errors: ``config_invalid`` with line and column."""
        return _parsed(text)

    def read(self, text: str) -> Any:
        """Return the entry, None without one. Errors: ``config_invalid``."""
        table = _parsed(text).get(self.container, {})
        if not isinstance(table, dict):
            first = next(_parts(text, [self.container]), None)
            start = 0 if first is None else _character(text, first.start_byte)
            raise unusable(text, start, f"`{self.container}` must be a table.")
        return table.get(self.name)

    def start_of(self, text: str) -> int | None:
        """Return where the entry begins: the bracket of its table, or its name."""
        first = next(_parts(text, [self.container, self.name]), None)
        return None if first is None else _character(text, first.start_byte)

    def insert(self, text: str, entry: dict[str, Any]) -> Inserted:
        """Return the text with a new entry. Errors: ``config_invalid`` where none can be added."""
        before = _parsed(text)
        eol = line_end(text)
        block = tomli_w.dumps({self.container: {self.name: entry}}).replace("\n", eol)
        gap = "" if not text.removeprefix("\ufeff") else eol if text.endswith("\n") else eol * 2
        made = insert_at(text, len(text), gap + block, len(gap), container=self.container not in before)
        if self._is_added(made.text, before, entry):
            return made
        inline = next((one for one in _parts(text, [self.container]) if one.type == "pair"), None)
        table = inline.named_children[-1] if inline is not None else None
        if table is not None and table.type == "inline_table":
            pair = f" {self.name} = {_inline_text(entry)}" + ("," if table.named_children else " ")
            made = insert_at(text, _character(text, table.start_byte) + 1, pair, 1, container=False)
            if self._is_added(made.text, before, entry):
                return made
        raise UnderstudyError(
            ErrorKind.CONFIG_INVALID,
            f"No table can be added to `{self.container}` in this file.",
            hint=f"Write it as [{self.container}.NAME] tables, then try again.",
        )

    def remove(self, text: str, *, with_table: bool) -> str:
        """Return the text without the entry: without its tables, and without its lines in other tables."""
        _ = with_table  # a table of tables is nowhere by itself
        data = text.encode()
        for start, end in reversed([_span(data, node) for node in _parts(text, [self.container, self.name])]):
            above, below = data[:start], data[end:]
            blank = re.search(rb"(?:\A|\n)(\r?\n)\Z", above)
            if blank is not None and (not below or re.match(rb"\r?\n", below)):
                above = above[: blank.start(1)]
            data = above + below
        return data.decode()

    def _is_added(self, text: str, before: dict[str, Any], entry: Any) -> bool:
        try:
            found = _parsed(text)
            added = found[self.container].pop(self.name)
        except (UnderstudyError, KeyError, AttributeError):
            return False
        if self.container not in before:
            del found[self.container]
        return bool(added == entry and found == before)


def _parsed(text: str) -> dict[str, Any]:
    content = text.removeprefix("\ufeff")
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        message, offset = toml_positions.syntax_problem(content, error)
        raise unusable(text, offset + len(text) - len(content), f"{message}.") from None
    except RecursionError:
        raise unusable(text, 0, "too many levels.") from None
    except ValueError:  # beyond Python's limit of digits
        raise unusable(text, 0, "a number that is too long.") from None


def _root(text: str) -> Node:
    # A byte order mark would be an error to the grammar; spaces keep every place.
    data = text.encode()
    if data.startswith(_MARK):
        data = b"   " + data[3:]
    return toml_positions.syntax_tree(data)


def _parts(text: str, wanted: list[str]) -> Iterator[Node]:
    """Yield the tables and pairs that are below the keys ``wanted``, in the order of the file."""
    for node in _root(text).named_children:
        yield from _parts_of(node, [], wanted)


def _parts_of(node: Node, above: list[str], wanted: list[str]) -> Iterator[Node]:
    """Yield what is of the entry in ``node``, which is below the keys ``above``."""
    if node.type not in {"pair", "table", "table_array_element"}:
        return
    key, *inner = [child for child in node.named_children if child.type != "comment"]
    path = above + [part for part, _ in toml_positions.key_parts(key)]
    if path[: len(wanted)] == wanted:
        yield node
    elif path == wanted[: len(path)]:
        if node.type == "pair":
            inner = inner[0].named_children if inner and inner[0].type == "inline_table" else []
        for child in inner:
            yield from _parts_of(child, path, wanted)


def _span(data: bytes, node: Node) -> tuple[int, int]:
    """Return what to remove: whole lines, or in an inline table the pair with its comma."""
    start, end = node.start_byte, node.end_byte
    if node.parent is not None and node.parent.type == "inline_table":
        after = re.compile(rb"[ \t]*,").match(data, end)
        start = len(data[:start].rstrip(b" \t"))
        if after is not None:
            return start, after.end()
        return (start - 1 if data[:start].endswith(b",") else start), end
    if node.type == "table":  # comments below its last line are about the next one
        end = max(child.end_byte for child in node.named_children if child.type != "comment")
    start = max(data.rfind(b"\n", 0, start) + 1, len(_MARK) if data.startswith(_MARK) else 0)
    found = re.compile(rb"[ \t\]]*(?:#[^\n]*)?(?:\n|\Z)").match(data, end)
    return start, found.end() if found is not None else end


def _inline_text(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline_text(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline_text, value)) + "]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def _character(text: str, byte: int) -> int:
    return len(text.encode()[:byte].decode())
