"""``review.diff`` as it stands in an editor, with what the person wrote into it. Pure: texts in, places and words out.

LSP has no way to ask for a sentence, but every editor can type one. A line that begins with ``>`` is the person's: no
line of a patch begins so. It belongs to what it stands in or below::

    # head                          > the whole work
    diff --git a/calc.py b/calc.py  > this file
    @@ -1,7 +1,7 @@                 > the change that follows, from here on to where the next one begins
    -    return a+b
    +    return a + b

The places are those of the text in the editor, whatever the person did to it: its lines are aligned with the ones that
Understudy wrote.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from understudy.git import names

MARK = ">"
"""What a line of the person begins with."""
WORDS_CHARACTERS = 20_000
"""Of what was written about one change; nobody types more, and a pasted log helps nobody."""

_FILE = "diff --git "
_HUNK = "@@ "
_INNER = re.compile(r"\r(?!$)")


@dataclass(frozen=True, slots=True)
class Spot:
    """What a line is about: a change, a file (no ``hunk``), or the whole work (no ``path``)."""

    path: str | None = None
    hunk: str | None = None


WHOLE = Spot()


@dataclass(frozen=True, slots=True)
class Found:
    """Where a change is in the patch: its first and last line, both from zero, as LSP counts."""

    spot: Spot
    first: int
    last: int


class Printed:
    """``review.diff`` as Understudy wrote it."""

    def __init__(self, text: str, found: Iterable[Found]) -> None:
        """Find out what each line is about."""
        self.lines = lines_of(text)
        if not self.lines[-1]:
            self.lines.pop()  # behind the last line feed is nothing of ours
        self.found = sorted(found, key=lambda one: one.first)
        self.owners = self._owners(_true_starts(text))

    def _owners(self, starts: Sequence[bool]) -> list[Spot]:
        files = [number for number, line in enumerate(self.lines) if starts[number] and line.startswith(_FILE)]
        inner = [number for number, line in enumerate(self.lines) if starts[number] and line.startswith(_HUNK)]
        begins = dict.fromkeys(files, WHOLE)
        before = -1
        for one in self.found:
            if (header := _last(files, before, one.first)) is not None:
                begins[header] = Spot(one.spot.path)
                before = max(before, header)
            ranges = _last(inner, before, one.first)
            begins[one.first if ranges is None else ranges] = one.spot
            before = one.last
        owners, spot = [], WHOLE
        for number in range(len(self.lines)):
            spot = begins.get(number, spot)
            owners.append(spot)
        return owners


def _last(numbers: Sequence[int], after: int, until: int) -> int | None:
    """Return the last of the sorted ``numbers`` in ``after < number <= until``."""
    place = bisect.bisect_right(numbers, until)
    return numbers[place - 1] if place and numbers[place - 1] > after else None


class Sheet:
    """The same in the editor."""

    def __init__(self, printed: Printed, text: str) -> None:
        """Align the text of the editor with what Understudy wrote."""
        lines = lines_of(text)
        places = align(printed.lines, lines)
        back = {place: number for number, place in enumerate(places) if place is not None}
        self.owners: list[Spot] = []
        words: dict[Spot, list[str]] = {}
        spot = WHOLE
        for number, line in enumerate(lines):
            if number in back:
                spot = printed.owners[back[number]]
            elif line.startswith(MARK):
                words.setdefault(spot, []).append(line.removeprefix(MARK).strip())
            self.owners.append(spot)
        self.words: dict[Spot, str] = {
            spot: said for spot, each in words.items() if (said := "\n".join(each).strip()[:WORDS_CHARACTERS])
        }
        """What the person wrote about each spot, as far as they wrote anything."""
        self.lines: dict[Spot, int] = {}
        """The first line of each change that is still there."""
        self.texts = lines
        for one in printed.found:
            place = next((place for place in places[one.first : one.last + 1] if place is not None), None)
            if place is not None:
                self.lines[one.spot] = place

    def at(self, first: int, last: int) -> list[Spot]:
        """Return what the lines from ``first`` to ``last`` are about, in their order; changes before all else."""
        end = max(first, last) + 1
        spots = list(dict.fromkeys(self.owners[max(first, 0) : end])) or ([self.owners[-1]] if self.owners else [WHOLE])
        return [spot for spot in spots if spot.hunk is not None] or spots

    def why(self, spot: Spot) -> str | None:
        """Return what the person wrote about a change, else about its file."""
        return self.words.get(spot) or (self.words.get(Spot(spot.path)) if spot.path is not None else None)


def letter(words: Mapping[Spot, str], lines: Mapping[Spot, int], told: Mapping[Spot, str | None]) -> str:
    """Return what the person wrote as one text: about the whole first, then file by file and change by change.

    ``lines``: a change's line in its file, from one. ``told``: reasons that the agent gets anyway; the same words are
    not said twice.
    """
    parts = [words[WHOLE]] if WHOLE in words else []
    for spot, said in words.items():
        if spot == WHOLE or (spot in told and told[spot] == said):
            continue
        path = names.readable(spot.path or "")  # an agent chose it, and must not speak in the person's words
        where = f"`{path}`" if spot not in lines else f"`{path}`, line {lines[spot]}"
        between = "\n" if "\n" in said else " "
        # The first line is the title of the work that follows: it should say something.
        parts.append(f"About {where}:{between}{said}")
    return "\n\n".join(parts)


def align(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """Return for each line of ``old`` the same line in ``new``, in order; None for one that is not there any more.

    Lines of a person are passed over where they were added. What else was changed is aligned by the lines that are
    there once in both (as patience diff does), in time that grows with the texts and not with their product.
    """
    found: list[int | None] = [None] * len(old)
    first, place = 0, 0
    while first < len(old) and place < len(new):
        if old[first] == new[place]:
            found[first] = place
            first += 1
        elif not new[place].startswith(MARK):
            break
        place += 1
    last, end = len(old), len(new)
    while last > first and end > place:
        if old[last - 1] == new[end - 1]:
            found[last - 1] = end - 1
            last -= 1
        elif not new[end - 1].startswith(MARK):
            break
        end -= 1
    if first < last and place < end:
        _align_middle(old, new, (first, last), (place, end), found)
    return found


def lines_of(text: str) -> list[str]:
    """Return the lines without their ends: line feed, carriage return, or both (LSP 3.17)."""
    return re.split(r"\r\n|\n|\r", text)


def _true_starts(text: str) -> list[bool]:
    """Return for each line whether it begins one of the patch: contents may hold single carriage returns."""
    *whole, last = text.split("\n")
    found = []
    for line in whole:
        found += [True, *itertools.repeat(False, len(_INNER.findall(line)))]
    return [*found, True, *itertools.repeat(False, last.count("\r"))]


def _align_middle(
    old: Sequence[str], new: Sequence[str], within: tuple[int, int], among: tuple[int, int], found: list[int | None]
) -> None:
    places: dict[str, int] = {}
    for number in range(*among):
        places[new[number]] = -1 if new[number] in places else number
    seen: dict[str, int] = {}
    for number in range(*within):
        seen[old[number]] = -1 if old[number] in seen else number
    pairs = [(number, places[line]) for line, number in seen.items() if number >= 0 and places.get(line, -1) >= 0]
    anchors = [(within[0] - 1, among[0] - 1), *_increasing(sorted(pairs)), (within[1], among[1])]
    for (start, place), (stop, end) in itertools.pairwise(anchors):
        if start >= within[0]:
            found[start] = place
        low, high = place + 1, end - 1
        number = start + 1
        while number < stop and low <= high and old[number] == new[low]:
            found[number] = low
            number, low = number + 1, low + 1
        for rest in range(stop - 1, number - 1, -1):
            if high < low or old[rest] != new[high]:
                break
            found[rest] = high
            high -= 1


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest part of ``pairs`` (sorted by the first) whose second numbers increase."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        position = bisect.bisect_left(tails, place)
        before.append(ends[position - 1] if position else -1)
        if position == len(tails):
            tails.append(place)
            ends.append(index)
        else:
            tails[position], ends[position] = place, index
    chain = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]
