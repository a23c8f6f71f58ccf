"""The order of the candidates of a route."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from understudy.model.config.delegators import Route, RouteCandidate
from understudy.policy.route_ranking import Facts, Work, least_share, ranked

WORK = Work(recipe="tests", languages=frozenset({"python"}), size=100, labels=frozenset({"small"}))
QWEN = Facts(name="qwen", model_server="ollama", model="qwen", tags=frozenset({"cheap"}), local=True, usd=Decimal(0))
DEEP = Facts(name="deep", model_server="deepseek", model="chat", tags=frozenset({"cheap", "fast"}), usd=Decimal("0.4"))
CLAUDE = Facts(name="claude", tool="claude", seconds=30.0, runs=10, verified=9)
KNOWN = [CLAUDE, DEEP, QWEN]


def taken(route: Route, known: list[Facts] = KNOWN, work: Work = WORK) -> list[str]:
    return [place.name for place in ranked(route, work, known) if place.refused is None]


def refused(route: Route, work: Work = WORK) -> dict[str, str]:
    return {place.name: place.refused for place in ranked(route, work, KNOWN) if place.refused is not None}


def test_names_and_selectors_are_candidates_in_their_order() -> None:
    assert taken(Route(candidates=["qwen", "claude"])) == ["qwen", "claude"]
    assert taken(Route(candidates=["claude", RouteCandidate(tags=["cheap"])])) == ["claude", "deep", "qwen"]
    assert taken(Route(candidates=[RouteCandidate(tags=["cheap", "fast"])])) == ["deep"]
    assert taken(Route(candidates=[RouteCandidate(local=True)])) == ["qwen"]
    assert taken(Route(candidates=[RouteCandidate(tool="claude"), RouteCandidate(model_server="ollama")])) == [
        "claude",
        "qwen",
    ]
    assert taken(Route(candidates=["gone"])) == []


def test_conditions_of_a_route_and_of_a_candidate() -> None:
    assert refused(Route(candidates=["qwen"], recipes=["fix"])) == {"qwen": "it is for fix only"}
    assert refused(Route(candidates=["qwen"], languages=["go", "rust"])) == {
        "qwen": "it is for files in go or rust only"
    }
    assert refused(Route(candidates=[RouteCandidate(delegator="qwen", max_bytes=99)])) == {
        "qwen": "it is for files of at most 99 bytes, and these have 100"
    }
    assert refused(Route(candidates=[RouteCandidate(delegator="qwen", labels=["big"]), "deep"])) == {
        "qwen": "it is for work with the label big only"
    }
    both = Route(candidates=[RouteCandidate(delegator="qwen", labels=["big"]), "qwen"])
    assert taken(both) == ["qwen"], "a later candidate allows what an earlier one does not"
    swapped = Route(candidates=[RouteCandidate(delegator="qwen", languages=["go"]), "deep", "qwen"])
    assert taken(swapped) == ["deep", "qwen"], "its place is that of the candidate that allows it"
    assert refused(Route(candidates=["qwen"], languages=["python"]), Work(recipe="ask", languages=frozenset())) != {}
    assert taken(Route(candidates=["qwen"], languages=["python"]), work=Work(recipe="ask")) == ["qwen"], "not known yet"


def test_orders() -> None:
    everyone = ["claude", "deep", "qwen"]
    assert taken(Route(candidates=everyone, order="cheapest")) == ["qwen", "deep", "claude"]
    assert taken(Route(candidates=["deep", "claude", "qwen"], order="fastest")) == ["claude", "deep", "qwen"]
    lucky = Facts(name="lucky", runs=1, verified=1)
    assert taken(Route(candidates=["lucky", "claude"], order="best"), [*KNOWN, lucky]) == ["claude", "lucky"]
    failed = Facts(name="failed", runs=3)
    assert taken(Route(candidates=["qwen", "failed"], order="best"), [*KNOWN, failed]) == ["failed", "qwen"]


FACTS = st.builds(
    Facts,
    name=st.sampled_from("abcdef"),
    tags=st.frozensets(st.sampled_from(["x", "y"])),
    local=st.booleans(),
    usd=st.none() | st.decimals(0, 100, places=2),
    seconds=st.none() | st.floats(0, 1e6),
    runs=st.integers(0, 50),
)
ROUTES = st.builds(
    Route,
    candidates=st.lists(
        st.sampled_from("abcdefg")
        | st.builds(RouteCandidate, tags=st.just(["x"]), max_bytes=st.none() | st.integers(0, 200)),
        max_size=6,
    ),
    order=st.sampled_from(["listed", "cheapest", "fastest", "best"]),
    languages=st.none() | st.just(["python"]) | st.just(["go"]),
)


@given(ROUTES, st.lists(FACTS, max_size=6, unique_by=lambda facts: facts.name))
def test_each_candidate_has_one_place_and_a_reason(route: Route, known: list[Facts]) -> None:
    places = ranked(route, WORK, known)
    names = [place.name for place in places]
    assert len(set(names)) == len(names)
    assert set(names) <= {facts.name for facts in known}
    assert all(place.reason or place.refused for place in places)
    assert places == ranked(route, WORK, known), "the same facts give the same order"
    by_name = {facts.name: facts for facts in known}
    if route.order == "cheapest":
        prices = [by_name[place.name].usd for place in places if place.refused is None]
        assert prices == sorted(prices, key=lambda usd: (usd is None, usd or 0))


@given(st.integers(0, 200), st.integers(0, 200))
def test_a_share_of_few_runs_counts_less(successes: int, more: int) -> None:
    runs = successes + more
    least = least_share(successes, runs)
    assert 0 <= least <= (successes / runs if runs else 0) + 1e-9
    assert least_share(2 * successes, 2 * runs) >= least - 1e-9
