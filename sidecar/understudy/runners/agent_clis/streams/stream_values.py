"""Read and write the values of an agent's JSON stream: bounded, and of the expected types."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

LONGEST_INPUT = 4000
"""Longest text kept of a tool's input, in characters; the change itself is in the worktree."""
MOST_ITEMS = 100
_MAX_COUNT = 10**12


class WorktreePaths:
    """Turns the paths that an agent names into paths relative to its worktree."""

    def __init__(self, tree: Path) -> None:
        """Accept paths below ``tree``, with or without its links resolved."""
        self._trees = [str(tree), os.path.realpath(tree)]

    def relative(self, path: str) -> str | None:
        """Return ``path`` relative to the worktree, None if it leads outside."""
        for tree in self._trees:
            relative = os.path.relpath(Path(tree, path), tree)
            if relative != ".." and not relative.startswith("../"):
                return relative
        return None


def bounded(value: Any, depth: int = 6) -> Any:
    """Return a tool's input with long texts, long lists and deep nesting cut to a readable size."""
    if isinstance(value, str):
        more = len(value) - LONGEST_INPUT
        return value if more <= 0 else f"{value[:LONGEST_INPUT]}… ({more} more characters)"
    if depth == 0:
        return None
    if isinstance(value, list):
        return [bounded(item, depth - 1) for item in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {str(name)[:200]: bounded(item, depth - 1) for name, item in list(value.items())[:MOST_ITEMS]}
    return value


def shortened(text: str, longest: int) -> str:
    """Return the beginning and the end of a text, with a count of the omitted characters between them."""
    more = len(text) - longest
    if more <= 0:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {more} characters are not shown here …\n{text[-half:]}"


def whole(value: Any, otherwise: int = 0) -> int:
    """Return ``value`` if it is a plausible count, else ``otherwise``."""
    return value if isinstance(value, int) and 0 <= value <= _MAX_COUNT else otherwise


def string(value: Any) -> str:
    """Return ``value`` if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def line_of(value: dict[str, Any]) -> bytes:
    """Return a JSON line."""
    return msgspec.json.encode(value) + b"\n"
