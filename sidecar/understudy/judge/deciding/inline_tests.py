"""Restore tests that are in the same file as the code they test: those of Rust, and examples in docstrings."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import text_of
from understudy.mutants.languages.rust import TEST_ATTRIBUTE

if TYPE_CHECKING:
    from tree_sitter import Node

Scope = tuple[str, ...]
"""The names of the modules around an item, from the outermost."""
Span = tuple[int, int]
"""Where an item begins, with its attributes, and where it ends."""

_RUST, _PYTHON = ".rs", ".py"
EXAMPLE = b">>>"
"""Begins an example in a docstring or a text, which a check may run."""
_BESIDE = frozenset({"attribute_item", "line_comment", "block_comment"})
_MOST_BYTES = 4 * 1024 * 1024


def may_have(path: str, base: bytes) -> bool:
    """Return whether a file of the base may have tests beside its code."""
    return path.endswith(_RUST) or (path.endswith(_PYTHON) and EXAMPLE in base)


def restored(path: str, base: bytes, result: bytes) -> bytes:
    """Return ``result`` with the tests of ``base`` instead of its own; ``result`` itself if neither has any.

    Tests take the place of those of the same module, or are added at its end. Those of a module that the result no
    longer has are left out: they would not build. Docstrings with examples take the place of those of the same function
    or class.
    """
    if max(len(base), len(result)) > _MOST_BYTES:
        return result
    if path.endswith(_PYTHON):
        return _with_examples(path, base, result)
    old, new = _Tests(path, base), _Tests(path, result)
    edits: list[tuple[int, int, bytes]] = []
    for scope in old.spans.keys() | new.spans.keys():
        texts = [base[start:end] for start, end in old.spans.get(scope, [])]
        spans = new.spans.get(scope, [])
        if texts == [result[start:end] for start, end in spans]:
            continue
        if spans:
            edits += [
                (start, end, text or b"") for (start, end), text in itertools.zip_longest(spans, texts[: len(spans)])
            ]
            more, at = texts[len(spans) :], spans[-1][1]
        else:
            more, at = texts, new.ends.get(scope, -1)
        if more and at >= 0:
            edits.append((at, at, b"\n" + b"\n".join(more) + b"\n"))
    return _edited(result, edits)


def _edited(source: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def _with_examples(path: str, base: bytes, result: bytes) -> bytes:
    language = language_of(path)
    assert language is not None  # noqa: S101 - it is Python
    now = dict(_bodies(language.parse(result)))
    edits = []
    for name, body in _bodies(language.parse(base)):
        before = _docstring(body)
        text = before.text or b"" if before is not None else b""
        if EXAMPLE not in text or name not in now:
            continue
        after = _docstring(now[name])
        first = next((child for child in now[name].named_children if child.type != "comment"), None)
        if after is not None:
            edits.append((after.start_byte, after.end_byte, text))
        elif first is not None:
            indent = result[result.rfind(b"\n", 0, first.start_byte) + 1 : first.start_byte]
            lead = b"; " if indent.strip() else b"\n" + indent
            edits.append((first.start_byte, first.start_byte, text + lead))
    return _edited(result, edits)


def _bodies(module: Node) -> Iterator[tuple[tuple[Scope, int], Node]]:
    """Yield a module and the bodies of its classes and functions, each with the names around it and its number.

    The number tells those of equal names, such as overloads, from the top.
    """
    bodies: list[tuple[Scope, Node]] = [((), module)]
    stack: list[tuple[Scope, Node]] = [((), module)]
    while stack:
        scope, node = stack.pop()
        for child in node.named_children:
            name, body = child.child_by_field_name("name"), child.child_by_field_name("body")
            inside = scope
            if child.type in {"class_definition", "function_definition"} and name is not None and body is not None:
                inside = (*scope, text_of(name))
                bodies.append((inside, body))
            stack.append((inside, child))
    numbers: Counter[Scope] = Counter()
    for scope, body in sorted(bodies, key=lambda scoped: scoped[1].start_byte):
        numbers[scope] += 1
        yield (scope, numbers[scope]), body


def _docstring(body: Node) -> Node | None:
    first = next((child for child in body.named_children if child.type != "comment"), None)
    strings = first.named_children if first is not None and first.type == "expression_statement" else []
    return strings[0] if [child.type for child in strings] == ["string"] else None


def has_in_line(path: str, source: bytes, line: int) -> bool:
    """Return whether a line of a file, from 1, belongs to a test."""
    spans = [span for spans in _Tests(path, source).spans.values() for span in spans]
    return any(source.count(b"\n", 0, start) < line <= source.count(b"\n", 0, end) + 1 for start, end in spans)


class _Tests:
    """Where the tests of a file stand."""

    def __init__(self, path: str, source: bytes) -> None:
        self.spans: dict[Scope, list[Span]] = {}
        self.ends: dict[Scope, int] = {}
        """Where the contents of each module end."""
        language = language_of(path)
        if language is not None:
            self._look(language.parse(source), (), len(source))

    def _look(self, body: Node, scope: Scope, end: int) -> None:
        self.ends[scope] = end
        for start, is_test, item in _items(body):
            if is_test:
                self.spans.setdefault(scope, []).append((start, item.end_byte))
            elif item.type == "mod_item" and (inner := item.child_by_field_name("body")) is not None:
                name = item.child_by_field_name("name")
                self._look(inner, (*scope, text_of(name) if name is not None else ""), inner.end_byte - 1)


def _items(body: Node) -> Iterator[tuple[int, bool, Node]]:
    """Yield each item of a module: where it begins with its attributes, whether one makes it a test, and the item."""
    start: int | None = None
    is_test = False
    for node in body.named_children:
        if node.type in _BESIDE:
            if node.type == "attribute_item":
                start = node.start_byte if start is None else start
                is_test = is_test or TEST_ATTRIBUTE.match(text_of(node)) is not None
            continue
        yield node.start_byte if start is None else start, is_test, node
        start, is_test = None, False
