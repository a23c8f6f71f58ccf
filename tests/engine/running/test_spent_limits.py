"""What is left of the limits of a delegation for one more attempt."""

from __future__ import annotations

import msgspec
import pytest

from understudy.engine.running.attempts.spent_limits import left
from understudy.model.config.delegators import Limits
from understudy.model.delegation.delegations import Attempt, no_usage


def attempt(cost: str | None = None, **usage: int) -> Attempt:
    return Attempt(
        number=1, delegator="a", model="", started_at="", start_commit="", cost_usd=cost,
        usage=msgspec.structs.replace(no_usage(), **usage),
    )  # fmt: skip


def test_the_rest_is_the_limit_of_the_next_attempt() -> None:
    limits = Limits(idle_seconds=5.0, max_turns=9, max_tokens=100, max_output_tokens=50, max_usd="1.00")
    spent = [attempt("0.25", turns=2, input_tokens=30, output_tokens=10), attempt("0.30", turns=3, output_tokens=5)]
    rest = left(limits, spent, 12.0)
    assert rest == Limits(idle_seconds=5.0, max_turns=4, max_tokens=55, max_output_tokens=35, max_usd="0.45")
    assert left(Limits(), spent, None) == Limits()


@pytest.mark.parametrize(
    ("limits", "seconds", "why"),
    [
        (Limits(), 0.0, "the total time is over"),
        (Limits(max_turns=2), None, "the limit `max_turns` of 2 is used up"),
        (Limits(max_tokens=40), None, "the limit `max_tokens` of 40 is used up"),
        (Limits(max_output_tokens=9), None, "the limit `max_output_tokens` of 9 is used up"),
        (Limits(max_usd="0.25"), None, "the limit `max_usd` of 0.25 is used up"),
    ],
)
def test_a_limit_that_is_used_up_is_named(limits: Limits, seconds: float | None, why: str) -> None:
    assert left(limits, [attempt("0.25", turns=2, input_tokens=30, output_tokens=10)], seconds) == why


def test_an_unknown_cost_counts_as_used_up() -> None:
    assert "is not known" in str(left(Limits(max_usd="5"), [attempt("0.25"), attempt(None)], None))
