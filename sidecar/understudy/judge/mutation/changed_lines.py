"""Find the lines of a file that a result added, changed or removed."""

from __future__ import annotations

import difflib

_MOST_LINES = 20_000
"""Comparing longer files takes too long; all their lines count as changed."""


def changed_lines(before: bytes | None, after: bytes) -> frozenset[int]:
    """Return the lines of ``after``, from 1, that ``before`` does not have at that place; all lines of a new file."""
    edits = _edits(before, after)
    if edits is None:
        return frozenset(range(1, len(after.splitlines()) + 1))
    return frozenset(line + 1 for _, _, first, last in edits for line in range(first, last))


def changed_places(path: str, before: bytes | None, after: bytes | None) -> list[str]:
    """Return each changed place of a file as ``path:line``, and what was removed as such; None: the file is gone."""
    if after is None:
        return [f"{path} (removed)"]
    edits = _edits(before, after)
    if edits is None:
        return [path]
    return [f"{path}:{first + 1}" + (" (removed)" if first == last else "") for _, _, first, last in edits]


def _edits(before: bytes | None, after: bytes) -> list[tuple[int, int, int, int]] | None:
    """Return the lines before and after each edit, as pairs from 0 with exclusive ends; None if all lines changed."""
    if before is None:
        return None
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _MOST_LINES:
        return None
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [places for kind, *places in matcher.get_opcodes() if kind != "equal"]  # type: ignore[misc]
