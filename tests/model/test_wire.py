"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from understudy.model.wire import timestamp


def test_a_time_is_in_utc_with_the_wanted_precision():
    moment = datetime(2026, 11, 21, 2, 45, 12, 3_999, timezone(timedelta(hours=2)))
    assert timestamp(moment) == timestamp(moment.timestamp()) == "2026-11-21T00:45:12.003Z"
    assert timestamp(moment, "seconds") == "2026-11-21T00:45:12Z"
    assert abs(datetime.now(UTC) - datetime.fromisoformat(timestamp())) < timedelta(seconds=60)


@given(st.lists(st.datetimes(timezones=st.just(UTC)), min_size=2))
def test_texts_sort_as_the_times_do(moments: list[datetime]):
    assert [timestamp(one) for one in sorted(moments)] == sorted(timestamp(one) for one in moments)
