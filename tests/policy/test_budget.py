"""One budget: what is left of it, what it is short of, and what must never be spent."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.model.config.delegators import Limits
from understudy.model.delegation.delegations import Attempt, no_usage
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.policy.budget import Budget, Shortage, Spending, billed, spent_in


def attempt(cost: str | None = None, failure: ErrorInfo | None = None, **usage: int) -> Attempt:
    return Attempt(
        number=1, delegator="a", model="", started_at="", start_commit="", cost_usd=cost, failure=failure,
        usage=msgspec.structs.replace(no_usage(), **usage),
    )  # fmt: skip


def test_the_rest_is_the_limit_of_the_next_attempt() -> None:
    limits = Limits(idle_seconds=5.0, max_turns=9, max_tokens=100, max_output_tokens=50, max_usd="1.00")
    spent = [attempt("0.25", turns=2, input_tokens=30, output_tokens=10), attempt("0.30", turns=3, output_tokens=5)]
    rest = Budget(limits).charge(spent_in(spent)).left()
    assert rest == Limits(idle_seconds=5.0, max_turns=4, max_tokens=55, max_output_tokens=35, max_usd="0.45")
    assert Budget(Limits()).charge(spent_in(spent)).left() == Limits()


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(total_seconds=12.0), "the total time is over"),
        (Limits(max_turns=2), "the limit `max_turns` of 2 is used up"),
        (Limits(max_tokens=40), "the limit `max_tokens` of 40 is used up"),
        (Limits(max_output_tokens=9), "the limit `max_output_tokens` of 9 is used up"),
        (Limits(max_usd="0.25"), "the limit `max_usd` of 0.25 is used up"),
    ],
)
def test_a_limit_that_is_used_up_is_named(limits: Limits, why: str) -> None:
    spent = spent_in([attempt("0.25", turns=2, input_tokens=30, output_tokens=10)])
    short = Budget(limits).charge(spent, Spending(seconds=12.0)).reserve()
    assert isinstance(short, Shortage)
    assert short.why == why


def test_an_unknown_cost_counts_as_used_up_and_stops_nothing_that_runs() -> None:
    budget = Budget(Limits(max_usd="5")).charge(spent_in([attempt("0.25"), attempt(None)]))
    short = budget.reserve()
    assert isinstance(short, Shortage)
    assert "is not known" in short.why
    assert budget.exceeded() is None


def test_what_a_server_refused_costs_nothing() -> None:
    busy, crashed = ErrorInfo(ErrorKind.OVERLOADED, "Busy."), ErrorInfo(ErrorKind.TOOL_CRASHED, "No.")
    refused, worked = attempt(failure=busy), attempt(input_tokens=1)
    assert billed([refused, worked, attempt()], busy) == [worked]
    assert billed([refused, attempt()], crashed) == [attempt()]


AMOUNTS = st.decimals(0, 100, places=2)
SPENT = st.builds(
    Spending,
    seconds=st.integers(0, 100).map(float),
    turns=st.integers(0, 10),
    output_tokens=st.integers(0, 100),
    tokens=st.integers(0, 1000),
    usd=AMOUNTS,
    usd_known=st.booleans(),
)
LIMITS = st.builds(
    Limits,
    total_seconds=st.none() | st.integers(1, 200).map(float),
    max_turns=st.none() | st.integers(1, 20),
    max_output_tokens=st.none() | st.integers(1, 200),
    max_tokens=st.none() | st.integers(1, 2000),
    max_usd=st.none() | st.decimals("0.01", 200, places=2).map(str),
)


@given(LIMITS, st.lists(SPENT, max_size=5), SPENT)
def test_what_is_reserved_can_be_spent_and_what_is_left_adds_up(
    limits: Limits, before: list[Spending], next_one: Spending
) -> None:
    budget = Budget(limits).charge(*before)
    reserved = budget.reserve(next_one)
    if isinstance(reserved, Budget):
        assert budget.exceeded() is None
        assert reserved == budget.charge(next_one)
        assert reserved.exceeded() is None, "a reservation never exceeds the budget"
        assert budget.spent.usd_known or limits.max_usd is None
        # What is left is again a budget: spending it gives the same answers.
        rest = Budget(msgspec.structs.replace(budget.left(), total_seconds=budget.seconds_left))
        assert (rest.charge(next_one).exceeded() is None) == (budget.charge(next_one).exceeded() is None)
        spent = {"max_turns": "turns", "max_output_tokens": "output_tokens", "max_tokens": "tokens"}
        for limit, count in spent.items():
            left, most = getattr(budget.left(), limit), getattr(limits, limit)
            assert (left is None) == (most is None)
            assert most is None or left + getattr(budget.spent, count) == most > getattr(budget.spent, count)
        assert limits.max_usd is None or Decimal(budget.left().max_usd) + budget.spent.usd == Decimal(limits.max_usd)
    else:
        assert getattr(limits, reserved.limit) is not None, "only a limit that is set is reported"
    over = budget.exceeded()
    assert over is None or isinstance(budget.reserve(), Shortage), "nothing begins when too much was spent"
