"""Changed places of a result, and what shows that tests notice them."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from understudy.model.wire import Wire


class PlaceEvidence(enum.StrEnum):
    """What is known about one changed place."""

    NOTICED = "noticed"
    """A test fails when it is undone, or when a small change is made in it."""
    SAME = "same"
    """Nothing that runs changed: comments, documentation, the form of the code."""
    NEW_TEST = "new_test"
    """It belongs to the tests, which have rules of their own."""
    UNNOTICED = "unnoticed"
    """It runs, and no test fails when it is undone or changed."""
    UNEXECUTED = "unexecuted"
    """No test runs it."""
    UNLOOKED = "unlooked"
    """No check looks at this file, or the time was over before this place was tried."""


SHOWN = frozenset({PlaceEvidence.NOTICED, PlaceEvidence.SAME, PlaceEvidence.NEW_TEST})
"""Evidence with which a place counts for ``verified``."""


class ChangedPlace(Wire, kw_only=True):
    """One changed place: the lines of one hunk that belong to one function, or to none."""

    hunk: str
    """The id of its hunk, as in ``FileDiff``."""
    path: str
    """A path inside the workspace, C-quoted when not UTF-8."""
    line: int
    """Its first line in the result, from 1; for removed lines, the line that follows them. 0: the whole file."""
    lines: int
    """How many lines it has in the result; 0 if lines were only removed."""
    function: str
    """Its function with the classes around it; empty for code outside functions."""
    evidence: PlaceEvidence
    why: str
    """A sentence without full stop: what shows it, or what is missing."""


MOST_LISTED = 200
"""Most places that a result keeps."""


def merged(earlier: Sequence[ChangedPlace], judged: Sequence[ChangedPlace]) -> list[ChangedPlace]:
    """Return places with what was found since: it replaces what was known about the same place."""
    places = {(place.hunk, place.path, place.line, place.function): place for place in (*earlier, *judged)}
    return list(places.values())[:MOST_LISTED]


def untested(places: Sequence[ChangedPlace]) -> list[ChangedPlace]:
    """Return the places that no evidence shows."""
    return [place for place in places if place.evidence not in SHOWN]


def without_tests(places: Sequence[ChangedPlace]) -> list[ChangedPlace]:
    """Return the places that further tests could show: not those in files that no check looks at."""
    missing = {PlaceEvidence.UNNOTICED, PlaceEvidence.UNEXECUTED}
    return [place for place in places if place.evidence in missing]


def described(place: ChangedPlace) -> str:
    """Return where a place is, and what is missing or shown."""
    where = f"{place.path}:{place.line}" if place.line else place.path
    name = f" `{place.function}`" if place.function else ""
    return f"{where}{name} ({place.why})"


def share(places: Sequence[ChangedPlace]) -> str:
    """Return how many of all places have evidence."""
    shown = sum(place.evidence in SHOWN for place in places)
    what = "1 changed place is" if len(places) == 1 else f"{len(places)} changed places are"
    return f"{shown} of {what} tested"


def news(judged: Sequence[ChangedPlace], total: int) -> str:
    """Return in a line what was found about some of ``total`` places."""
    if len(judged) == 1:
        [place] = judged
        return f"{'tested' if place.evidence in SHOWN else 'not tested'}: {described(place)}"
    shown = sum(place.evidence in SHOWN for place in judged)
    return f"{len(judged)} of {total} changed places judged: {shown} tested, {len(judged) - shown} not"
