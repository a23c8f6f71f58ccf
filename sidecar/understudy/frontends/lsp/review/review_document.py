"""Parse ``review.diff`` as edited by the user, with the comments in it. No I/O.

LSP cannot ask for text, but users can type into a document. A line that begins with ``>`` is a comment of the user,
since no line of a patch begins with it. It is about the part of the patch that contains or precedes it::

    # head                          > the whole result
    diff --git a/calc.py b/calc.py  > this file
    @@ -1,7 +1,7 @@                 > the following change, up to the beginning of the next one
    -    return a+b
    +    return a + b

Positions refer to the text in the editor. Whatever the user edited, its lines are aligned with those that Understudy
wrote.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from understudy.frontends.lsp.editor.line_alignment import align, lines_of
from understudy.model.text import path_quoting

MARK = ">"
"""The prefix of a comment line."""
WORDS_CHARACTERS = 20_000
"""Limit of the comment on one change; longer texts are pasted logs."""

_FILE = "diff --git "
_HUNK = "@@ "
_INNER = re.compile(r"\r(?!$)")


@dataclass(frozen=True, slots=True)
class ReviewTarget:
    """The subject of a line: a hunk, a file (no ``hunk``), or the whole result (no ``path``)."""

    path: str | None = None
    hunk: str | None = None


WHOLE = ReviewTarget()


@dataclass(frozen=True, slots=True)
class Found:
    """The first and last line of a hunk in the patch, from zero, as LSP counts."""

    spot: ReviewTarget
    first: int
    last: int


class OriginalReview:
    """``review.diff`` as Understudy wrote it."""

    def __init__(self, text: str, positions: Iterable[Found]) -> None:
        """Determine the subject of each line."""
        self.lines = lines_of(text)
        if not self.lines[-1]:
            self.lines.pop()  # the patch ends with a line feed
        self.found = sorted(positions, key=lambda position: position.first)
        self.owners = self._owners(_true_starts(text))

    def _owners(self, starts: Sequence[bool]) -> list[ReviewTarget]:
        files = [number for number, line in enumerate(self.lines) if starts[number] and line.startswith(_FILE)]
        inner = [number for number, line in enumerate(self.lines) if starts[number] and line.startswith(_HUNK)]
        begins = dict.fromkeys(files, WHOLE)
        before = -1
        for position in self.found:
            if (header := _last(files, before, position.first)) is not None:
                begins[header] = ReviewTarget(position.spot.path)
                before = max(before, header)
            ranges = _last(inner, before, position.first)
            begins[position.first if ranges is None else ranges] = position.spot
            before = position.last
        owners, spot = [], WHOLE
        for number in range(len(self.lines)):
            spot = begins.get(number, spot)
            owners.append(spot)
        return owners


def _last(numbers: Sequence[int], after: int, until: int) -> int | None:
    """Return the last of the sorted ``numbers`` in ``after < number <= until``."""
    place = bisect.bisect_right(numbers, until)
    return numbers[place - 1] if place and numbers[place - 1] > after else None


class EditedReview:
    """``review.diff`` as the user edited it."""

    def __init__(self, printed: OriginalReview, text: str) -> None:
        """Align the text in the editor with the text that Understudy wrote."""
        lines = lines_of(text)
        # Comments are not aligned, but a patch may have such lines, too, after a carriage return in file contents.
        ours = {line for line in printed.lines if line.startswith(MARK)}
        others = [number for number, line in enumerate(lines) if not line.startswith(MARK) or line in ours]
        aligned = align(printed.lines, [lines[number] for number in others])
        places = [None if place is None else others[place] for place in aligned]
        back = {place: number for number, place in enumerate(places) if place is not None}
        self.owners: list[ReviewTarget] = []
        words: dict[ReviewTarget, list[str]] = {}
        spot = WHOLE
        for number, line in enumerate(lines):
            if number in back:
                spot = printed.owners[back[number]]
            elif line.startswith(MARK):
                words.setdefault(spot, []).append(line.removeprefix(MARK).strip())
            self.owners.append(spot)
        self.words: dict[ReviewTarget, str] = {
            spot: comment
            for spot, comment_lines in words.items()
            if (comment := "\n".join(comment_lines).strip()[:WORDS_CHARACTERS])
        }
        """Target → the user's comment on it."""
        self.lines: dict[ReviewTarget, int] = {}
        """The first line of each hunk that is still in the text."""
        self.texts = lines
        for position in printed.found:
            place = next((place for place in places[position.first : position.last + 1] if place is not None), None)
            if place is not None:
                self.lines[position.spot] = place

    def at(self, first: int, last: int) -> list[ReviewTarget]:
        """Return the hunks of the lines from ``first`` to ``last``, in order; if there are none, other targets."""
        end = max(first, last) + 1
        spots = list(dict.fromkeys(self.owners[max(first, 0) : end])) or ([self.owners[-1]] if self.owners else [WHOLE])
        return [spot for spot in spots if spot.hunk is not None] or spots

    def why(self, spot: ReviewTarget) -> str | None:
        """Return the user's comment on a hunk, else on its file."""
        return self.words.get(spot) or (self.words.get(ReviewTarget(spot.path)) if spot.path is not None else None)


def letter(
    words: Mapping[ReviewTarget, str], lines: Mapping[ReviewTarget, int], reasons: Mapping[ReviewTarget, str | None]
) -> str:
    """Return the user's comments as one text: on the whole result first, then on each file and hunk.

    ``lines``: the line of a hunk in its file, from one. ``reasons``: the reasons of rejected hunks, which the agent
    gets anyway; a comment that is the same as the reason is left out.
    """
    parts = [words[WHOLE]] if WHOLE in words else []
    for spot, comment in words.items():
        if spot == WHOLE or (spot in reasons and reasons[spot] == comment):
            continue
        path = path_quoting.readable(spot.path or "")  # an agent chose it; it must not look like text of the user
        where = f"`{path}`" if spot not in lines else f"`{path}`, line {lines[spot]}"
        between = "\n" if "\n" in comment else " "
        # The first line becomes the title of the follow-up, so it should have content.
        parts.append(f"About {where}:{between}{comment}")
    return "\n\n".join(parts)


def _true_starts(text: str) -> list[bool]:
    """Return for each LSP line whether a line of the patch begins there: contents may have single carriage returns."""
    *whole, last = text.split("\n")
    starts = []
    for line in whole:
        starts += [True, *itertools.repeat(False, len(_INNER.findall(line)))]
    return [*starts, True, *itertools.repeat(False, last.count("\r"))]
