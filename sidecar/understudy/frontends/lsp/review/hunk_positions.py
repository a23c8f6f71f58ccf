"""Locate the hunks of a result in the text of its patch, and in a file that is open in an editor. No I/O.

Line numbers are LSP's, from zero: lines end with a line feed, a carriage return, or both. Git's lines end only with a
line feed, so a single carriage return in the contents makes the numbers differ.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Sequence

from understudy.frontends.lsp.editor.line_alignment import align
from understudy.frontends.lsp.review.review_document import Found, ReviewTarget
from understudy.model.hunks import FileDiff, Hunk

_RANGES = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INNER = re.compile(r"\r(?!$)")
_FILE = "diff --git "


# -- in a patch ----------------------------------------------------------------------------------------------------


def in_patch(text: str, files: Sequence[FileDiff]) -> list[Found]:
    """Return the lines of each hunk of a result in its patch, in order.

    A hunk without lines (a mode, binary contents, a rename without changes) gets the lines of the header. Lines before
    the first file are skipped. Files missing from the end of the patch are left out.
    """
    patch = _Lines(text)
    headers = [number for number, line in enumerate(patch.lines) if line.startswith(_FILE)]
    ends = [*headers[1:], patch.end]
    positions: list[Found] = []
    position = 0
    for file in files:
        count = 2 if file.status == "type" else 1  # a deletion and a creation
        if position + count > len(headers):
            break
        first, end = headers[position], ends[position + count - 1]
        position += count
        positions += _hunks_of(patch, file, first, end)
    return positions


def _hunks_of(patch: _Lines, file: FileDiff, start: int, end: int) -> list[Found]:
    def placed(hunk: Hunk, first: int, last: int) -> Found:
        return Found(ReviewTarget(file.path, hunk.id), patch.number(first), patch.last_of(last))

    body = next((number for number in range(start, end) if patch.lines[number].startswith("@@ ")), end)
    runs = _runs(patch.lines, body, end)
    if file.status != "modified" or file.binary:
        first, last = (runs[0][1], runs[-1][2]) if runs else (start, body - 1)
        return [placed(hunk, first, last) for hunk in file.hunks]
    places = {ranges: (first, last) for ranges, first, last in runs}
    positions = []
    for hunk in file.hunks:
        ranges = (hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines)
        place = places.get(ranges)
        if not any(ranges):
            modes = [
                number for number in range(start, body) if patch.lines[number].startswith(("old mode", "new mode"))
            ]
            place = (modes[0], modes[-1]) if modes else (start, body - 1)
        if place is not None:
            positions.append(placed(hunk, *place))
    return positions


def _runs(lines: Sequence[str], start: int, end: int) -> list[tuple[tuple[int, int, int, int], int, int]]:
    """Return the runs of changed lines: their ranges as in ``git diff -U0``, first and last line of the patch."""
    changed_runs = []
    old = new = 0
    number = start
    while number < end:
        line = lines[number]
        if match := _RANGES.match(line):
            # For an empty side, git gives the number of the line before it.
            old = int(match[1]) + (match[2] == "0")
            new = int(match[3]) + (match[4] == "0")
        elif line[:1] in {"+", "-"}:
            first, removed, added = number, 0, 0
            while number < end and lines[number][:1] in {"+", "-", "\\"}:
                removed += lines[number].startswith("-")
                added += lines[number].startswith("+")
                number += 1
            ranges = (old if removed else old - 1, removed, new if added else new - 1, added)
            changed_runs.append((ranges, first, number - 1))
            old, new = old + removed, new + added
            continue
        elif line.startswith(" "):
            old, new = old + 1, new + 1
        number += 1
    return changed_runs


# -- in an open text -----------------------------------------------------------------------------------------------


def landings(base: str, current: str, hunks: Iterable[Hunk]) -> list[tuple[int, int]]:
    """Return first and last line of each hunk of a modified file in ``current``, an edited version of ``base``.

    A hunk that only adds lines is at the line before them, and one that does not change lines (a mode) at line 0. Where
    the lines of a hunk were edited, this is the nearest position.
    """
    old, new = _Lines(base), _Lines(current)
    places = align([line.removesuffix("\r") for line in old.lines], [line.removesuffix("\r") for line in new.lines])
    unchanged = [number for number, place in enumerate(places) if place is not None]
    positions = []
    for hunk in hunks:
        first, last = 0, 0
        if hunk.old_lines or hunk.new_lines:
            first, last = _landing(places, unchanged, hunk, len(new.lines))
            first, last = new.number(first), new.last_of(last)
        positions.append((first, last))
    return positions


def _landing(places: Sequence[int | None], unchanged: Sequence[int], hunk: Hunk, count: int) -> tuple[int, int]:
    start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
    end = start + hunk.old_lines
    kept = [place for place in places[start:end] if place is not None]
    if kept:
        return kept[0], kept[-1]
    # The nearest unchanged lines before and after the hunk.
    left = bisect.bisect_left(unchanged, start) - 1
    right = bisect.bisect_left(unchanged, end)
    before = places[unchanged[left]] if left >= 0 else -1
    behind = places[unchanged[right]] if right < len(unchanged) else count
    assert before is not None  # noqa: S101 - lines in ``unchanged`` have a place
    assert behind is not None  # noqa: S101
    if not hunk.old_lines:
        return max(before, 0), max(before, 0)
    first = min(before + 1, count - 1)
    return first, max(first, behind - 1)


class _Lines:
    """A text split into git's lines, with their line numbers in LSP."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        inner = [len(_INNER.findall(line)) if "\r" in line else 0 for line in self.lines]
        self._more: list[int] = []
        """How many carriage returns are inside lines, up to and including each line."""
        total = 0
        for number in inner:
            total += number
            self._more.append(total)

    @property
    def end(self) -> int:
        """The number of lines, without an empty one after the last line feed."""
        return len(self.lines) - (not self.lines[-1])

    def number(self, line: int) -> int:
        """Return the first LSP line of a line."""
        return line + (self._more[line - 1] if line else 0)

    def last_of(self, line: int) -> int:
        """Return the last LSP line of a line."""
        return line + self._more[line]
