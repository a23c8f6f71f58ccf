"""JSON whose numbers are written as they were read, also those that no float or 64-bit integer holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 1024 * 1024
"""The largest agent profile; those that programs wrote have a few kilobytes."""
MAX_DEPTH = 100
"""Deeper nesting is an accident or an attack; recursion within this stays below Python's own limit."""


@dataclass(frozen=True)
class Number:
    """A number that only its text represents exactly."""

    text: str


def loads(text: str, *, parse_constant: Callable[[str], Any]) -> Any:
    """Parse ``text``; a number whose value would be written in another way is a ``Number``."""
    return json.loads(text, parse_int=_integer, parse_float=_decimal, parse_constant=parse_constant)


def dumps(value: Any, level: int = 0) -> str:
    """Return ``value`` as JSON, indented by two spaces; it must not be nested deeper than ``MAX_DEPTH``."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value)
    around, inside = "\n" + "  " * level, "\n" + "  " * (level + 1)
    if isinstance(value, list):
        return "[" + ",".join(inside + dumps(item, level + 1) for item in value) + around + "]"
    members = (f"{inside}{_text(key)}: {dumps(item, level + 1)}" for key, item in value.items())
    return "{" + ",".join(members) + around + "}"


def depth(value: Any) -> int:
    """Return how many levels of lists and objects ``value`` has, without recursion."""
    deepest, stack = 0, [(value, 0)]
    while stack:
        item, level = stack.pop()
        if isinstance(item, dict | list):
            deepest = max(deepest, level + 1)
            stack += [(inner, level + 1) for inner in (item.values() if isinstance(item, dict) else item)]
    return deepest


def _integer(text: str) -> int | Number:
    # Above 18 digits, another reader may not hold it, and Python refuses thousands of them.
    return int(text) if len(text) <= 18 and str(int(text)) == text else Number(text)


def _decimal(text: str) -> float | Number:
    value = float(text)
    return value if repr(value) == text else Number(text)


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which is valid as an escape only
        return json.dumps(value)
    return json.dumps(value, ensure_ascii=False)
