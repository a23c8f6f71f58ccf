"""Simple paths to values in JSON: ``a.b``, ``a[0].b`` and ``a[*].b``, which yields a value for each element.

A name consists of letters, digits, ``_``, ``-`` and ``$``. There are no filters, slices or recursive steps, so that the
time to follow a path is bounded by its length and by ``MOST_VALUES``.
"""

from __future__ import annotations

import re
from typing import Any

MOST_CHARACTERS = 200
"""Longest path."""
MOST_VALUES = 100
"""The most values that a path with ``[*]`` yields; the rest is ignored."""

Step = str | int | None
"""The name of a member, the index of an element, or every element (None)."""

_NAME = re.compile(r"[A-Za-z0-9_$-]+")
_INDEX = re.compile(r"\[(\*|\d{1,4})\]")


class PathError(ValueError):
    """A text that is not a path; ``at`` is the index of the first character that does not belong."""

    def __init__(self, message: str, at: int) -> None:
        """Store the parts; ``message`` is the end of a sentence."""
        super().__init__(message)
        self.message = message
        self.at = at


def parse(text: str) -> tuple[Step, ...]:
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


def values(document: Any, steps: tuple[Step, ...]) -> list[Any]:
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
