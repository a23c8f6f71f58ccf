"""Take single statements out of code that a result replaces, where nothing smaller can be changed.

A lock, a decorator, a handler or a plain assignment has no mutant. If a refactoring drops it, what the tests noticed of
the lines around it says nothing about it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from understudy.mutants.languages.by_suffix import language_of
from understudy.mutants.python_declarations import python_syntax

_SILENT = re.compile(
    rb"^\W*$|^\W*(?:else|try|finally|do|begin|end|pass|import|from|use|package|export|func|fn|function|class|def|type|"
    rb"interface|struct|enum|impl|mod|namespace|case|default)\b|^\s*(?://|#|/?\*)"
)
"""Matches lines of other languages that do nothing by themselves, or only begin something."""
_EMPTY = frozenset({b"pass", b"..."})
_NOTHING = (ast.Import, ast.ImportFrom, ast.Pass, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, kw_only=True)
class Without:
    """A file without one of its statements."""

    line: int
    """The first line of the statement, from 1."""
    edits: tuple[tuple[int, int, bytes], ...]
    """The lines to replace, from 0 and with an exclusive end, and the text that takes their place."""

    def apply(self, source: bytes) -> bytes:
        """Return the source without the statement."""
        return without([self], source)


def without(statements: Iterable[Without], source: bytes) -> bytes:
    """Return a file without some of its statements."""
    lines = source.splitlines(keepends=True)
    edits = {edit for statement in statements for edit in statement.edits}
    for start, end, text in sorted(edits, reverse=True):
        lines[start:end] = [text]
    return b"".join(lines)


def kept_lines(places: Iterable[tuple[Sequence[bytes], Sequence[bytes]]]) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Return the lines that places have in the result, and which of them are there as often as in the base.

    ``places`` are the lines of each place before and after the change. Spaces around lines are left out, and the first
    line of a block of nothing: a lock around it does not do what it did.
    """
    added: Counter[bytes] = Counter()
    removed: Counter[bytes] = Counter()
    for before, after in places:
        removed.update(line.strip() for line in before)
        texts = [*(line.strip() for line in after), b""]
        added.update(text for text, following in pairwise(texts) if following not in _EMPTY or not text.endswith(b":"))
    return frozenset(added), frozenset(text for text in added if added[text] >= removed[text])


def dropped(
    path: str, source: bytes, lines: Collection[int], changed: Collection[int], kept: Collection[bytes]
) -> list[Without]:
    """Return the statements of ``source`` on some ``lines``, from 1, that cannot be changed and that the result drops.

    ``changed`` are the lines on which there are mutants; ``kept`` are the lines that the result has, without the spaces
    around them: a statement that moved, or that is indented otherwise, is not dropped.
    """
    texts = source.splitlines()
    statements = _of_python(source) if path.endswith(".py") else _of_lines(path, source, lines)
    return [
        statement
        for first, last, statement in statements
        if (numbers := range(first, last + 1))
        and all(number in lines and number not in changed for number in numbers)
        and not all(texts[number - 1].strip() in kept for number in numbers)
    ]


def released(path: str, before: bytes, after: bytes, lines: Collection[int]) -> list[Without]:
    """Return the locks and handlers of a function around a statement that is in front of or behind them in the result.

    ``lines`` are lines of ``before``, from 1. A statement that moves to another function can be called from inside.
    Only in Python.
    """
    if not path.endswith(".py"):
        return []
    guards: dict[tuple[str, bytes], set[bytes]] = {}
    for kept in _guarded(after).values():
        guards.setdefault((kept.function, kept.text), set()).update(kept.guards)
    guarded = _guarded(before)
    left = {
        statement.line: statement
        for number in sorted(lines)
        if (line := guarded.get(number)) is not None and (line.function, line.text) in guards
        for guard, statement in line.guards.items()
        if guard not in guards[line.function, line.text]
    }
    return list(left.values())


@dataclass
class _GuardedLine:
    text: bytes
    function: str = ""
    guards: dict[bytes, Without] = field(default_factory=dict)
    """The text of each lock or handler around it, and how that is left out."""


def _guarded(source: bytes) -> dict[int, _GuardedLine]:
    """Return the lines of a file, from 1."""
    tree = python_syntax(source)
    if tree is None:
        return {}
    texts = source.splitlines(keepends=True)
    lines = {number: _GuardedLine(text.strip()) for number, text in enumerate(texts, 1)}
    for node in ast.walk(tree):  # the outer ones first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for number in range(node.lineno, (node.end_lineno or 0) + 1):
                lines[number].function = node.name
        if not isinstance(node, ast.With | ast.AsyncWith | ast.Try):
            continue
        for guard in node.handlers if isinstance(node, ast.Try) else [node]:
            text, head = texts[guard.lineno - 1], _head(guard)
            if head is None or guard.body[0].lineno == guard.lineno:
                continue
            indented = text[: guard.col_offset] + head + b"\n"
            _, _, statement = _replaced(guard.lineno, guard.body[0].lineno - 1, indented)
            for number in range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1):
                lines[number].guards[text.strip()] = statement
    return lines


def _of_lines(path: str, source: bytes, lines: Collection[int]) -> Iterator[tuple[int, int, Without]]:
    """Yield each line that can be left out as a whole."""
    language = language_of(path)
    if language is None or language.parse(source).has_error:
        return
    texts = source.splitlines(keepends=True)
    for number in sorted(lines):
        if number <= len(texts) and not _SILENT.search(texts[number - 1].rstrip()):
            statement = Without(line=number, edits=((number - 1, number, b"\n"),))
            if not language.parse(statement.apply(source)).has_error:
                yield number, number, statement


def _of_python(source: bytes) -> Iterator[tuple[int, int, Without]]:
    """Yield the first and last line of the head of each statement, and how it is left out."""
    tree = python_syntax(source)
    if tree is None:
        return
    lines = source.splitlines(keepends=True)
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            yield _replaced(decorator.lineno, decorator.end_lineno or decorator.lineno, b"\n")
        if not isinstance(node, ast.stmt | ast.ExceptHandler) or isinstance(node, _NOTHING):
            continue
        indent = lines[node.lineno - 1][: node.col_offset]
        if indent.strip():
            continue  # it is not the first on its line
        body = getattr(node, "body", None)
        head = _head(node)
        if body and head is not None and body[0].lineno > node.lineno:
            yield _replaced(node.lineno, body[0].lineno - 1, indent + head + b"\n")
        elif body is None and not _does_nothing(node):
            yield _replaced(node.lineno, node.end_lineno or node.lineno, indent + b"pass\n")


def _replaced(first: int, last: int, text: bytes) -> tuple[int, int, Without]:
    return first, last, Without(line=first, edits=((first - 1, last, text),))


def _head(node: ast.AST) -> bytes | None:
    """Return the first line of a statement around others that does nothing to them; None if there is none."""
    match node:
        case ast.With() | ast.AsyncWith():
            return b"if True:"
        case ast.ExceptHandler(name=name):
            return b"except () as " + name.encode() + b":" if name else b"except ():"
        case ast.For(target=target):
            return b"for " + ast.unparse(target).encode() + b" in ():"
        case _:
            return None


def _does_nothing(node: ast.AST) -> bool:
    return (isinstance(node, ast.AnnAssign) and node.value is None) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
