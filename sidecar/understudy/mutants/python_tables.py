"""Find the numbers and texts that a version of a Python file adds to tables of the version before.

A table is a collection, the cases of a ``match``, the members of an enumeration, or a comparison that becomes one with
several values. One that is new, or has none of the entries of an earlier one, does not count.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from understudy.mutants.python_declarations import python_syntax

Value = int | float | complex | str | bytes


@dataclass(frozen=True, kw_only=True)
class AddedValues:
    """The constants that a version of a file has more often than the one before."""

    in_tables: frozenset[Value] = frozenset()
    elsewhere: frozenset[Value] = frozenset()


@dataclass(frozen=True, kw_only=True)
class _Table:
    place: tuple[str, ...]
    """The names around it, and its kind."""
    texts: frozenset[str]
    entries: Mapping[str, ast.AST] = field(compare=False)
    """The text of each entry → the node with its constants."""

    def extends(self, other: _Table) -> bool:
        """Return whether all entries of another table are in this one; those of a dictionary may have other values."""
        if self.place != other.place or not self.texts & other.texts:
            return False
        return {_key(entry) for entry in other.entries.values()} <= {_key(entry) for entry in self.entries.values()}

    def without(self, other: _Table) -> list[tuple[ast.AST, Value]]:
        """Return the constants of the entries that another table does not have."""
        entries = [entry for text, entry in self.entries.items() if text not in other.texts]
        return [pair for entry in entries for pair in _values(entry)]


def added_values(before: bytes, after: bytes) -> AddedValues:
    """Return the constants that ``after`` adds to ``before``; none if one of them cannot be read."""
    old, new = python_syntax(before), python_syntax(after)
    if old is None or new is None:
        return AddedValues()
    earlier, later = set(_tables(old)), set(_tables(new))
    pairs = [(table, other) for table in later - earlier for other in earlier - later if table.extends(other)]
    added = {id(node): value for table, other in pairs for node, value in table.without(other)}
    replaced = {id(node) for table, other in pairs for node, _ in other.without(table)}
    others = Counter(value for node, value in _values(new) if id(node) not in added)
    others -= Counter(value for node, value in _values(old) if id(node) not in replaced)
    return AddedValues(in_tables=frozenset(added.values()), elsewhere=frozenset(others))


def _tables(module: ast.Module) -> Iterator[_Table]:
    stack: list[tuple[ast.AST, tuple[str, ...]]] = [(module, ())]
    while stack:
        node, names = stack.pop()
        kind, entries = _entries(node)
        if entries:
            texts = {ast.dump(entry): entry for entry in entries}
            yield _Table(place=(*names, kind), texts=frozenset(texts), entries=texts)
        name = getattr(node, "name", None)
        around = (*names, name) if isinstance(name, str) else names
        stack += [(child, around) for child in ast.iter_child_nodes(node)]


def _entries(node: ast.AST) -> tuple[str, list[ast.AST]]:
    """Return the kind of a table and its entries; no entries if a node is not a table."""
    match node:
        case ast.Dict(keys=keys, values=values):
            pairs = [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
            return "dictionary", [ast.Dict(keys=[key], values=[value]) for key, value in pairs]
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return "collection", [*items]
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant() as constant]):
            return "collection", [constant]
        case ast.Match(cases=cases):
            return "match", [case.pattern for case in cases]
        case ast.ClassDef(bases=bases, body=body) if any(
            ast.unparse(base).endswith(("Enum", "Flag")) for base in bases
        ):
            return "members", [statement for statement in body if isinstance(statement, ast.Assign)]
        case _:
            return "", []


def _key(entry: ast.AST) -> str:
    match entry:
        case ast.Dict(keys=[ast.expr() as key], values=[_]):
            return ast.dump(key)
        case _:
            return ast.dump(entry)


def _values(node: ast.AST) -> Iterator[tuple[ast.AST, Value]]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, Value) and not isinstance(child.value, bool):
            yield child, child.value
