"""Where the hunks of a result are: in its patch as text, and in a file as somebody has it open. Pure.

Lines are those of LSP, from zero: they end with a line feed, a carriage return, or both. Git's end with a line feed,
so a single carriage return inside a line of contents makes the numbers differ.
"""

from __future__ import annotations

import bisect
import collections
import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from understudy.model.delegations import FileDiff, Hunk

_RANGES = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INNER = re.compile(r"\r(?!$)")
_FILE = "diff --git "
_SHORT = 1000
"""Lines between which difflib looks for the same ones; with many that are alike its time grows with the square."""
_BOUND = 10_000
"""Lines between which it looks where there is no better way."""


@dataclass(frozen=True, slots=True)
class InPatch:
    """A file (``hunk`` is None: header and all) or a hunk (its changed lines) in a patch: first and last line."""

    path: str
    hunk: str | None
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Landing:
    """Where a hunk would go in an open text: first and last line. What only adds lines names the line before."""

    hunk: str
    first: int
    last: int
    edited: bool
    """The lines that it replaces, or those around, are not what they were in the base: this is the nearest place."""


class Placed(Protocol):
    """Something that takes lines."""

    @property
    def first(self) -> int:
        """The first line, from zero."""
        ...

    @property
    def last(self) -> int:
        """The last line, which belongs to it."""
        ...


_Placed = TypeVar("_Placed", bound=Placed)


def at(places: Iterable[_Placed], first: int, last: int) -> list[_Placed]:
    """Return the places that share a line with the lines from ``first`` to ``last``."""
    return [place for place in places if place.first <= last and first <= place.last]


# -- in a patch ----------------------------------------------------------------------------------------------------


def in_patch(text: str, files: Sequence[FileDiff]) -> list[InPatch]:
    """Return where each file of a result and each of its hunks is in the patch that git made of it.

    Each file comes before its hunks, all in the order of lines. A hunk that has no lines of its own (a mode, binary
    contents, a rename without changes) has the header. What stands before the first file is passed over; a file that
    the patch does not reach any more is left out.
    """
    patch = _Lines(text)
    headers = [number for number, line in enumerate(patch.lines) if line.startswith(_FILE)]
    ends = [*headers[1:], patch.end]
    found: list[InPatch] = []
    position = 0
    for file in files:
        count = 2 if file.status == "type" else 1  # a deletion and a creation
        if position + count > len(headers):
            break
        first, end = headers[position], ends[position + count - 1]
        position += count
        found.append(InPatch(file.path, None, patch.number(first), patch.last_of(end - 1)))
        found += _hunks_of(patch, file, first, end)
    return found


def _hunks_of(patch: _Lines, file: FileDiff, start: int, end: int) -> list[InPatch]:
    body = next((number for number in range(start, end) if patch.lines[number].startswith("@@ ")), end)
    runs = _runs(patch.lines, body, end)
    if file.status != "modified" or file.binary:
        first, last = (runs[0][1], runs[-1][2]) if runs else (start, body - 1)
        return [InPatch(file.path, hunk.id, patch.number(first), patch.last_of(last)) for hunk in file.hunks]
    places = {ranges: (first, last) for ranges, first, last in runs}
    found = []
    for hunk in file.hunks:
        ranges = (hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines)
        place = places.get(ranges)
        if not any(ranges):
            modes = [
                number for number in range(start, body) if patch.lines[number].startswith(("old mode", "new mode"))
            ]
            place = (modes[0], modes[-1]) if modes else (start, body - 1)
        if place is not None:
            found.append(InPatch(file.path, hunk.id, patch.number(place[0]), patch.last_of(place[1])))
    return found


def _runs(lines: Sequence[str], start: int, end: int) -> list[tuple[tuple[int, int, int, int], int, int]]:
    """Return the runs of changed lines: their ranges as in ``git diff -U0``, first and last line of the patch."""
    found = []
    old = new = 0
    number = start
    while number < end:
        line = lines[number]
        if match := _RANGES.match(line):
            # An empty side names the line before it.
            old = int(match[1]) + (match[2] == "0")
            new = int(match[3]) + (match[4] == "0")
        elif line[:1] in {"+", "-"}:
            first, removed, added = number, 0, 0
            while number < end and lines[number][:1] in {"+", "-", "\\"}:
                removed += lines[number].startswith("-")
                added += lines[number].startswith("+")
                number += 1
            ranges = (old if removed else old - 1, removed, new if added else new - 1, added)
            found.append((ranges, first, number - 1))
            old, new = old + removed, new + added
            continue
        elif line.startswith(" "):
            old, new = old + 1, new + 1
        number += 1
    return found


# -- in an open text -----------------------------------------------------------------------------------------------


