"""Suggested orders follow from evidence alone, and never claim more than there is."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.model.config.delegators import Route, RouteCandidate
from understudy.model.delegation.route_evidence import SizeClass
from understudy.policy.route_ranking import Facts, Work, ranked, share_interval
from understudy.policy.route_suggestions import (
    Record,
    Suggested,
    by_evidence,
    clearly_better,
    new_route,
    reordered,
    succeeded,
    suggested,
)


def record(name: str, good: int = 0, runs: int = 0, **changes) -> Record:
    return Record(name=name, succeeded=good, runs=runs, **changes)


def names(places: list[Suggested]) -> list[str]:
    return [place.name for place in places if place.refused is None]


RECORDS = st.lists(
    st.builds(
        lambda name, runs, share, local, bound, usd: Record(
            name=name,
            runs=runs,
            succeeded=round(runs * share),
            local=local,
            bound=local and bound,
            usd=usd if runs else None,
            seconds=tuple(float(number) for number in range(runs)),
        ),
        st.sampled_from("abcdefgh"),
        st.sampled_from([0, 0, 1, 3, 10, 40, 400]),
        st.floats(0, 1),
        st.booleans(),
        st.booleans(),
        st.none() | st.decimals(0, 10, places=3),
    ),
    max_size=7,
    unique_by=lambda record: record.name,
)


@given(RECORDS, st.booleans(), st.booleans())
def test_what_holds_for_every_suggestion(records: list[Record], remote: bool, is_new: bool) -> None:
    places = suggested(by_evidence(records) if is_new else records, remote=remote)
    known = {record.name: record for record in records}
    expected = {record.name for record in records if record.runs or not is_new}
    assert sorted(place.name for place in places) == sorted(expected), "each candidate once"
    assert all(place.reason for place in places)
    order = [known[name] for name in names(places)]
    for before, after in itertools.pairwise(order):
        assert before.runs or not after.runs, "one of which nothing is known is never before one with evidence"
    for before, after in itertools.combinations(order, 2):
        assert not clearly_better(after, before)
        if not after.local:
            assert not before.bound, "nothing leaves this machine after one that is declared local"
            assert remote or not before.local
    for place, (before, after) in zip(places, itertools.pairwise(order), strict=False):
        if after.runs:
            apart = before.share[0] > after.share[1]
            assert ("clearly better than" in place.reason, "not enough runs" in place.reason) == (apart, not apart)


@given(RECORDS)
def test_without_a_clear_difference_an_order_stays(records: list[Record]) -> None:
    order = names(suggested(records, remote=True))
    once_more = sorted((one for one in records if one.name in order), key=lambda one: order.index(one.name))
    assert names(suggested(once_more, remote=True)) == order, "a suggestion that was applied is not changed again"
    alike = [Record(name=name, runs=20, succeeded=18 + (name == "b")) for name in "abc"]
    assert names(suggested(alike, remote=True)) == ["a", "b", "c"]
    assert names(suggested(by_evidence(alike), remote=True)) == ["b", "a", "c"]


def world(seed: int, rates: dict[str, float], runs: int) -> list[Record]:
    """Return what is recorded in a world in which each delegator succeeds with its rate."""
    luck = random.Random(seed)
    counts = {name: sum(luck.random() < rate for _ in range(runs)) for name, rate in rates.items()}
    found = [Record(name=name, runs=runs, succeeded=good) for name, good in counts.items()]
    luck.shuffle(found)
    return found


@pytest.mark.parametrize("is_new", [True, False])
def test_in_a_simulated_world_the_order_becomes_that_of_the_known_rates(is_new: bool) -> None:
    rates = {"best": 0.95, "good": 0.75, "fair": 0.5, "poor": 0.2}
    for seed in range(60):
        records = world(seed, rates, 400)
        order = names(suggested(by_evidence(records) if is_new else records, remote=True))
        assert order == list(rates), seed


def test_in_a_simulated_world_a_clear_difference_is_rarely_wrong() -> None:
    wrong = claims = 0
    for seed in range(400):
        rates = {name: random.Random(f"{seed}{name}").random() for name in "abc"}
        records = world(seed, rates, random.Random(seed).choice([2, 5, 10, 30, 100]))
        for one, other in itertools.permutations(records, 2):
            if clearly_better(one, other):
                claims += 1
                wrong += rates[one.name] < rates[other.name]
    assert claims > 300
    assert wrong <= claims // 50
    equal = [world(seed, dict.fromkeys("ab", 0.6), 50) for seed in range(300)]
    assert sum(clearly_better(one, other) or clearly_better(other, one) for one, other in equal) <= 6


def test_equal_evidence_is_ordered_by_cost_then_time() -> None:
    dear = record("dear", 9, 10, usd=Decimal(9), seconds=(1.0,) * 10)
    free = record("free", 9, 10, usd=Decimal(0), seconds=(9.0,) * 10)
    fast = record("fast", 9, 10, usd=Decimal(0), seconds=(2.0,) * 10)
    unknown = record("unknown", 9, 10, seconds=(1.0,) * 10)
    assert [one.name for one in by_evidence([unknown, dear, free, fast])] == ["fast", "free", "dear", "unknown"]


def test_a_reason_has_the_figures() -> None:
    good = record("good", 19, 20, usd=Decimal("0.38"), seconds=tuple(float(n) for n in range(20)))
    places = suggested([record("bad", 1, 20), good, record("new")], remote=True)
    assert places == [
        Suggested(
            "good",
            "19 of 20 succeeded (76 to 99 %), 0.02 US dollars for each, half within 9 s (5 to 14); clearly better than bad",
        ),
        Suggested("bad", "1 of 20 succeeded (1 to 24 %), half within 0 s (0 to 0)"),
        Suggested("new", "no run is known"),
    ]


def test_a_delegator_elsewhere_does_not_follow_one_whose_texts_stay_here() -> None:
    here, bound, there = (
        record("here", 20, 20, local=True),
        record("bound", 20, 20, local=True, bound=True),
        record("there", 1, 20),
    )
    for first, remote, expected in ((here, False, ["here"]), (here, True, ["here", "there"]), (bound, True, ["bound"])):
        places = suggested([there, first], remote=remote)
        assert names(places) == expected
    (left_out,) = [place for place in suggested([there, bound], remote=True) if place.refused]
    assert left_out.refused == "it works on other machines, and bound, which comes before it, on this one only"
    assert names(suggested([here, record("there", 20, 20)], remote=False)) == ["here"]
    assert names(suggested([record("there", 20, 20), here], remote=False)) == ["there", "here"]


@pytest.mark.parametrize(
    ("verdict", "failure", "expected"),
    [
        ("verified", None, True),
        ("answered", None, True),
        ("unverified", None, False),
        ("no_changes", None, False),
        (None, "rate_limited", False),
        ("failed", "content_refused", False),
        ("failed", "tool_crashed", False),
        ("cancelled", "cancelled", None),
        ("interrupted", "interrupted", None),
        ("failed", "disk_full", None),
        ("failed", "of a later version", None),
        (None, None, None),
    ],
)
def test_which_runs_say_something(verdict: str | None, failure: str | None, expected: bool | None) -> None:
    assert succeeded(verdict, failure) is expected


def taken(route: Route, language: str, size: int) -> list[str]:
    work = Work(recipe="tests", languages=frozenset({language}), size=size)
    facts = [Facts(name=name) for name in ("usual", "other", "third")]
    return [place.name for place in ranked(route, work, facts) if place.refused is None]


def route_of(
    everything: list[Record], groups: dict[tuple[str, SizeClass], list[Record]], *, remote: bool
) -> Route | None:
    order = suggested(by_evidence(everything), remote=remote)
    return new_route("tests", order, everything, groups, remote=remote)


def test_a_new_route_has_another_first_only_where_that_is_clearly_better() -> None:
    everything = [
        record("other", 50, 100),
        record("usual", 90, 100),
        record("third"),
        record("elsewhere", 1, 1, local=True),
    ]
    good, bad = record("other", 30, 30), record("usual", 1, 30)
    groups: dict[tuple[str, SizeClass], list[Record]] = {
        ("go", "medium"): [good, bad],
        ("rust", "large"): [good, bad],
        ("ruby", "small"): [record("other", 3, 3), record("usual", 1, 3)],
        ("php", "small"): [good],
        ("", "small"): [good, bad],
    }
    route = route_of(everything, groups, remote=False)
    assert route is not None
    assert route.recipes == ["tests"]
    assert "third" not in route.candidates
    assert taken(route, "go", 50_000) == ["other", "usual"]
    assert taken(route, "go", 10_000) == ["usual", "other"], (
        "the better one in larger files is not better in small ones"
    )
    assert taken(route, "go", 200_000) == ["usual", "other"]
    for size in (1, 10**6):
        assert (
            taken(route, "ruby", size)
            == taken(route, "php", size)
            == taken(route, "python", size)
            == ["usual", "other"]
        )
    assert taken(route, "rust", 10**6) == ["other", "usual"]
    assert taken(route, "rust", 1) == ["usual", "other"]
    assert route_of([record("third")], {}, remote=False) is None


def test_an_exception_never_puts_a_delegator_elsewhere_behind_a_local_one() -> None:
    everything = [record("other", 50, 100, local=True), record("usual", 90, 100)]
    groups: dict[tuple[str, SizeClass], list[Record]] = {
        ("go", "small"): [record("other", 30, 30, local=True), record("usual", 1, 30)]
    }
    route = route_of(everything, groups, remote=False)
    assert route is not None
    assert route.candidates == ["usual", "other"]
    route = route_of(everything, groups, remote=True)
    assert route is not None
    assert taken(route, "go", 1) == ["other", "usual"]


def test_a_route_of_the_user_keeps_what_its_candidates_select_and_their_conditions() -> None:
    candidates = ["a", RouteCandidate(local=True, labels=["big"]), RouteCandidate(tags=["gone"]), "b", "c"]
    route = Route(candidates=candidates, order="best", recipes=["tests"], wait=True)
    order = [Suggested("b", "-"), Suggested("here", "-"), Suggested("a", "-"), Suggested("c", "-", "it is elsewhere")]
    changed = reordered(route, [["a"], ["here"], [], ["b"], ["c"]], order)
    assert changed.candidates == ["b", candidates[1], "a", candidates[2]]
    assert (changed.order, changed.recipes, changed.wait) == ("listed", ["tests"], True)


@given(st.integers(0, 500), st.integers(0, 500))
def test_the_interval_has_the_share_in_it(good: int, bad: int) -> None:
    low, high = share_interval(good, good + bad)
    assert 0 <= low <= (good / (good + bad) if good + bad else 0) + 1e-9
    assert high <= 1
    assert high >= (good / (good + bad) if good + bad else 1) - 1e-9
    mirrored = share_interval(bad, good + bad)
    assert abs((1 - high) - mirrored[0]) < 1e-9


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_the_interval_of_the_median_has_the_median_in_it(seconds: list[float]) -> None:
    found = Record(name="a", runs=len(seconds), seconds=tuple(sorted(seconds)))
    low, high = found.median_interval
    assert low <= found.median <= high
