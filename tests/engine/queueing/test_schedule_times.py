"""The times of schedules: where clocks change, after a sleep, and never twice."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.engine.queueing.schedule_times import ON_TIME, due, next_time
from understudy.model.config.schedules import Schedule

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
"""The clocks of Lord Howe Island change by half an hour."""


def nightly(cron="30 2 * * *", **fields):
    return Schedule(name="s", cron=cron, workspace="/w", recipe="ask", **fields)


def at(text):
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("zone", "after", "moments"),
    [
        # 02:30 does not exist on this day: it is the next time that does.
        ("Europe/Berlin", "2026-03-28T12:00+00:00", ["2026-03-29T01:00+00:00", "2026-03-30T00:30+00:00"]),
        ("America/New_York", "2026-03-07T12:00+00:00", ["2026-03-08T07:00+00:00", "2026-03-09T06:30+00:00"]),
        # 02:30 comes twice on this day, and counts once.
        ("Europe/Berlin", "2026-10-24T12:00+00:00", ["2026-10-25T00:30+00:00", "2026-10-26T01:30+00:00"]),
        ("Australia/Lord_Howe", "2026-04-03T12:00+00:00", ["2026-04-03T15:30+00:00", "2026-04-04T16:00+00:00"]),
    ],
)
def test_where_clocks_change_a_time_comes_once(zone, after, moments):
    zone, moment = zoneinfo.ZoneInfo(zone), at(after)
    found = []
    for _ in moments:
        moment = next_time(nightly(), moment, zone)
        found.append(moment)
    assert found == [at(text) for text in moments]


def test_after_a_sleep_the_last_time_is_made_up_for_once():
    since, now = at("2026-11-01T03:00+00:00"), at("2026-11-05T09:00+00:00")
    found = due(nightly(), since, now, UTC)
    assert (found.moment, found.starts, found.missed) == (at("2026-11-05T02:30+00:00"), True, 3)
    assert due(nightly(), found.moment, now, UTC) is None


def test_what_is_skipped_is_missed():
    since, now = at("2026-11-01T03:00+00:00"), at("2026-11-05T09:00+00:00")
    found = due(nightly(catch_up="skip"), since, now, UTC)
    assert (found.starts, found.missed) == (False, 4)
    found = due(nightly(window_minutes=60), since, now, UTC)
    assert (found.starts, found.missed) == (False, 4), "the window has passed"


def test_a_look_that_is_some_minutes_late_is_on_time():
    since = at("2026-11-04T03:00+00:00")
    found = due(nightly(catch_up="skip"), since, at("2026-11-05T02:30+00:00") + ON_TIME, UTC)
    assert (found.starts, found.missed) == (True, 0)


@given(
    st.sampled_from(["*/20 * * * *", "30 2 * * *", "0 0 1 * *", "15 1,2,3 * * 0"]),
    st.sampled_from(ZONES),
    st.integers(0, 330 * 24 * 3600).map(lambda seconds: at("2026-01-01T00:00+00:00") + timedelta(seconds=seconds)),
    st.lists(st.timedeltas(timedelta(seconds=1), timedelta(days=3)), max_size=8),
    st.sampled_from(["once", "skip"]),
)
def test_no_time_is_served_twice_and_each_is_served_or_missed(cron, zone, start, steps, catch_up):
    schedule, zone = nightly(cron, catch_up=catch_up), zoneinfo.ZoneInfo(zone)
    handled = now = start
    served, missed = [], 0
    for step in steps:
        now += step
        found = due(schedule, handled, now, zone)
        if found is None:
            continue
        assert handled < found.moment <= now
        missed += found.missed
        if found.starts:
            served.append(found.moment)
        handled = found.moment
    assert len(set(served)) == len(served)
    moment, every = start, 0
    while (moment := next_time(schedule, moment, zone)) <= now:
        every += 1
    assert len(served) + missed == every
