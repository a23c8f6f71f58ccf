"""Numbers and texts in the code of a test, and similar ones to put in their places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.judge.injected.understudy_calls import next_to, similar
from understudy.mutants.languages.language import Language, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_NUMBER = re.compile(r"(\d[\d_]*(?:\.\d[\d_]*)?)([iuf]\d+|[iu]size)?")
_TEXT = re.compile(r"""(["'`])([^\\\n"'`]*)\1""")
"""A text without escapes."""
_NOT_PLAIN = re.compile(r"""[\\\n"'`$]""")
_LARGEST = (127, 255, 32_767, 65_535, 2**31 - 1, 2**53)
"""A compiler refuses numbers that do not fit their type, which is at least as large as one of these."""
_TYPES = frozenset({"array_type", "literal_type"})
_TYPED = frozenset({"go", "rust", "java"})
"""Languages that refuse a number its type cannot hold."""


@dataclass(frozen=True, kw_only=True)
class Literal:
    """A number or text, and similar ones as they are written."""

    start: int
    end: int
    value: float | str
    near: tuple[str, ...]
    """The numbers next to it."""
    others: tuple[str, ...]
    """Values like it; none for one that is often special, such as 0."""


def literal_of(language: Language, node: Node) -> Literal | None:
    """Return the literal that a node is; None if it has no similar ones, or is part of a type or of a place."""
    text = text_of(node)
    if node.parent is None or node.parent.type in _TYPES:
        return None
    value: float | str
    if node.type in language.numbers and (number := _NUMBER.fullmatch(text)) is not None:
        digits, suffix = number[1].replace("_", ""), number[2] or ""
        value = float(digits) if "." in digits else int(digits)
        if _is_position(node) or (len(digits) > 1 and digits[0] == "0" and isinstance(value, int)):
            return None
        others = tuple(f"{other}{suffix}" for other in _numbers(language, value, similar(value)))
        near = tuple(f"{other}{suffix}" for other in _numbers(language, value, next_to(value)))
    elif node.type in language.strings and (plain := _TEXT.fullmatch(text)) is not None:
        value, near = plain[2], ()
        texts = (other for other in similar(value) if not _NOT_PLAIN.search(other) and other != value)
        others = tuple(f"{plain[1]}{other}{plain[1]}" for other in dict.fromkeys(texts))
    else:
        return None
    if not others and not near:
        return None
    return Literal(start=node.start_byte, end=node.end_byte, value=value, near=near, others=others)


def _numbers(language: Language, value: float, others: Iterator[float]) -> Iterator[str]:
    typed = language.name in _TYPED
    largest = next((largest for largest in _LARGEST if value <= largest), None)
    for other in others:
        text = repr(other)
        fits = other >= 0 and (largest is None or other <= largest)
        if "e" not in text and (fits or not typed):
            yield text if other >= 0 else f"({text})"


def _is_position(node: Node) -> bool:
    """Return whether a number is the name of a field, such as ``pair.0`` in the tokens of a macro."""
    before = node.prev_sibling
    return before is not None and before.type == "." and node.start_byte == before.end_byte
