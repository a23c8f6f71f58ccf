"""Times as people write them on the command line."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import click
import pytest

from understudy.frontends.cli.calls.options import moment

NOW = datetime(2026, 11, 29, 21, 30).astimezone()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("22:00", NOW.replace(hour=22, minute=0)),
        ("21:00", NOW.replace(hour=21, minute=0) + timedelta(days=1)),
        ("21:30", NOW + timedelta(days=1)),
        ("+90m", NOW + timedelta(minutes=90)),
        ("+2h", NOW + timedelta(hours=2)),
        ("+1d", NOW + timedelta(days=1)),
        ("+1w", NOW + timedelta(weeks=1)),
        ("2026-12-24 08:00", datetime(2026, 12, 24, 8, 0).astimezone()),
        ("2026-12-24T08:00+05:00", datetime(2026, 12, 24, 8, 0, tzinfo=timezone(timedelta(hours=5)))),
    ],
)
def test_a_time_is_understood(text, expected):
    assert datetime.fromisoformat(moment(text, NOW)) == expected


@pytest.mark.parametrize("text", ["tonight", "25:00", "+2y", "", "22"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(click.BadParameter, match="is not a time"):
        moment(text, NOW)
