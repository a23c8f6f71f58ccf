"""Schedules: work that starts by itself at certain times."""

from __future__ import annotations

from typing import Literal

import msgspec

from understudy.model.wire import Strict


class Schedule(Strict, kw_only=True):
    """A delegation, or a batch of them, that starts at the times of a cron expression."""

    name: str
    """Its name in lists, and the name of its file."""
    cron: str
    """When it starts, in five fields: minute, hour, day of the month, month, day of the week."""
    timezone: str | None = None
    """The time zone of ``cron``, such as `Europe/Berlin`; absent: that of the machine."""
    workspace: str
    """The folder in which it works: an absolute path, or one that begins with `~/`."""
    recipe: str | None = None
    """The recipe of one delegation; absent where a ``batch`` is named."""
    task: str | None = None
    """What is to be done."""
    files: list[str] = msgspec.field(default_factory=list)
    """The files to work on; relative paths start in the workspace."""
    delegator: str | None = None
    """The delegator or the route; absent: chosen by the configuration."""
    batch: str | None = None
    """A file of tasks, as for `understudy batch`, instead of a recipe; a relative path starts in the workspace."""
    catch_up: Literal["once", "skip"] = "once"
    """For times at which nothing ran that could start it: `once` makes up for the last of them, `skip` for none.
    Missed times are listed."""
    window_minutes: float = 1440.0
    """How late it may be made up for."""
