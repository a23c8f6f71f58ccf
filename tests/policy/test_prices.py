"""Tests of what a request cost, and where the amount is from."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from urllib.parse import urlsplit

import pytest

from understudy.config.discovery.server_presets import KINDS
from understudy.config.validation.server_rules import check_server
from understudy.model.config.delegators import ModelServer, Price
from understudy.model.config.price_table import PRICES, PRICES_DATE
from understudy.model.delegation.events import UsageReport
from understudy.policy.prices import priced

OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com/v1"


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
    assert (source, day) == ("table", PRICES_DATE)


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
    google = KINDS["google"].base_url
    assert cost_of(a_server(google), "models/gemini-2.5-flash")[1] == "table", "as Google's server lists them"


def test_a_request_above_the_size_of_its_prices_has_an_unknown_cost() -> None:
    google = a_server(KINDS["google"].base_url)
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
    assert date.fromisoformat(PRICES_DATE) <= date.today()  # noqa: DTZ011 - a day more or less does not matter
    assert set(PRICES) <= {urlsplit(one.base_url).hostname for one in KINDS.values()}
    for host, models in PRICES.items():
        for model, row in models.items():
            assert 2 <= len(row) <= 5, (host, model)
            assert all(Decimal(cell or 0) >= 0 for cell in row), (host, model)
            assert cost_of(a_server(f"https://{host}/v1"), model, tokens=1000)[1] == "table", model


@pytest.mark.parametrize("amount", ["-1", "NaN", "1e3", "", "free", "1,5"])
def test_prices_that_are_not_amounts_are_refused(amount: str) -> None:
    found = list(check_server(a_server(prices={"m": Price(input="1", output=amount)})))
    assert [one.path for one in found] == [("prices", "m", "output")]
