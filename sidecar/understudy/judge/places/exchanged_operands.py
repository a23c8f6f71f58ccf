"""Find lines that a result keeps, but for an operand: another number, text, variable or side of an edge.

Such a line is not written otherwise, it does something else. That tests noticed other changes of it before says nothing
about this one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from understudy.mutants.generate import is_docstring
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import Language, text_of
from understudy.mutants.languages.python import PYTHON
from understudy.mutants.python_declarations import plain_annotations

if TYPE_CHECKING:
    from tree_sitter import Node

_EDGES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_COMMUTATIVE = frozenset({"+", "*", "==", "!=", "===", "!==", "&", "|", "^", "&&", "||", "and", "or"})
"""Operators with two sides. A sum of texts depends on their order, but looks like a sum of numbers."""
_NAMES = frozenset({"identifier"})
_WORDS = frozenset({"true", "false", "none", "null", "nil", "undefined", "boolean_literal"})
_CALLED = frozenset({"function", "attribute", "field", "property", "name", "type", "macro"})
"""Fields of a node that hold what is called, declared or looked up, and no operand."""
_PARTS_OF_TEXTS = frozenset(
    {"string_content", "string_fragment", "escape_sequence", "format_specifier", "regex_pattern"}
)

_Word = tuple[str, str, "Node"]
"""What can take its place, its text, and where it is."""


def exchanged_operand(
    path: str,
    before: bytes,
    after: bytes,
    removed: Collection[int],
    added: Collection[int],
    *,
    docstrings_run: bool = False,
    annotations_run: bool = False,
) -> str | None:
    """Return an operand of the base that another one takes the place of, on a line that is the same otherwise.

    ``removed`` and ``added`` are the lines of a place, from 1. A variable with another name that the function no longer
    uses is renamed. Docstrings and annotations of plain types are left out, unless something reads them.
    """
    language = language_of(path)
    if language is None:
        return None
    old, new = (
        _words(language, source, lines, docstrings_run=docstrings_run, annotations_run=annotations_run)
        for source, lines in ((before, removed), (after, added))
    )
    old_lines, new_lines = [_masked(line) for line in old], [_masked(line) for line in new]
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for at, to, count in matcher.get_matching_blocks():
        for pair in zip(old[at : at + count], new[to : to + count], strict=True):
            for text, other in _exchanged(*pair):
                # A number can get a name, or the other way round.
                if text.isidentifier() == other.isidentifier() or not _on_one_line(
                    language, (before, after), text, other
                ):
                    return text
    return None


def _on_one_line(language: Language, sources: Iterable[bytes], *words: str) -> bool:
    """Return whether a line of one of some files has all of these words, such as that of a constant with its value."""
    for source in sources:
        lines = _words(language, source, range(1, source.count(b"\n") + 2))
        if any(set(words) <= {text for _, text, _ in line} for line in lines):
            return True
    return False


def _exchanged(old: list[_Word], new: list[_Word]) -> list[tuple[str, str]]:
    """Return the words of a line that others take the place of, each with the other one."""
    differing = [(kind, text, other, node) for (kind, text, _), (_, other, node) in zip(old, new, strict=True)]
    differing = [pair for pair in differing if pair[1] != pair[2]]
    if any(kind == "edge" and _EDGES[text] != other for kind, text, other, _ in differing):
        return []  # its sides are exchanged, too
    if _are_sides(differing):
        return []
    return [
        (text, other)
        for kind, text, other, node in differing
        if kind != "operand" or not text.isidentifier() or _uses(node, text)
    ]


def _are_sides(differing: list[tuple[str, str, str, Node]]) -> bool:
    """Return whether only the sides of an operator changed places that gives the same for both orders."""
    if [(text, other) for _, text, other, _ in differing] != [(other, text) for _, text, other, _ in differing[::-1]]:
        return False
    parents = {node.parent for _, _, _, node in differing}
    operators = {text_of(child) for node in parents if node is not None for child in node.children}
    return len(parents) == 1 and len(differing) == 2 and bool(operators & _COMMUTATIVE)


def _masked(line: list[_Word]) -> tuple[str, ...]:
    return tuple(kind or text for kind, text, _ in line)


def _words(
    language: Language,
    source: bytes,
    lines: Collection[int],
    *,
    docstrings_run: bool = True,
    annotations_run: bool = True,
) -> list[list[_Word]]:
    """Return the words of each line that has some."""
    by_line: dict[int, list[_Word]] = {}
    python = language is PYTHON
    types = plain_annotations(source) if python and not annotations_run else frozenset[tuple[int, int]]()

    def is_read_by_nothing(node: Node) -> bool:
        if node.type == "type":
            return (node.start_point[0] + 1, node.start_point[1]) in types
        return python and not docstrings_run and is_docstring(node)

    for node in _leaves(language, language.parse(source), is_read_by_nothing):
        line = node.start_point[0] + 1
        if line in lines and "comment" not in node.type:
            by_line.setdefault(line, []).append((_kind(language, node), text_of(node), node))
    return [by_line[line] for line in sorted(by_line)]


def _leaves(language: Language, node: Node, is_left_out: Callable[[Node], bool]) -> Iterator[Node]:
    stack = [node]
    while stack:
        node = stack.pop()
        if is_left_out(node):
            continue
        if not node.children or node.type in language.numbers or _is_text(language, node):
            yield node
        else:
            stack.extend(reversed(node.children))


def _is_text(language: Language, node: Node) -> bool:
    """Return whether a node is a text without anything that is calculated."""
    named = [child.type for child in node.named_children]
    return node.type in language.strings and not any(kind.endswith(("interpolation", "substitution")) for kind in named)


def _kind(language: Language, node: Node) -> str:
    """Return what an operand can be exchanged for; empty for a word that is not an operand."""
    if node.type in _PARTS_OF_TEXTS or node.type in language.strings:
        return "text"
    if node.type in _EDGES:
        return "edge"
    if node.type in language.numbers or node.type in _WORDS:
        return "operand"
    if node.type not in _NAMES or node.parent is None:
        return ""
    fields = (node.parent.field_name_for_child(at) for at, child in enumerate(node.parent.children) if child == node)
    return "" if any(field in _CALLED for field in fields) else "operand"


def _uses(node: Node, name: str) -> bool:
    """Return whether the function around a node, or the file, has a name."""
    around: Node = node
    while around.parent is not None and not any(word in around.type for word in ("function", "method", "lambda")):
        around = around.parent
    stack = [around]
    while stack:
        node = stack.pop()
        if not node.children and text_of(node) == name:
            return True
        stack.extend(node.children)
    return False
