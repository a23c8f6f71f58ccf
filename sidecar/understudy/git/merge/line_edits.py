"""Three-way merging of lines, hunk by hunk.

A line is its bytes up to and including the line feed; nothing is decoded. As in git's own merge, two changes that
overlap or touch are a conflict unless they are equal, or one contains the other.

User edits that do not overlap the selected hunks are detected without running git (``disjoint_edits``): an accept takes
little more time than one start of git, so avoiding a start is worth this code. A file that the user edited elsewhere is
the usual case, and after the first accepted hunk every file is one. Only the clear case is decided here. If two
equivalent diffs could merge differently (the edits touch, could slide towards each other over equal lines, or the user
may have made the same change already), the result is None, and the caller runs git.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from understudy.git.diff import LineRange

STEPS = 20_000
"""Lines compared before giving up: a few milliseconds, as long as git takes."""
_WORD = re.compile(rb"[^\W_]|[\x80-\xff]")


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

    Return the contents without the chosen edits that conflict, and the conflicts by edit number, with three sides. An
    edit that the user's text contains already, alone or among other edits, is not made again.
    """
    fresh: list[Edit] = []
    made: list[Edit] = []
    conflicts: dict[int, Sides] = {}
    added = {line for edit in user for line in edit.lines}
    for numbers, mine in _clusters(chosen, user):
        group = [chosen[number] for number in numbers]
        if mine and _same(base, group, mine):
            made += group
            continue
        for number, edit in zip(numbers, group, strict=True):
            near = [other for other in mine if _touch(edit, other)]
            if _has_words(edit, added) and _contains(base, user, made, edit):
                made.append(edit)
            elif not mine:
                fresh += [edit] if not any(_slid(base, edit, other) for other in user) else []
            elif not _same(base, [edit], near):
                conflicts[number] = _sides(base, edit, near)
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


def _has_words(edit: Edit, lines: Container[bytes]) -> bool:
    """Return whether the edit adds lines that contain a word, all of them among ``lines``."""
    with_words = [edit.lines[number] for number in _words(edit)]
    return bool(with_words) and all(line in lines for line in with_words)


def _words(edit: Edit) -> list[int]:
    return [number for number, line in enumerate(edit.lines) if _WORD.search(line)]


def _contains(base: Sequence[bytes], user: Sequence[Edit], made: Sequence[Edit], edit: Edit) -> bool:
    """Return whether the user's text contains the lines of ``edit`` at their place, beside those of the edits ``made``.

    It does if the edit is on a shortest way from the base to it, with nothing between its lines. So a line that was
    added before or after them does not matter, although it makes them a part of another edit. Blank lines and brackets
    could be anybody's, and so could lines that are gone: they do not count.
    """
    now = split_lines(replace(base, user))
    every = [*made, edit]
    whole, rest = difference(base, now), difference(split_lines(replace(base, every)), now)
    if whole is None or rest is None or _size(whole) != _size(every) + _size(rest):
        return False
    start = edit.start + sum(len(other.lines) - other.end + other.start for other in made if other.end <= edit.start)
    words = _words(edit)
    first, last = start + words[0], start + words[-1] + 1
    return not any(other.start < last and first < other.end for other in rest)


def _size(edits: Iterable[Edit]) -> int:
    return sum(edit.end - edit.start + len(edit.lines) for edit in edits)


def _sides(base: Sequence[bytes], edit: Edit, mine: Sequence[Edit]) -> Sides:
    start, end = _bounds([edit, *mine])
    return Sides(b"".join(base[start:end]), replace(base, [edit], start, end), replace(base, mine, start, end))


def disjoint_edits(base: Sequence[bytes], chosen: Sequence[Edit], now: Sequence[bytes]) -> list[Edit] | None:
    """Return the edits from ``base`` to ``now`` if they do not overlap the ``chosen`` edits, else None."""
    user = difference(base, now)
    if user is None or not all(_clear(base, edit, user) for edit in chosen):
        return None
    gained, lost = _net(base, user)
    for edit in chosen:
        more, less = _net(base, [edit])
        if more <= gained and less <= lost:
            return None  # the user may have made it already, elsewhere among equal lines
    return user


