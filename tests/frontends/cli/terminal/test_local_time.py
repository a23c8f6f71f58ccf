"""Test times of the user's clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from understudy.frontends.cli.terminal import terminal


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
def test_a_deadline_is_shown_in_the_time_zone_of_the_user() -> None:
    assert terminal.local_time("2026-11-21T20:30:00.000Z") == "2026-11-22 05:30:00"
    now = datetime.now(UTC).replace(microsecond=0)
    assert terminal.local_time(now.isoformat()) == f"{(now.hour + 9) % 24:02}:{now:%M:%S}"
    assert terminal.local_time("soon") == "soon"
