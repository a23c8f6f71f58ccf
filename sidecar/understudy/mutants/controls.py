"""Changes that show what mutants prove: sham mutants, which no test may notice, and reach probes, which end a process.

A sham mutant changes nothing that a program does. A test that fails on one reads the source or the compiled code,
counts its runs, or fails at random, so its failures on real mutants prove nothing. A test that compares files or code
cannot tell them from real mutants. A decoy has the text of real mutants, while the compiled original runs.

A reach probe is for test runners that do not report executed lines. Unlike a mutant it is not something that a test
should notice: a check that still passes does not execute the function.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.mutants.generate import BLOCKS, Mutant, still_parses
from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.language import Language, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_TEXTS = re.compile(r"string|template|regex|jsx|comment|token_tree")
"""Types of nodes in which a space can mean something: texts, and what macros of Rust take as it is written."""
_CALCULATION = re.compile(r"^(?:binary_|comparison_|boolean_)(?:operator|expression)$")
_WORDS = ("first", "last", "size", "total", "limit", "value", "index", "count", "offset", "state", "shape", "result")
_COMMENTS = frozenset({"comment", "line_comment", "block_comment"})
_STRINGS = frozenset({"string", "concatenated_string"})
_FIRST_IN_CONSTRUCTOR = "explicit_constructor_invocation"

_Insertion = tuple[int, int, bytes]
"""Start, end and text."""


def same_bytes(source: bytes) -> Mutant:
    """Return the sham mutant that changes nothing at all."""
    return _sham(source, len(source), b"")


def other_text(path: str, source: bytes, seed: str) -> Mutant:
    """Return the sham mutant of a file with wider spaces, a comment, and stores that nothing reads.

    Every function gets such a store; a file without functions gets one at its end, or another comment where the
    language has none. Of an unknown language, nothing changes. The names are chosen by ``seed``.
    """
    language = language_of(path)
    if language is None:
        return same_bytes(source)
    generator = random.Random(f"{seed} {path}")  # noqa: S311 - reproducible by design

    def phrase(separator: str) -> str:
        return separator.join(generator.sample(_WORDS, 3))

    lead = "" if not source or source.endswith((b"\n", b"\r")) else "\n"
    comment = f"{lead}{language.comment % phrase(' ')}\n".encode()
    text = _with_spaces(language, source) + comment
    if not still_parses(path, source, _sham(source, 0, text)):
        text = source + comment
    stores = _with_stores(language, text, phrase("_"))
    if stores == text or not still_parses(path, source, _sham(source, 0, stores)):
        stores = text + f"{(language.dead_store or language.comment) % phrase('_')}\n".encode()
    return _sham(source, 0, stores)


def decoy(source: bytes, mutants: Iterable[Mutant]) -> Mutant:
    """Return a text with all mutants that do not overlap. It is never run: a test that fails on it reads the text."""
    text, changed_from = source, len(source) + 1
    for mutant in sorted(mutants, reverse=True):
        if mutant.end < changed_from:
            text, changed_from = mutant.apply(text), mutant.start
    return _sham(source, 0, text)


def _sham(source: bytes, start: int, text: bytes) -> Mutant:
    line = source.count(b"\n") + 1
    return Mutant(
        start=start,
        end=len(source),
        text=text,
        operator="sham",
        line=line,
        first_line=line,
        last_line=line,
        function="",
    )


def _with_spaces(language: Language, source: bytes) -> bytes:
    """Return the source with another space wherever a space separates two words or signs of a line.

    Names that are compared or calculated with get parentheses, for tests that search for an expression of any width.
    """
    pieces, end = [], 0
    for node in _words(language.parse(source)):
        start, stop = node.start_byte, node.end_byte
        gap, word = source[end:start], source[start:stop]
        if end and gap and not gap.strip(b" "):
            gap += b" "
        if node.type == "identifier" and node.parent is not None and _CALCULATION.search(node.parent.type):
            word = b"(%s)" % word
        pieces += [gap, word]
        end = stop
    return b"".join(pieces) + source[end:]


def _words(root: Node) -> Iterator[Node]:
    """Yield the words and signs of a file, each text as one."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.children and not _TEXTS.search(node.type):
            pending.extend(reversed(node.children))
        elif node.start_byte < node.end_byte:
            yield node


def _with_stores(language: Language, source: bytes, name: str) -> bytes:
    """Return the source with a store before the last statement of every function."""
    changed = source
    for place in sorted(_places(language, language.parse(source), source), reverse=True):
        store = language.local_store % name
        if not store.endswith(" "):
            start = changed.rfind(b"\n", 0, place) + 1
            store = f"{store}\n{changed[start:place].decode('utf-8', 'replace')}"
        changed = changed[:place] + store.encode() + changed[place:]
    return changed


def _places(language: Language, root: Node, source: bytes) -> Iterator[int]:
    pending = [root]
    while pending:
        node = pending.pop()
        pending.extend(node.children)
        body = node.child_by_field_name("body") if node.type in language.functions else None
        if body is None or not BLOCKS.search(body.type) or language.observed_locals.search(text_of(node)):
            continue
        # In the grammar of Go, the statements of a block are in a list of their own.
        inner = body.named_children[0] if body.named_child_count == 1 else body
        block = inner if inner.type == "statement_list" else body
        statements = [child for child in block.named_children if "comment" not in child.type]
        if not statements or language.skip(statements[-1]) or "constructor_invocation" in statements[-1].type:
            continue
        start = statements[-1].start_byte
        own_line = not source[source.rfind(b"\n", 0, start) + 1 : start].strip()
        if own_line or language.local_store.endswith(" "):
            yield start


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
    return statement.type == "expression_statement" and inner is not None and inner.type in _STRINGS
