"""Find out whether tests execute a function at all: make it end its process.

A reach probe is for test runners that do not report executed lines. Unlike a mutant it is not something that a test
should notice: a check that still passes does not execute the function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import Language
from understudy.mutants.mutant import Mutant

if TYPE_CHECKING:
    from tree_sitter import Node

_COMMENTS = frozenset({"comment", "line_comment", "block_comment"})
_TEXTS = frozenset({"string", "concatenated_string"})
_FIRST_IN_CONSTRUCTOR = "explicit_constructor_invocation"

_Insertion = tuple[int, int, bytes]
"""Start, end and text."""


@dataclass(frozen=True, kw_only=True)
class ReachProbe:
    """A file in which one function ends its process."""

    function: int
    """Where the function begins, in bytes: mutants of the same function have the same probe."""
    source: bytes
    one_line: bool
    """The function begins and ends on the same line."""


def reach_probe(path: str, source: bytes, mutant: Mutant) -> ReachProbe | None:
    """Return the probe of the innermost function around a mutant; None if it is outside functions."""
    language = language_of(path)
    if language is None:
        return None
    root = language.parse(source)
    at: Node | None = root.descendant_for_byte_range(mutant.start, max(mutant.start, mutant.end))
    while at is not None:
        body = at.child_by_field_name("body") if at.type in language.functions or at.type in language.results else None
        insertion = _insertion(language, source, at, body) if body is not None else None
        if insertion is not None:
            insertions = [insertion, *_import(language, root)]
            for start, end, text in sorted(insertions, reverse=True):
                source = source[:start] + text + source[end:]
            return ReachProbe(function=at.start_byte, source=source, one_line=at.start_point[0] == at.end_point[0])
        at = at.parent
    return None


def _import(language: Language, root: Node) -> list[_Insertion]:
    after = next((child for child in root.children if child.type == language.abort_import_after), None)
    return [(after.end_byte, after.end_byte, language.abort_import.encode())] if after is not None else []


def _insertion(language: Language, source: bytes, function: Node, body: Node) -> _Insertion | None:
    abort = language.abort.encode()
    first = next((child for child in body.named_children if child.type not in _COMMENTS), None)
    if body.child_count and body.children[0].type == "{":
        at = body.start_byte + 1
        if first is not None and (_is_text(first) or first.type == _FIRST_IN_CONSTRUCTOR):
            at = first.end_byte  # a directive, or a call of another constructor, must come first
        return at, at, b" " + abort
    if body.type == "block":
        return _indented(source, function, first, abort) if first is not None else None
    if function.type in language.results and language.abort_first:
        value = source[body.start_byte : body.end_byte]
        return body.start_byte, body.end_byte, language.abort_first.encode().replace(b"%s", value)
    return None


def _indented(source: bytes, function: Node, first: Node, abort: bytes) -> _Insertion:
    """Return the insertion for a language in which blocks are indented; it comes after a docstring."""
    line_start = source.rfind(b"\n", 0, first.start_byte) + 1
    indent = source[line_start : first.start_byte]
    if line_start <= function.start_byte or indent.strip():  # the body begins on a line of the function's head
        return first.start_byte, first.start_byte, abort + b"; "
    if _is_text(first):
        return first.end_byte, first.end_byte, b"\n" + indent + abort
    return first.start_byte, first.start_byte, abort + b"\n" + indent


def _is_text(statement: Node) -> bool:
    inner = statement.named_children[0] if statement.named_child_count == 1 else None
    return statement.type == "expression_statement" and inner is not None and inner.type in _TEXTS
