"""Find the position of a value in a TOML file, and read the syntax of YAML within limits, as PyYAML's nodes.

``tomllib`` returns values without positions. They come from tree-sitter's TOML grammar, which is
well maintained, installs as a wheel, and parses only files that ``tomllib`` has accepted.

Of YAML nothing is constructed, so tags create no objects. Aliases are refused, because a few lines of them can stand
for gigabytes.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from understudy.config.findings import KeyPath
from understudy.model.errors import Position, Range

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_PARTS = 64
"""The most names of one dotted key that get a position: deeper nesting is refused, and each costs its whole path."""
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
YAML_NULL = "tag:yaml.org,2002:null"


def point(line: int, character: int) -> Range:
    """Return the empty range at a place."""
    return Range(Position(line, character), Position(line, character))


START = point(0, 0)
"""The beginning of a file, where problems of the whole file are shown."""


class Positions:
    """The positions of all keys and values of one TOML document."""

    def __init__(self, data: bytes) -> None:
        """Read the document's syntax tree; ``data`` must have been accepted by ``tomllib``."""
        self._lines = data.split(b"\n")
        self._keys: dict[KeyPath, Range] = {}
        self._values: dict[KeyPath, Range] = {}
        self._counts: dict[KeyPath, int] = {}
        for node in syntax_tree(data).named_children:
            if node.type == "pair":
                self._pair(node, ())
            elif node.type in {"table", "table_array_element"}:
                self._table(node)

    def key(self, path: KeyPath) -> Range | None:
        """Return the range of the key of ``path``."""
        return self._keys.get(path)

    def value(self, path: KeyPath) -> Range | None:
        """Return the range of the value of ``path``; for a table, of its header."""
        return self._values.get(path)

    def _table(self, node: Node) -> None:
        key_node, *rest = [child for child in node.named_children if child.type != "comment"]
        parts = key_parts(key_node)[:MAX_PARTS]
        names = [name for name, _ in parts]
        path = (*self._current(names[:-1]), names[-1])
        where = self._range(key_node)
        places = iter(self._range(part) for _, part in parts)
        for depth in range(1, len(path) + 1):
            # Parents without their own header use that of their first child.
            if isinstance(path[depth - 1], str):
                self._keys.setdefault(path[:depth], next(places))
            if depth < len(path):
                self._values.setdefault(path[:depth], where)
        if node.type == "table_array_element":
            number = self._counts.get(path, 0)
            self._counts[path] = number + 1
            self._values.setdefault(path, where)
            path = (*path, number)
            self._keys[path] = where
        self._values.setdefault(path, where)
        for child in rest:
            if child.type == "pair":
                self._pair(child, path)

    def _current(self, names: list[str]) -> KeyPath:
        """Return the path of a header's parents: in an array of tables, the last element."""
        path: KeyPath = ()
        for name in names:
            path = (*path, name)
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        return path

    def _pair(self, node: Node, prefix: KeyPath) -> None:
        key_node, value_node = [child for child in node.named_children if child.type != "comment"][:2]
        where = self._range(key_node)
        path = prefix
        for name, part in key_parts(key_node)[:MAX_PARTS]:
            path = (*path, name)
            self._keys.setdefault(path, self._range(part))
            self._values.setdefault(path, where)
        self._value(value_node, path)

    def _value(self, node: Node, path: KeyPath) -> None:
        self._values[path] = self._range(node)
        if node.type == "inline_table":
            for child in node.named_children:
                if child.type == "pair":
                    self._pair(child, path)
        elif node.type == "array":
            items = [child for child in node.named_children if child.type != "comment"]
            for number, child in enumerate(items):
                self._value(child, (*path, number))

    def _range(self, node: Node) -> Range:
        return Range(
            self._position(node.start_point.row, node.start_point.column),
            self._position(node.end_point.row, node.end_point.column),
        )

    def _position(self, row: int, column: int) -> Position:
        return Position(row, utf16(self._lines[row][:column].decode("utf-8", "replace")))


def syntax_tree(data: bytes) -> Node:
    """Return the root of the syntax tree of a document."""
    import tree_sitter
    import tree_sitter_toml

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language())).parse(data).root_node


def syntax_problem(text: str, error: tomllib.TOMLDecodeError) -> tuple[str, int]:
    """Return what is wrong with ``text``, and the offset at which it is."""
    message = str(error)
    match = _AT.search(message)
    if match is None or match[1] is None:
        return _AT.sub("", message), len(text)
    lines = text.split("\n")[: int(match[1]) - 1]
    return _AT.sub("", message), sum(len(line) + 1 for line in lines) + int(match[2]) - 1


def utf16(text: str) -> int:
    """Return the length of ``text`` in UTF-16 code units, LSP's measure of a column."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def key_parts(node: Node) -> list[tuple[str, Node]]:
    """Return the names of a key that may be dotted, each with its own node."""
    if node.type == "dotted_key":
        return [part for child in node.named_children for part in key_parts(child)]
    text = (node.text or b"").decode()
    if node.type == "quoted_key":
        return [(str(tomllib.loads(f"key = {text}")["key"]), node)]
    return [(text, node)]


class Refused(Exception):  # noqa: N818 - a finding, not an error
    """A text that is not read, with a zero-based place in it."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        """Store the parts."""
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def compose_yaml(text: str, *, most_nodes: int, most_levels: int) -> Any:
    """Return the root node of the only document, or None if there is none; raise ``Refused`` with a place."""
    import yaml  # here, because few requests need it

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_bounds(yaml, loader, text, most_nodes, most_levels)
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"The YAML cannot be read: {error.problem or error.context or 'syntax error'}."
        raise Refused(message, mark.line if mark else 0, mark.column if mark else 0) from None
    except yaml.YAMLError:  # a character that YAML does not allow
        raise Refused("The YAML cannot be read: it contains a control character.") from None


def _check_bounds(yaml: Any, loader: Any, text: str, most_nodes: int, most_levels: int) -> None:
    depth = 0
    for nodes, event in enumerate(yaml.parse(text, Loader=loader), 1):
        at = (event.start_mark.line, event.start_mark.column)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise Refused("Anchors and aliases (& and *) are not read.", *at)
        if isinstance(event, yaml.DocumentStartEvent) and event.start_mark.line and event.explicit:
            raise Refused("There is more than one document.", *at)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > most_levels:
            raise Refused(f"It is nested more than {most_levels} levels deep.", *at)
        if nodes > most_nodes:
            raise Refused(f"It has more than {most_nodes} values.", *at)
