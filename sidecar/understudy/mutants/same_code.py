"""Compare what two versions of a file run: their syntax without comments and docstrings."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.languages.python import PYTHON

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_BYTES = 2 * 1024 * 1024
_TEXT = re.compile(r"string|template|regex|char")
"""Matches the types of nodes whose spaces matter, and whose text is not only that of the nodes below."""
_DIRECTIVE = re.compile(
    rb"^(?://go:|// \+build\b|#!|#.*coding[:=]|///|//!|/\*[*!][^/]*```)|@(?:jest|vitest|jsx|ts-)|"
    rb"\b(?:noqa|nolint|nosec|type: *ignore|pragma: *no cover|eslint-disable|istanbul ignore|[cv]8 ignore)\b|"
    rb"\b(?:mypy|pylint|pyright|flake8|ruff):"
)
"""Matches comments that decide what is built, run or checked, and those that contain tests (Rust)."""


def runs_the_same(path: str, before: bytes | None, after: bytes | None) -> bool:
    """Return whether two versions of a file differ at most in spaces, comments and docstrings; None: it does not exist.

    The suffix of ``path`` decides the language. Files in unknown languages, with errors, or above 2 MiB must be equal.
    """
    old, new = before or b"", after or b""
    language = language_of(path)
    if old == new:
        # A new empty module changes nothing; without it, a package may not be found.
        return (before is None) == (after is None) or (before is None and language is not None)
    if after is None or language is None or max(len(old), len(new)) > _MOST_BYTES:
        return False
    roots = language.parse(old), language.parse(new)
    if any(root.has_error for root in roots) or (language is PYTHON and _parses(old) != _parses(new)):
        return False
    docstrings = language is PYTHON and b"__doc__" not in old + new
    trees = (_syntax(root, source, docstrings) for root, source in zip(roots, (old, new), strict=True))
    return list(next(trees)) == list(next(trees))


def _syntax(root: Node, source: bytes, docstrings: bool) -> Iterator[bytes | str]:
    """Yield the types and texts of all nodes that run, each with the end of its children."""
    stack: list[Node | str] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            yield node
            continue
        text = node.text or b""
        if "comment" in node.type and not _DIRECTIVE.search(text):
            continue
        if docstrings and _is_docstring(node):
            continue
        yield node.type
        stack.append("end")
        if not node.children or _TEXT.search(node.type):
            yield from filter(None, [text])
        else:
            yield from _between(node, source)
            stack += reversed(node.children)


def _between(node: Node, source: bytes) -> Iterator[bytes]:
    """Yield the text of a node that belongs to none of its children."""
    at = node.start_byte
    for child in node.children:
        if gap := source[at : child.start_byte].strip():
            yield gap
        at = child.end_byte
    if gap := source[at : node.end_byte].strip():
        yield gap


def _is_docstring(node: Node) -> bool:
    if node.type != "expression_statement" or [child.type for child in node.named_children] != ["string"]:
        return False
    above = node.parent
    if above is None or above.type not in {"module", "block"}:
        return False
    first = next((child for child in above.named_children if child.type != "comment"), None)
    return first == node and not (node.text or b"").lstrip(b"rRuU")[:1].isalpha()  # an f-string runs code


def _parses(source: bytes) -> bool:
    """Return whether Python itself accepts a source: the grammar knows no wrong indentation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
