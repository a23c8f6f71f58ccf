"""Decode JSON that other programs wrote (agents, model servers, clients), and follow simple paths to its values.

A path is ``a.b``, ``a[0].b`` or ``a[*].b``, which yields a value for each element. A name consists of letters, digits,
``_``, ``-`` and ``$``. There are no filters, slices or recursive steps, so that the time to follow a path is bounded by
its length and by ``MOST_VALUES``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What ``decode`` raises for data that is not JSON, is nested too deeply, or has another structure."""
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    rb"|.)",  # any other escape, also that of a backslash
    re.DOTALL,
)
MOST_CHARACTERS = 200
"""Longest path."""
MOST_VALUES = 100
"""The most values that a path with ``[*]`` yields; the rest is ignored."""
Step = str | int | None
"""The name of a member, the index of an element, or every element (None)."""
_NAME = re.compile(r"[A-Za-z0-9_$-]+")
_INDEX = re.compile(r"\[(\*|\d{1,4})\]")


def decode(data: bytes | str, decoder: Callable[[bytes], Any] = msgspec.json.decode) -> Any:
    """Return a JSON value, with U+FFFD for what no text contains: bytes that are not UTF-8, halves of surrogate pairs.

    Programs in JavaScript write half a pair whenever they cut a text inside an emoji, and msgspec refuses the line.
    Raises ``UNREADABLE``.
    """
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
    try:
        return decoder(raw)
    except (msgspec.ValidationError, RecursionError):
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return decoder(with_whole_pairs(raw).decode("utf-8", "replace").encode())


def with_whole_pairs(data: bytes) -> bytes:
    r"""Return JSON with ``\ufffd`` for each escape that is half of a surrogate pair."""
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)


class PathError(ValueError):
    """A text that is not a path; ``at`` is the index of the first character that does not belong."""

    def __init__(self, message: str, at: int) -> None:
        """Store the parts; ``message`` is the end of a sentence."""
        super().__init__(message)
        self.message = message
        self.at = at


def parse_path(text: str) -> tuple[Step, ...]:
    """Return the steps of a path; raise ``PathError`` for anything else."""
    if len(text) > MOST_CHARACTERS:
        raise PathError(f"is longer than {MOST_CHARACTERS} characters", MOST_CHARACTERS)
    steps: list[Step] = []
    at = 0
    while at < len(text) or not steps:
        if steps and text[at] == "[":
            index = _INDEX.match(text, at)
            if index is None:
                raise PathError("has brackets with neither an index nor `*`", at)
            steps.append(None if index[1] == "*" else int(index[1]))
            at = index.end()
            continue
        if steps:
            if text[at] != ".":
                raise PathError(f"has an unexpected {text[at]!r}", at)
            at += 1
        name = _NAME.match(text, at)
        if name is None:
            raise PathError("has no name here", at)
        steps.append(name[0])
        at = name.end()
    return tuple(steps)


def values_at(document: Any, steps: tuple[Step, ...]) -> list[Any]:
    """Return the values at a path, in order; a step that does not exist, and ``null``, yield none."""
    current = [document]
    for step in steps:
        following: list[Any] = []
        for value in current:
            if step is None:
                following += value[:MOST_VALUES] if isinstance(value, list) else []
            elif isinstance(step, int):
                following += value[step : step + 1] if isinstance(value, list) else []
            elif isinstance(value, dict) and step in value:
                following.append(value[step])
        current = following[:MOST_VALUES]
    return [value for value in current if value is not None]
