"""One budget: what is left of it, what it is short of, and what must never be spent."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.config.discovery.server_presets import kinds
from understudy.config.validation.server_rules import check_server
from understudy.model.config.delegators import Limits, ModelServer, Price
from understudy.model.config.price_table import price_table
from understudy.model.delegation.delegations import Attempt, Usage, no_usage
from understudy.model.delegation.events import UsageReport
from understudy.model.errors import ErrorInfo, ErrorKind
from understudy.policy.budget import Budget, Shortage, Spending, billed, priced, spent_in, sum_of

OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"


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


def a_server(base_url: str = "http://127.0.0.1:9/v1", **more) -> ModelServer:
    return ModelServer(name="s", **{"kind": "custom", "base_url": base_url, **more})


def used(tokens: int = 1_000_000, written: int = 100_000, *, read: int = 0, put: int = 0, cost: str | None = None):
    counts = {"reasoning_tokens": 0, "turns": 1, "tool_calls": 0, "cost_usd": cost}
    return UsageReport(
        input_tokens=tokens, output_tokens=written, cache_read_tokens=read, cache_write_tokens=put, **counts
    )


def cost_of(server: ModelServer, model: str = "m", **usage) -> tuple[str | None, str | None, str | None]:
    found = priced(used(**usage), server, model)
    return found.cost_usd, found.cost_source, found.price_date


def test_sums_of_several_requests_are_no_large_request() -> None:
    tokens = [100_000, 250_000, 300_000, 5_000_000]
    costs = [priced(used(count), a_server(OPENAI), "gpt-5.5", size=0).cost_usd for count in tokens]
    assert None not in costs
    assert priced(used(300_000), a_server(OPENAI), "gpt-5.5").cost_usd is None, "one request of this size costs more"


def test_the_table_counts_what_the_cache_read_and_wrote_at_their_own_prices() -> None:
    # $3 in, $15 out, $0.30 read from and $3.75 written to the cache.
    usage = {"tokens": 150_000, "written": 1_000, "read": 100_000, "put": 20_000}
    amount, source, day = cost_of(a_server(ANTHROPIC), "claude-sonnet-4-5-20250929", **usage)
    assert Decimal(amount or "NaN") == Decimal("0.09") + Decimal("0.03") + Decimal("0.075") + Decimal("0.015")
    assert (source, day) == ("table", price_table().date)


@pytest.mark.parametrize(
    ("base_url", "model"),
    [
        (OPENAI, "gpt-5-unheard-of"),
        (OPENAI, "my-gpt-5"),
        ("http://127.0.0.1:4000/v1", "gpt-5"),
        ("https://proxy.test/v1", "gpt-5"),
        ("https://api.openai.com.proxy.test/v1", "gpt-5"),
        ("https://api.deepseek.com/v1", "deepseek-chat"),
        ("http://[", "gpt-5"),
    ],
)
def test_another_model_or_another_host_has_no_known_price(base_url: str, model: str) -> None:
    assert cost_of(a_server(base_url), model) == (None, "unknown", None)


def test_versions_of_a_model_cost_as_the_model() -> None:
    for name in ("gpt-5", "gpt-5-2025-08-07", "gpt-5-latest"):
        assert cost_of(a_server(OPENAI), name)[1] == "table", name
    google = kinds()["google"].base_url
    assert cost_of(a_server(google), "models/gemini-2.5-flash")[1] == "table", "as Google's server lists them"


def test_a_request_above_the_size_of_its_prices_has_an_unknown_cost() -> None:
    google = a_server(kinds()["google"].base_url)
    assert cost_of(google, "gemini-2.5-pro", tokens=200_000)[1] == "table"
    assert cost_of(google, "gemini-2.5-pro", tokens=200_001) == (None, "unknown", None)


def test_what_the_server_reports_wins_and_a_reported_zero_is_believed_of_openrouter_only() -> None:
    prices = {"": Price(input="1", output="1")}
    assert cost_of(a_server(OPENAI, prices=prices), "gpt-5", cost="0.5")[:2] == ("0.5", "reported")
    assert cost_of(a_server(kind="litellm"), cost="0") == (None, "unknown", None)
    assert cost_of(a_server(kind="openrouter"), cost="0")[:2] == ("0", "reported")


def test_configured_prices_win_over_the_table_and_the_longest_prefix_fits() -> None:
    prices = {
        "": Price(input="9", output="9"),
        "gpt-5": Price(input="1", output="2", cache_read="0"),
        "gpt-5-mini": Price(input="0.5", output="0"),
    }
    server = a_server(OPENAI, prices=prices)
    assert cost_of(server, "gpt-5")[:2] == ("1.2", "configured")
    assert cost_of(server, "gpt-5", read=1_000_000)[:2] == ("0.2", "configured")
    assert cost_of(server, "gpt-5-mini-x")[:2] == ("0.5", "configured")
    assert cost_of(server, "other", read=1_000_000, put=5)[:2] == ("9.9", "configured"), "no price for caches: full"


def test_only_a_server_that_is_declared_local_is_free() -> None:
    assert cost_of(a_server(locality="local")) == ("0", "local", None)
    assert cost_of(a_server(kind="ollama")) == (None, "unknown", None)
    electricity = {"": Price(input="0.1", output="0")}
    assert cost_of(a_server(locality="local", prices=electricity))[:2] == ("0.1", "configured")


def test_the_table_is_dated_and_complete() -> None:
    assert date.fromisoformat(price_table().date) <= date.today()  # noqa: DTZ011 - a day more or less does not matter
    assert set(price_table().prices) <= {urlsplit(one.base_url).hostname for one in kinds().values()}
    for host, models in price_table().prices.items():
        for model, row in models.items():
            assert 2 <= len(row) <= 5, (host, model)
            assert all(Decimal(cell or 0) >= 0 for cell in row), (host, model)
            assert cost_of(a_server(f"https://{host}/v1"), model, tokens=1000)[1] == "table", model


@pytest.mark.parametrize("amount", ["-1", "NaN", "1e3", "", "free", "1,5"])
def test_prices_that_are_not_amounts_are_refused(amount: str) -> None:
    found = list(check_server(a_server(prices={"m": Price(input="1", output=amount)})))
    assert [one.path for one in found] == [("prices", "m", "output")]


def test_every_count_is_in_a_sum() -> None:
    counts = {name: number for number, name in enumerate(Usage.__struct_fields__, 1)}
    report = UsageReport(**counts, cost_usd="1")
    assert sum_of([Usage(**counts), report]) == Usage(**{name: 2 * number for name, number in counts.items()})
    assert sum_of([]) == no_usage()
