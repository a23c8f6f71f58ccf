"""Three-way merging of lines, hunk by hunk.

A line is its bytes up to and including the line feed; nothing is decoded. As in git's own merge, two changes that
overlap or touch are a conflict unless they are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from understudy.git.diff import LineRange


@dataclass(frozen=True, slots=True)
class Edit:
    """The lines ``start`` up to, not including, ``end`` (from zero) become ``lines``."""

    start: int
    end: int
    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Sides:
    """A conflict: the lines of one place in the base, with the hunk applied, and in the user's file."""

    base: bytes
    result: bytes
    yours: bytes


def split_lines(content: bytes) -> list[bytes]:
    """Return the lines, line feeds included; their concatenation is the content."""
    parts = content.split(b"\n")
    last = parts.pop()
    lines = [part + b"\n" for part in parts]
    return [*lines, last] if last else lines


def edits_of(ranges: Iterable[LineRange], added: Sequence[bytes]) -> list[Edit]:
    """Return the ranges of a diff as edits, taking the added lines from ``added`` in order.

    For an empty old side, the range starts at the line before.
    """
    edits = []
    position = 0
    for old_start, old_lines, _, new_lines in ranges:
        start = old_start - 1 if old_lines else old_start
        edits.append(Edit(start, start + old_lines, tuple(added[position : position + new_lines])))
        position += new_lines
    return edits


def reversed_edits(ranges: Iterable[LineRange], removed: Sequence[bytes]) -> list[Edit]:
    """Return the edits from the new side back to the old one."""
    return edits_of(((new, new_lines, old, old_lines) for old, old_lines, new, new_lines in ranges), removed)


def replace(lines: Sequence[bytes], edits: Iterable[Edit], start: int = 0, end: int | None = None) -> bytes:
    """Return the lines from ``start`` to ``end`` with the edits applied, which are inside and do not overlap."""
    parts: list[bytes] = []
    position = start
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += lines[position : edit.start]
        parts += edit.lines
        position = edit.end
    parts += lines[position : len(lines) if end is None else end]
    return b"".join(parts)


def merge_edits(base: Sequence[bytes], chosen: Sequence[Edit], user: Sequence[Edit]) -> tuple[bytes, dict[int, Sides]]:
    """Merge ``chosen`` edits of the base with the ``user``'s edits of the base.

    Return the contents without the chosen edits that conflict, and the conflicts by edit number, with three sides.
    """
    fresh: list[Edit] = []
    conflicts: dict[int, Sides] = {}
    for numbers, mine in _clusters(chosen, user):
        group = [chosen[number] for number in numbers]
        if not mine:
            fresh += [edit for edit in group if not any(_slid(base, edit, other) for other in user)]
        elif not _same(base, group, mine):
            for number in numbers:
                near = [other for other in mine if _touch(chosen[number], other)]
                if not _same(base, [chosen[number]], near):
                    conflicts[number] = _sides(base, chosen[number], near)
    return replace(base, [*user, *fresh]), conflicts


def _touch(a: Edit, b: Edit) -> bool:
    return a.start <= b.end and b.start <= a.end


def _clusters(chosen: Sequence[Edit], user: Sequence[Edit]) -> list[tuple[list[int], list[Edit]]]:
    """Return groups of chosen edits (by number) and of the user's edits that touch each other."""
    left = list(enumerate(chosen))
    clusters = []
    while left:
        number, first = left.pop(0)
        numbers, members, mine = [number], [first], [other for other in user if _touch(first, other)]
        grown = bool(mine)
        while grown:
            more = [(n, edit) for n, edit in left if any(_touch(edit, other) for other in mine)]
            left = [(n, edit) for n, edit in left if (n, edit) not in more]
            numbers += [n for n, _ in more]
            members += [edit for _, edit in more]
            wider = [other for other in user if any(_touch(edit, other) for edit in members)]
            grown = len(wider) > len(mine) or bool(more)
            mine = wider
        clusters.append((sorted(numbers), mine))
    return clusters


def _bounds(edits: Iterable[Edit]) -> tuple[int, int]:
    listed = list(edits)
    return min(edit.start for edit in listed), max(edit.end for edit in listed)


def _same(base: Sequence[bytes], ours: Sequence[Edit], theirs: Sequence[Edit]) -> bool:
    start, end = _bounds([*ours, *theirs])
    return replace(base, ours, start, end) == replace(base, theirs, start, end)


def _slid(base: Sequence[bytes], edit: Edit, other: Edit) -> bool:
    """Return whether the user's edit is the same edit at another of several equivalent places.

    An empty line added among empty lines can be reported at any of them, and two diffs may differ. Such a hunk is
    already in the user's file and must not be added twice.
    """
    insertion = edit.start == edit.end and other.start == other.end and sorted(edit.lines) == sorted(other.lines)
    deletion = (
        not edit.lines
        and not other.lines
        and sorted(base[edit.start : edit.end]) == sorted(base[other.start : other.end])
    )
    return (insertion or deletion) and _same(base, [edit], [other])


def _sides(base: Sequence[bytes], edit: Edit, mine: Sequence[Edit]) -> Sides:
    start, end = _bounds([edit, *mine])
    return Sides(b"".join(base[start:end]), replace(base, [edit], start, end), replace(base, mine, start, end))
