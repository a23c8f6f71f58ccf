"""Evidence for places that arrives while checks run."""

from __future__ import annotations

import pytest

from understudy.engine.review.review_state import ReviewState
from understudy.model.delegation import events
from understudy.model.hunks import Hunk, HunkState
from understudy.model.places import ChangedPlace, PlaceEvidence, merged, news

AT = {"seq": 1, "at": "2026-11-21T00:45:12.345Z"}


def place(line: int, evidence: PlaceEvidence = PlaceEvidence.NOTICED, *, hunk: str = "a") -> ChangedPlace:
    return ChangedPlace(hunk=hunk, path="calc.py", line=line, lines=1, function="add", evidence=evidence, why="why")


def test_what_is_found_later_replaces_what_was_known_about_the_same_place() -> None:
    later = place(1, PlaceEvidence.UNNOTICED)
    assert merged([place(1), place(2)], [later, place(3)]) == [later, place(2), place(3)]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([place(1)], "tested: calc.py:1 `add` (why)"),
        ([place(1, PlaceEvidence.UNEXECUTED)], "not tested: calc.py:1 `add` (why)"),
        ([place(1), place(2, PlaceEvidence.SAME)], "2 of 9 changed places judged: 2 tested, 0 not"),
    ],
)
def test_one_place_is_named_and_several_are_counted(places: list[ChangedPlace], expected: str) -> None:
    assert news(places, 9) == expected


def test_a_review_shows_evidence_while_checks_run_until_another_result_is_there() -> None:
    review, hunk = (
        ReviewState(),
        Hunk(
            id="a",
            old_start=1,
            old_lines=1,
            new_start=1,
            new_lines=1,
            state=HunkState.PENDING,
            conflict=False,
            edited=False,
        ),
    )
    review.take(events.PlacesJudged(**AT, places=[place(1), place(9, hunk="b")], total=3))
    review.take(events.PlacesJudged(**AT, places=[place(2)], total=3))
    assert review.hunk(hunk).places == [place(1), place(2)]
    review.take(events.Result(**AT, files=[], head="c2"))
    assert review.hunk(hunk).places == []
