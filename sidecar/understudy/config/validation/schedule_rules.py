"""Rules for schedules: what keeps one from starting its work."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath

from understudy.config.findings import Finding
from understudy.config.validation.delegator_rules import check_name
from understudy.model.config.delegators import Scope
from understudy.model.config.schedules import Schedule


def check_schedule(schedule: Schedule, scope: Scope) -> Iterator[Finding]:
    """Find everything that keeps ``schedule``, of a file of ``scope``, from starting its work."""
    yield from check_name(schedule.name)
    if scope is Scope.WORKSPACE:
        message = "A workspace cannot start work by itself."
        yield Finding((), message, "Add the schedule to your own configuration: understudy schedules add")
    if why := wrong_cron(schedule.cron):
        yield Finding(("cron",), f"`{schedule.cron}` is not a cron expression: {why}", CRON_HINT)
    if schedule.timezone is not None and schedule.timezone not in zoneinfo.available_timezones():
        message = f"There is no time zone `{schedule.timezone}`."
        yield Finding(("timezone",), message, "Write it like `Europe/Berlin`, or leave it out.")
    if (schedule.recipe is None) == (schedule.batch is None):
        message = "A schedule has either a `recipe` or a `batch`."
        yield Finding((), message, "Name the recipe of one delegation, or a file of tasks.")
    if schedule.batch is not None and (schedule.task is not None or schedule.files or schedule.delegator is not None):
        message = "`task`, `files` and `delegator` belong to a recipe: the tasks of a batch have their own."
        yield Finding(("batch",), message, "Leave them out.")
    if not PurePosixPath(schedule.workspace).is_absolute() and not schedule.workspace.startswith("~/"):
        message = f"`{schedule.workspace}` is not an absolute path."
        yield Finding(("workspace",), message, "Write the whole path, or begin it with `~/`.")
    if not 0 < schedule.window_minutes < 366 * 24 * 60:
        yield Finding(("window_minutes",), "`window_minutes` must be above 0 and below a year.", "Leave it out.")


CRON_HINT = "Write minute, hour, day of the month, month and day of the week, such as `0 2 * * 1-5`."


def wrong_cron(expression: str) -> str | None:
    """Return what is wrong with a cron expression; None if nothing is."""
    from cronsim import CronSim, CronSimError

    if len(expression.split()) != 5:
        return f"it has {len(expression.split())} fields instead of 5."
    try:
        next(CronSim(expression, datetime.now(UTC)))
    except CronSimError as error:
        return f"{error}."
    except StopIteration:
        return "no day has such a date."
    return None