def difference(old: Sequence[bytes], new: Sequence[bytes], steps: int = STEPS) -> list[Edit] | None:
    """Return a smallest set of edits from ``old`` to ``new`` (E. W. Myers 1986), None beyond ``steps`` steps."""
    first, most = 0, min(len(old), len(new))
    while first < most and old[first] == new[first]:
        first += 1
    last = 0
    while last < most - first and old[-1 - last] == new[-1 - last]:
        last += 1
    a, b = old[first : len(old) - last], new[first : len(new) - last]
    if not a or not b:
        return [Edit(first, first + len(a), tuple(b))] if a or b else []
    reached = {1: 0}
    rounds: list[dict[int, int]] = []
    for distance in range(len(a) + len(b) + 1):
        rounds.append(dict(reached))
        steps -= distance * 2
        for diagonal in range(-distance, distance + 1, 2):
            down = diagonal == -distance or (
                diagonal != distance and reached[diagonal - 1] < reached.get(diagonal + 1, -1)
            )
            x = reached[diagonal + 1] if down else reached[diagonal - 1] + 1
            y = start = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            steps -= y - start
            reached[diagonal] = x
            if x >= len(a) and y >= len(b):
                return _walked_back(rounds, a, b, first)
        if steps < 0:
            return None
    return None


def _walked_back(rounds: list[dict[int, int]], a: Sequence[bytes], b: Sequence[bytes], first: int) -> list[Edit]:
    """Return the edits of the path that was found, adjacent ones joined."""
    x, y = len(a), len(b)
    spans: list[tuple[int, int, int, int]] = []
    for distance in range(len(rounds) - 1, 0, -1):
        before = rounds[distance]
        diagonal = x - y
        down = diagonal == -distance or (diagonal != distance and before[diagonal - 1] < before.get(diagonal + 1, -1))
        came = diagonal + 1 if down else diagonal - 1
        old_x, old_y = before[came], before[came] - came
        new_x, new_y = (old_x, old_y + 1) if down else (old_x + 1, old_y)
        if spans and (spans[-1][0], spans[-1][2]) == (new_x, new_y):
            _, end, _, end_y = spans.pop()
            spans.append((old_x, end, old_y, end_y))
        else:
            spans.append((old_x, new_x, old_y, new_y))
        x, y = old_x, old_y
    return [Edit(first + start, first + end, tuple(b[top:bottom])) for start, end, top, bottom in reversed(spans)]


def _clear(base: Sequence[bytes], edit: Edit, user: Sequence[Edit]) -> bool:
    start, end = _reach(base, edit)
    for other in user:
        first, last = _reach(base, other)
        if first <= end and start <= last:
            return False
    return True


def _reach(base: Sequence[bytes], edit: Edit) -> tuple[int, int]:
    """Return how far up and down an edit could move because its lines equal those around it."""
    start, end, count = edit.start, edit.end, len(edit.lines)
    size = end - start
    up = down = 0
    if count:
        while up < start and base[start - 1 - up] == _cyclic(edit.lines, base, start, up):
            up += 1
        while end + down < len(base) and base[end + down] == (
            edit.lines[down] if down < count else base[end + down - count]
        ):
            down += 1
    if size:
        gone = 0
        while gone < start and base[start - 1 - gone] == base[end - 1 - gone]:
            gone += 1
        up, gone = max(up, gone), 0
        while end + gone < len(base) and base[start + gone] == base[end + gone]:
            gone += 1
        down = max(down, gone)
    return start - up, end + down


def _cyclic(lines: Sequence[bytes], base: Sequence[bytes], start: int, up: int) -> bytes:
    """Return the last inserted line after the edit moved up by ``up``."""
    return lines[-1 - up] if up < len(lines) else base[start - 1 - up + len(lines)]


def _net(base: Sequence[bytes], edits: Sequence[Edit]) -> tuple[Counter[bytes], Counter[bytes]]:
    """Return which lines were added and removed in total, independent of how the difference is split."""
    gained: Counter[bytes] = Counter()
    lost: Counter[bytes] = Counter()
    for edit in edits:
        gained.update(edit.lines)
        lost.update(base[edit.start : edit.end])
    return gained - lost, lost - gained
