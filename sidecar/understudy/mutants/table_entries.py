"""Find the numbers and texts that a version of a file adds to tables of the version before, in any language.

For Python, ``python_tables`` knows more. A table is a collection, a map, or the cases of one statement.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import Language, text_of
from understudy.mutants.python_tables import AddedValues, Value, added_values

if TYPE_CHECKING:
    from tree_sitter import Node

_TABLES: Mapping[str, frozenset[str]] = {
    "javascript": frozenset({"object", "array", "switch_body"}),
    "typescript": frozenset({"object", "array", "switch_body", "enum_body"}),
    "go": frozenset({"literal_value", "expression_switch_statement"}),
    "rust": frozenset({"array_expression", "match_block"}),
}
_CASES = frozenset({"switch_case", "expression_case", "match_arm"})
_PAIRS = frozenset({"pair", "keyed_element", "enum_assignment"}) | _CASES
"""Entries with a key, which comes first."""
_NAMES = frozenset({"property_identifier", "shorthand_property_identifier"})
_NUMBER = re.compile(r"\d[\d_]*(?:\.\d+)?")


@dataclass(frozen=True, kw_only=True)
class _Table:
    place: tuple[str, ...]
    """The names around it, and its kind."""
    keys: frozenset[str]
    entries: Mapping[str, Node] = field(compare=False)
    """Text → entry."""

    def extends(self, other: _Table) -> bool:
        """Return whether it has all keys of another table, and an entry of it."""
        same = self.entries.keys() & other.entries.keys()
        return self.place == other.place and bool(same) and other.keys <= self.keys


def added_entries(path: str, before: bytes, after: bytes) -> AddedValues:
    """Return the constants that ``after`` adds to ``before``; none if the language of the file is unknown."""
    language = language_of(path)
    if language is None:
        return AddedValues()
    if language.name == "python":
        return added_values(before, after)
    if language.name not in _TABLES:
        return AddedValues()
    old, new = language.parse(before), language.parse(after)
    pairs = [
        (table, other) for table in _tables(language, new) for other in _tables(language, old) if table.extends(other)
    ]
    added = _constants_of(language, pairs)
    replaced = _constants_of(language, [(other, table) for table, other in pairs])
    others = Counter(value for at, value in _constants(language, new) if at not in added)
    others -= Counter(value for at, value in _constants(language, old) if at not in replaced)
    return AddedValues(in_tables=frozenset(added.values()), elsewhere=frozenset(others))


def _constants_of(language: Language, pairs: list[tuple[_Table, _Table]]) -> dict[int, Value]:
    """Return the constants of the entries that the second table of a pair does not have, by their positions."""
    entries = [entry for table, other in pairs for text, entry in table.entries.items() if text not in other.entries]
    return {at: value for entry in entries for at, value in _constants(language, _known_part(entry))}


def _known_part(entry: Node) -> Node:
    """Return what is looked up in a case: what it does is code like any other."""
    return entry.named_children[0] if entry.type in _CASES and entry.named_children else entry


def _tables(language: Language, root: Node) -> Iterator[_Table]:
    stack: list[tuple[Node, tuple[str, ...]]] = [(root, ())]
    while stack:
        node, names = stack.pop()
        if node.type in _TABLES[language.name]:
            some = [child for child in node.named_children if "comment" not in child.type]
            if node.type == "expression_switch_statement":
                some = [child for child in some if child.type in _CASES]
            entries = {text_of(child): child for child in some}
            keys = frozenset(text_of(_key(child)) for child in some)
            yield _Table(place=(*names, node.type), keys=keys, entries=entries)
        name = node.child_by_field_name("name")
        around = (*names, text_of(name)) if name is not None else names
        stack.extend((child, around) for child in reversed(node.named_children))


def _key(entry: Node) -> Node:
    return entry.named_children[0] if entry.type in _PAIRS and entry.named_children else entry


def _constants(language: Language, root: Node) -> Iterator[tuple[int, Value]]:
    stack = [root]
    while stack:
        node = stack.pop()
        text = text_of(node)
        if node.type in language.erased or node.type in language.for_the_compiler:
            continue
        if node.type in language.strings:
            yield node.start_byte, text.strip("\"'`")
        elif node.type in language.numbers and (number := _NUMBER.match(text)) is not None:
            digits = number[0].replace("_", "")
            yield node.start_byte, float(digits) if "." in digits else int(digits)
        elif node.type in _NAMES:
            yield node.start_byte, text
        else:
            stack.extend(reversed(node.named_children))
