"""Align the lines of two versions of a text. Pure."""

from __future__ import annotations

import bisect
import collections
import difflib
import itertools
import re
from collections.abc import Sequence

_LONGEST_COMPARED = 10_000
"""Lines that difflib compares at most; with many equal lines its time grows with the square."""


def lines_of(text: str) -> list[str]:
    """Return the lines without their ends: line feed, carriage return, or both (LSP 3.17)."""
    return re.split(r"\r\n|\n|\r", text)


def align(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """Return, for each line of ``old``, the number of the same line in ``new``, increasing; None for a removed line.

    What both texts begin and end with is matched first, then lines that occur once in each (as patience diff does), so
    that repeated lines never hide them. Between those, the same is done again, and difflib compares the rest.
    """
    matches: list[int | None] = [None] * len(old)
    parts = [(0, len(old), 0, len(new))]
    unique = _once_in_both(old, new, range(len(old)), range(len(new)))
    while parts:
        start, end, low, high = parts.pop()
        while start < end and low < high and old[start] == new[low]:
            matches[start] = low
            start, low = start + 1, low + 1
        while start < end and low < high and old[end - 1] == new[high - 1]:
            end, high = end - 1, high - 1
            matches[end] = high
        # Lines that are unique in the whole texts come before those that are unique in this part only.
        anchors = [(number, place) for number, place in unique if start <= number < end]
        unique = []
        if not anchors:
            anchors = _once_in_both(old, new, range(start, end), range(low, high))
        if anchors:
            edges = [(start - 1, low - 1), *anchors, (end, high)]
            for (number, place), (following, behind) in itertools.pairwise(edges):
                if number >= start:
                    matches[number] = place
                parts.append((number + 1, following, place + 1, behind))
        elif start < end and low < high and max(end - start, high - low) <= _LONGEST_COMPARED:
            for block in difflib.SequenceMatcher(None, old[start:end], new[low:high]).get_matching_blocks():
                for number in range(block.size):
                    matches[start + block.a + number] = low + block.b + number
    return matches


def _once_in_both(old: Sequence[str], new: Sequence[str], within: range, among: range) -> list[tuple[int, int]]:
    """Return the longest sequence of lines that occur once in each part, in the same order in both."""
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
    common = []
    row = ends[-1] if ends else -1
    while row >= 0:
        number, place, row = rows[row]
        common.append((number, place))
    return common[::-1]