def landings(base: str, current: str, hunks: Iterable[Hunk], status: str = "modified") -> list[Landing]:
    """Return where each hunk of a file would go in ``current``, a text that was made of ``base`` by edits.

    ``status`` is the ``FileDiff``'s; what is not a change of lines (creation, deletion, mode, …) is at line 0.
    """
    wanted = list(hunks)
    if status not in {"modified", "renamed"} or not wanted:
        return [Landing(hunk.id, 0, 0, edited=False) for hunk in wanted]
    old, new = _Lines(base), _Lines(current)
    places = align([line.removesuffix("\r") for line in old.lines], [line.removesuffix("\r") for line in new.lines])
    known = [number for number, place in enumerate(places) if place is not None]
    found = []
    for hunk in wanted:
        if not hunk.old_lines and not hunk.new_lines:
            found.append(Landing(hunk.id, 0, 0, edited=False))
            continue
        first, last, edited = _landing(places, known, hunk, len(new.lines))
        found.append(Landing(hunk.id, new.number(first), new.last_of(last), edited=edited))
    return found


def align(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """Return for each line of ``old`` the same line in ``new``, in order; None for one that is not there any more.

    What both begin and end with comes first. Between that, short texts are compared as a whole, long ones at the lines
    that are there once in each (as patience diff does), so that time grows with the texts and not with their product.
    """
    found: list[int | None] = [None] * len(old)
    parts = [(0, len(old), 0, len(new))]
    while parts:
        start, end, low, high = parts.pop()
        while start < end and low < high and old[start] == new[low]:
            found[start] = low
            start, low = start + 1, low + 1
        while start < end and low < high and old[end - 1] == new[high - 1]:
            end, high = end - 1, high - 1
            found[end] = high
        if start == end or low == high:
            continue
        size = max(end - start, high - low)
        anchors = _once_in_both(old, new, range(start, end), range(low, high)) if size > _SHORT else []
        if not anchors:
            # Beyond the bound it counts as changed from end to end: there is hardly a line that is there once.
            near = difflib.SequenceMatcher(None, old[start:end], new[low:high]) if size <= _BOUND else None
            for block in near.get_matching_blocks() if near is not None else []:
                for number in range(block.size):
                    found[start + block.a + number] = low + block.b + number
            continue
        edges = [(start - 1, low - 1), *anchors, (end, high)]
        for (number, place), (following, behind) in itertools.pairwise(edges):
            if number >= start:
                found[number] = place
            parts.append((number + 1, following, place + 1, behind))
    return found


def _once_in_both(old: Sequence[str], new: Sequence[str], within: range, among: range) -> list[tuple[int, int]]:
    """Return a longest row of lines, in both orders, that are there once in each part."""
    places: dict[str, int] = {}
    for place in among:
        places[new[place]] = -1 if new[place] in places else place
    counts = collections.Counter(old[number] for number in within)
    pairs = [(number, places.get(old[number], -1)) for number in within if counts[old[number]] == 1]
    tails: list[int] = []
    rows: list[tuple[int, int, int]] = []
    ends: list[int] = []
    for number, place in pairs:
        if place < 0:
            continue
        position = bisect.bisect_left(tails, place)
        rows.append((number, place, ends[position - 1] if position else -1))
        tails[position : position + 1] = [place]
        ends[position : position + 1] = [len(rows) - 1]
    found = []
    row = ends[-1] if ends else -1
    while row >= 0:
        number, place, row = rows[row]
        found.append((number, place))
    return found[::-1]


def _landing(places: Sequence[int | None], known: Sequence[int], hunk: Hunk, count: int) -> tuple[int, int, bool]:
    """Return first and last line, and whether what is there was edited."""
    start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
    end = start + hunk.old_lines
    own = [place for place in places[start:end] if place is not None]
    if own:
        return own[0], own[-1], len(own) < hunk.old_lines or own[-1] - own[0] >= hunk.old_lines
    # The nearest lines that are still there, before and behind.
    left = bisect.bisect_left(known, start) - 1
    right = bisect.bisect_left(known, end)
    before = places[known[left]] if left >= 0 else -1
    behind = places[known[right]] if right < len(known) else count
    assert before is not None  # noqa: S101 - ``known`` are those that have a place
    assert behind is not None  # noqa: S101
    if hunk.old_lines:
        first = min(before + 1, count - 1)
        return first, max(first, behind - 1), True
    near = (known[left] == start - 1 if left >= 0 else start == 0) and behind == before + 1
    near = near and (known[right] == start if right < len(known) else start >= len(places))
    return max(before, 0), max(before, 0), not near


class _Lines:
    """A text in git's lines, and their numbers in LSP's."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        inner = [len(_INNER.findall(line)) if "\r" in line else 0 for line in self.lines]
        self._more: list[int] = []
        """Carriage returns inside lines, up to and with each line."""
        total = 0
        for number in inner:
            total += number
            self._more.append(total)

    @property
    def end(self) -> int:
        """The number of lines; what follows the last line feed counts only when there is something."""
        return len(self.lines) - (not self.lines[-1])

    def number(self, line: int) -> int:
        """Return where a line begins."""
        return line + (self._more[line - 1] if line else 0)

    def last_of(self, line: int) -> int:
        """Return where a line ends."""
        return line + self._more[line]
