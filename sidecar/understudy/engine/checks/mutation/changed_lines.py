"""Find the lines of a file that a result added or changed."""

from __future__ import annotations

import difflib

_MOST_LINES = 20_000
"""Comparing longer files takes too long; all their lines count as changed."""


def changed_lines(before: bytes | None, after: bytes) -> frozenset[int]:
    """Return the lines of ``after``, from 1, that ``before`` does not have at that place; all lines of a new file."""
    new = after.splitlines()
    if before is None:
        return frozenset(range(1, len(new) + 1))
    old = before.splitlines()
    if len(old) + len(new) > _MOST_LINES:
        return frozenset(range(1, len(new) + 1))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return frozenset(
        line + 1
        for kind, _, _, first, last in matcher.get_opcodes()
        if kind in {"insert", "replace"}
        for line in range(first, last)
    )
