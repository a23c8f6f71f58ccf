"""The ledger is read in pages, filtered, and added up, without counting anything twice or leaving it out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.journal import delegation_folder
from understudy.model.delegation.delegations import AskedBy, Usage, no_usage
from understudy.model.delegation.ledger import GroupBy, LedgerEntry, LedgerTotals
from understudy.model.errors import UnderstudyError
from understudy.policy.budget import Rates
from understudy.reports import ledger_view
from understudy.reports.ledger_view import Wanted, view


def entry(number: int = 1, **changes: Any) -> LedgerEntry:
    facts = {
        "at": f"2026-11-{1 + number % 28:02}T08:00:00.000Z",
        "id": f"20261101-080000-{number:05}",
        "attempt": 1,
        "asked_by": AskedBy(frontend="cli", depth=0),
        "recipe": "tests",
        "workspace": "/project",
        "delegator": "cheap",
        "model": "m",
        "usage": no_usage(),
        "cost_source": "unknown",
        "seconds": 1.0,
        "verdict": "verified",
    }
    return LedgerEntry(**facts | changes)


def used(read: int, written: int, cached: int = 0) -> Usage:
    return msgspec.structs.replace(no_usage(), input_tokens=read, output_tokens=written, cache_read_tokens=cached)


def write(entries: list[LedgerEntry]) -> None:
    """Replace the ledger by these entries, with a torn line and a strange one between them."""
    folder = delegation_folder.state_root() / "ledger"
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.jsonl"):
        path.unlink()
    for one in sorted(entries, key=lambda one: one.at):
        with (folder / f"{one.at[:7]}.jsonl").open("ab") as file:
            file.write(b'{"version": 1}\nnot an entry\n' + msgspec.json.encode(one) + b"\n")


made = st.lists(
    st.builds(
        entry,
        st.integers(0, 10_000),
        at=st.sampled_from([f"2026-{month:02}-0{day}T00:00:00.{ms:03}Z" for month in (9, 10) for day in (1, 2) for ms in (0, 1)]),
        delegator=st.sampled_from(["a", "b"]),
        model=st.sampled_from(["", "m"]),
        tool=st.sampled_from([None, "claude"]),
        usage=st.builds(used, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
        cost_usd=st.sampled_from([None, "0.25", "1e-3", "odd"]),
        cost_source=st.just("reported"),
        seconds=st.floats(0, 100),
        failure=st.sampled_from([None, "auth_failed"]),
    ),
    max_size=12,
)  # fmt: skip


@given(entries=made, limit=st.integers(1, 5), by=st.sampled_from([None, *get_args(GroupBy)]))
def test_pages_hold_each_attempt_once_and_groups_add_up(entries, limit, by) -> None:
    write(entries)
    lines, cursor, pages = [], None, 0
    while True:
        found = view(Wanted(), by=by, limit=limit, cursor=cursor)
        lines += [line.entry for line in found.lines]
        pages, cursor = pages + 1, found.cursor
        assert found.totals.attempts == len(entries), "a page never changes the totals"
        assert len(found.lines) <= limit
        if cursor is None:
            break
    assert pages == max(1, -(-len(entries) // limit))
    assert sorted(lines, key=repr) == sorted(entries, key=repr)
    assert [one.at for one in lines] == sorted((one.at for one in entries), reverse=True)
    if by is not None:
        parts = [group.totals for group in found.groups]
        for name in ("attempts", "costs_unknown", "costs_estimated"):
            assert sum(getattr(part, name) for part in parts) == getattr(found.totals, name)
        assert sum(Decimal(part.cost_usd) for part in parts) == Decimal(found.totals.cost_usd)
        assert sum(part.usage.input_tokens for part in parts) == found.totals.usage.input_tokens


def test_a_page_goes_on_where_the_last_one_ended_although_attempts_are_added() -> None:
    write([entry(number) for number in range(4)])
    first = view(Wanted(), limit=2)
    write([entry(number) for number in range(6)])
    second = view(Wanted(), limit=9, cursor=first.cursor)
    assert [line.entry.id[-1] for line in (*first.lines, *second.lines)] == ["3", "2", "1", "0"]


def test_filters_select_by_time_and_by_every_field() -> None:
    mine = AskedBy(frontend="rpc", depth=0, session="s-1", agent="claude")
    write([entry(1), entry(2, delegator="dear", model="big"), entry(3, asked_by=mine, recipe="docs", verdict=None)])

    def ids(**wanted: Any) -> list[str]:
        return [line.entry.id[-1] for line in view(Wanted(**wanted), limit=9).lines]

    assert ids(since="2026-11-03T00:00:00.000Z") == ["3", "2"]
    assert ids(until="2026-11-03T08:00:00.000Z") == ["1"]
    assert ids(fields={"delegator": "dear", "model": "big"}) == ["2"]
    assert ids(fields={"delegator": "dear", "model": "m"}) == []
    assert ids(session="s-1") == ["3"]
    assert [group.key for group in view(Wanted(), by="requester", limit=9).groups] == ["claude", "cli"]


def test_totals_tell_known_from_estimated_and_unknown_costs() -> None:
    write(
        [
            entry(1, cost_usd="0.10", cost_source="reported", seconds=1.0, usage=used(1_000_000, 0, cached=400_000)),
            entry(2, cost_usd="0.05", cost_source="estimated", seconds=2.0, usage=used(0, 2_000_000)),
            entry(3, seconds=30.0, failure="auth_failed", verdict="failed"),
            entry(3, attempt=2, seconds=3.0, verdict=None),
        ]
    )
    prices = Rates(read=Decimal(3), written=Decimal(15), cache_read=Decimal("0.3"))
    found = view(Wanted(), prices=prices, limit=1).totals
    assert found == LedgerTotals(
        attempts=4,
        delegations=3,
        outcomes={"verified": 2, "auth_failed": 1, "continued": 1},
        usage=used(1_000_000, 2_000_000, cached=400_000),
        cost_usd="0.15",
        costs_estimated=1,
        costs_unknown=2,
        seconds=36.0,
        median_seconds=2.0,
        p90_seconds=30.0,
        verified_usd="0.075",
        compared_usd="31.92",
    )
    assert view(Wanted(until="2020-01-01"), limit=1).totals.attempts == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-11-21", "2026-11-21T00:00:00.000Z"),
        ("2026-11-21T08:00:00Z", "2026-11-21T08:00:00.000Z"),
        ("2026-11-21T08:00:00.5+02:00", "2026-11-21T06:00:00.500Z"),
    ],
)
def test_times_are_compared_as_the_ledger_writes_them(text: str, found: str) -> None:
    assert ledger_view.moment(text) == found


@pytest.mark.parametrize("text", ["", "last week", "2026-13-01", "0001-01-01T00:00:00+09:00", "9" * 400])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(UnderstudyError, match="is not a time"):
        ledger_view.moment(text)


@pytest.mark.parametrize("text", ["", "free", "-1", "nan", "inf", "1e9", "3$"])
def test_what_is_not_a_price_is_refused(text: str) -> None:
    with pytest.raises(UnderstudyError, match="is not a price"):
        ledger_view.price(text)


@pytest.mark.parametrize("cursor", ["", "2026-11", "2026-11:-1", "../x:1", "2026-11:1\n"])
def test_a_cursor_from_elsewhere_is_refused(cursor: str) -> None:
    with pytest.raises(UnderstudyError, match="is not a cursor"):
        view(Wanted(), limit=1, cursor=cursor)


def test_hand_overs_count_for_who_was_replaced_and_costs_for_each_verified_result() -> None:
    write(
        [
            entry(1, attempt=1, delegator="cheap", failure="overloaded", verdict=None, cost_usd="0.02"),
            entry(1, attempt=2, delegator="dear", verdict=None, cost_usd="0.10"),
            entry(1, attempt=3, delegator="dear", cost_usd="0.18"),
            entry(2, delegator="dear", cost_usd="0.30"),
            entry(3, delegator="dear", verdict="unverified", cost_usd="0.02"),
            entry(4, delegator="other", cost_usd=None),
        ]
    )
    totals, groups = ledger_view.figures(Wanted(), by="delegator")
    found = {group.key: group.totals for group in groups}
    assert (totals.handovers, totals.verified_usd) == (1, "0.206667")
    assert (found["cheap"].handovers, found["cheap"].verified_usd) == (1, None)
    assert (found["dear"].handovers, found["dear"].verified_usd) == (0, "0.3")
    assert found["other"].verified_usd is None, "no cost is known"
    alone, _ = ledger_view.figures(Wanted(fields={"delegator": "cheap"}))
    assert alone.handovers == 1, "also if who took over is not selected"
