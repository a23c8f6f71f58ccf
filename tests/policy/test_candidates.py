"""The order of those who may do the work, and the reason for each place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from understudy.policy.candidates import (
    Defaults,
    Option,
    Preference,
    Standing,
    first_able,
    left_out,
    next_turn,
    preferred,
    successors_of,
    suggested,
)

NAMES = st.sampled_from(["a", "b", "c", "d"])


def defaults(configured: list[str], recipe: str | None = None, default: str | None = None) -> Defaults:
    return Defaults(
        recipe="tests", named_by_recipe=recipe, for_recipe=None, general=default, configured=configured, shipped="s"
    )


def test_the_order_of_wishes() -> None:
    order = preferred("x", "it was named", defaults(["a", "b"], "r", "d"))
    assert order == [
        Preference("x", "it was named"),
        Preference("r", "the recipe 'tests' names it"),
        Preference("d", "it is the default delegator"),
    ]
    assert preferred(None, "", defaults(["a"])) == [Preference("a", "it is the only delegator configured")]
    assert preferred(None, "", defaults([])) == [Preference("s", "nothing else is configured")]
    assert preferred(None, "", defaults(["a", "b"])) == [], "the user has to choose"


@given(
    st.lists(NAMES, max_size=4),
    st.dictionaries(NAMES, st.text(max_size=5)),
    st.dictionaries(NAMES, st.lists(NAMES, max_size=3)),
)
def test_the_first_that_nothing_is_against_even_in_circles(
    preferences: list[str], against: dict[str, str], successors: dict[str, list[str]]
) -> None:
    asked: list[str] = []

    def why_not(preference: Preference) -> str | None:
        asked.append(preference.name)
        return against.get(preference.name)

    chosen, refused = first_able(successors_of("x", preferences), why_not, lambda name: successors.get(name, []))
    assert len(set(asked)) == len(asked), "each is asked once, also in a circle of successors"
    assert [(one.name, one.skipped_because) for one in refused] == [
        (name, against[name]) for name in asked[: len(refused)]
    ]
    assert chosen is None or chosen.name not in against
    if chosen is None:
        assert not [name for name in preferences if name not in against]
    elif refused and chosen.name in successors.get(refused[-1].name, []):
        assert chosen.reason == f"it takes over from {refused[-1].name}", "successors come before later preferences"


def test_of_a_chain_those_that_something_is_against_are_left_out() -> None:
    refused = left_out(successors_of("x", ["a", "b", "c"]), lambda preference: "no" if preference.name == "b" else None)
    assert [(one.name, one.skipped_because) for one in refused] == [("b", "no")]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=5))
def test_a_pause_refuses_no_work(facts: list[tuple[bool, bool]]) -> None:
    options = []
    for place, (refused, paused) in enumerate(facts):
        name = f"d{place}"
        option = Option(
            place=place,
            name=name,
            refused="its limit is used up" if refused else None,
            paused=f"{name} is paused." if paused and not refused else None,
        )
        options.append(option)
        if option.is_free:
            break
    turns = next_turn(options)
    able = [option for option in options if option.refused is None]
    assert (turns.next is None) == (not able), "who is not refused gets a turn, even all are paused"
    assert [text for text in turns.warnings if "not tried" in text] == [
        f"{option.name} is not tried: its limit is used up." for option in options if option.refused
    ]
    if turns.next is not None:
        free = [option for option in able if option.is_free]
        assert turns.next.option == (free[0] if free else able[0])
        if free:
            assert turns.next.skipped == " ".join(f"{option.name} is paused." for option in able[:-1])
            assert turns.remarks == [f"{one.name} is paused. {free[0].name} takes over." for one in able[:-1]]
        else:
            assert turns.warnings[-1].endswith("because no other delegator can take over.")


def test_defaults_are_suggested_first_and_what_is_shipped_last() -> None:
    def standing(name: str, **what: bool) -> Standing:
        nothing = dict.fromkeys(("default_for_recipe", "default", "builtin", "succeeded"), False)
        return Standing(name=name, **{**nothing, **what})

    order = suggested(
        [
            standing("s", builtin=True),
            standing("a", succeeded=True),
            standing("never-tried"),
            standing("d", default=True),
            standing("r", default_for_recipe=True),
        ]
    )
    assert order == ["r", "d", "a", "s"]
