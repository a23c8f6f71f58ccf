"""When a schedule starts its work, also after times that passed while nothing could start it.

The clock is an argument. Where clocks change, a time that does not exist is the next one that does, and one that
comes twice counts once, as for Debian's cron.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile

from understudy.model.config.schedules import Schedule

ON_TIME = timedelta(minutes=5)
"""How late a start may be without counting as made up for: nothing looks at the clock all the time."""
_FARTHEST = timedelta(days=32)
"""How far back missed times are counted."""


@dataclass(frozen=True)
class Due:
    """The times since the last one that was dealt with."""

    moment: datetime
    """The last of them."""
    starts: bool
    """Whether the work starts now; otherwise all of these times are missed."""
    missed: int
    """How many times nothing was started for."""


def next_time(schedule: Schedule, after: datetime, zone: tzinfo) -> datetime:
    """Return the first time after a moment, in UTC."""
    return next(_times(schedule, after, zone))


def due(schedule: Schedule, since: datetime, now: datetime, zone: tzinfo) -> Due | None:
    """Return what is due at ``now``, if the times up to ``since`` were dealt with; None: nothing is."""
    first = max(since, now - _FARTHEST)
    moments = list(takewhile(lambda moment: moment <= now, _times(schedule, first, zone)))
    if not moments:
        return None
    late = now - moments[-1]
    is_on_time = late <= ON_TIME
    starts = is_on_time or (schedule.catch_up == "once" and late <= timedelta(minutes=schedule.window_minutes))
    return Due(moments[-1], starts, len(moments) - (1 if starts else 0))


def _times(schedule: Schedule, after: datetime, zone: tzinfo) -> Iterator[datetime]:
    from cronsim import CronSim

    for moment in CronSim(schedule.cron, after.astimezone(zone)):
        yield moment.astimezone(UTC)
