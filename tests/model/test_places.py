"""Evidence for places that arrives while checks run."""

from __future__ import annotations

import pytest

from understudy.engine.review.review_state import ReviewState
from understudy.model.delegation import events
from understudy.model.hunks import Hunk, HunkState
from understudy.model.places import ChangedPlace, PlaceEvidence, merged, news
from understudy.model.verdicts import DOUBTED, OF_NEW_TESTS, Reservation, Verdict

HUNK = Hunk(
    id="a", old_start=1, old_lines=1, new_start=1, new_lines=1, state=HunkState.PENDING, conflict=False, edited=False
)
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
    review, hunk = ReviewState(), HUNK
    review.take(events.PlacesJudged(**AT, places=[place(1), place(9, hunk="b")], total=3))
    review.take(events.PlacesJudged(**AT, places=[place(2)], total=3))
    assert review.hunk(hunk).places == [place(1), place(2)]
    review.take(events.Result(**AT, files=[], head="c2"))
    assert review.hunk(hunk).places == []


@pytest.mark.parametrize(
    ("places", "reservations", "tested", "doubted"),
    [
        ([], [], None, False),
        ([place(1, PlaceEvidence.NEW_TEST)], [], True, False),
        *(([place(1, PlaceEvidence.NEW_TEST)], [weak], False, True) for weak in sorted(OF_NEW_TESTS)),
        ([place(1), place(2, PlaceEvidence.NEW_TEST)], [Reservation.NOT_MUTATION_TESTED], True, False),
        ([place(1), place(2)], [], True, False),
        ([place(1), place(2, PlaceEvidence.UNNOTICED)], [Reservation.CHANGE_NOT_TESTED], False, False),
        ([place(1)], [Reservation.OUTSIDE_SCOPE], True, False),
        *(([place(1)], [doubt], False, True) for doubt in sorted(DOUBTED)),
    ],
)
def test_a_hunk_is_tested_if_all_its_places_are_and_no_reservation_doubts_it(
    places: list[ChangedPlace], reservations: list[Reservation], tested: bool | None, doubted: bool
) -> None:
    review = ReviewState()
    review.take(events.Finished(**AT, verdict=Verdict.UNVERIFIED, reservations=reservations, places=places))
    hunk = review.hunk(HUNK)
    assert (hunk.tested, hunk.doubted) == (tested, doubted)


def test_no_hunk_counts_as_tested_while_a_check_fails() -> None:
    review = ReviewState()
    review.take(events.Finished(**AT, verdict=Verdict.CHECKS_FAILED, reservations=[], places=[place(1)]))
    assert (review.hunk(HUNK).tested, review.hunk(HUNK).doubted) == (False, True)
