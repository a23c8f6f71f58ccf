"""Start the work of schedules: each time once over all processes, or not at all and told as missed.

``<state>/schedules/<name>.json`` says which times were dealt with. A process holds the lock beside it while it starts
work. It first writes which time it starts work for, and starts it with an idempotency key of that time: if it is killed
in between, the next one repeats the start, which returns what was started.
"""

from __future__ import annotations

import os
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import msgspec

from understudy.engine.queueing import schedule_times
from understudy.files import durable
from understudy.files.durable import failpoint
from understudy.model.config.config_entries import ScheduleRun
from understudy.model.config.schedules import Schedule
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import ready, timestamp

MOST_RUNS = 20
"""How many of the last runs are kept."""
_MOST_BYTES = 1 << 20
_SURE = timedelta(hours=12)
"""How long an idempotency key certainly counts: what was interrupted earlier counts as missed, and is not repeated."""

Start = Callable[[Schedule, str], tuple[str | None, str | None]]
"""Starts the work of a schedule with an idempotency key; returns the ids of the delegation or of the group."""


class Record(msgspec.Struct, kw_only=True):
    """What is known about a schedule."""

    handled: str
    """The last time that was dealt with."""
    starting: str | None = None
    """The time for which a process starts work, or was killed before it had."""
    paused: bool = False
    missed: int = 0
    """How many times nothing was started for since the last run."""
    runs: list[ScheduleRun] = msgspec.field(default_factory=list)
    """The newest last."""


def zone_of(schedule: Schedule, environ: Mapping[str, str] = os.environ) -> tzinfo:
    """Return the time zone of a schedule, with its changes of the clock: by default, that of the machine."""
    for name in (schedule.timezone, environ.get("TZ", "").removeprefix(":")):
        if name:
            try:
                return zoneinfo.ZoneInfo(name)
            except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
                continue  # TZ may also be a rule, such as `CET-1CEST`
    try:
        with Path("/etc/localtime").open("rb") as file:
            return zoneinfo.ZoneInfo.from_file(file)
    except (OSError, ValueError):
        return UTC


def record(root: Path, name: str, now: datetime | None = None) -> Record:
    """Return what is known about a schedule; one that was never looked at has dealt with all times up to now."""
    try:
        return msgspec.json.decode(durable.read_whole(_file(root, name), _MOST_BYTES), type=ready(Record))
    except (OSError, msgspec.MsgspecError):
        return Record(handled=timestamp(now or datetime.now(UTC), "seconds"))


def pause(root: Path, name: str, *, paused: bool) -> None:
    """Let a schedule start nothing, or let it start work again: times while it was paused are not made up for."""
    now = datetime.now(UTC)
    with durable.file_lock(_lock(root, name)):
        kept = record(root, name, now)
        handled = kept.handled if paused else timestamp(now, "seconds")
        _save(root, name, msgspec.structs.replace(kept, paused=paused, handled=handled))


def begin(root: Path, name: str) -> None:
    """Let a new schedule begin: it has dealt with all times up to now."""
    with durable.file_lock(_lock(root, name)):
        _save(root, name, Record(handled=timestamp(None, "seconds")))


def forget(root: Path, name: str) -> None:
    """Forget a schedule that was removed."""
    with durable.file_lock(_lock(root, name)):
        _file(root, name).unlink(missing_ok=True)


def run_now(root: Path, schedule: Schedule, start: Start) -> ScheduleRun:
    """Start the work of a schedule now, in addition to its times. Raises the errors of the start."""
    now = timestamp(None, "milliseconds")
    delegation, group = start(schedule, f"schedule {schedule.name} by hand {now}")
    run = ScheduleRun(due=now, started_at=now, delegation=delegation, group=group)
    with durable.file_lock(_lock(root, schedule.name)):
        kept = record(root, schedule.name)
        _save(root, schedule.name, msgspec.structs.replace(kept, runs=[*kept.runs, run][-MOST_RUNS:]))
    return run


def serve(root: Path, schedules: Iterable[Schedule], start: Start, now: datetime | None = None) -> list[ScheduleRun]:
    """Start what is due; return the runs of this call, of which some may have failed.

    A schedule for which another process starts work is left to it.
    """
    runs = []
    for schedule in schedules:
        with durable.try_file_lock(_lock(root, schedule.name)) as is_mine:
            run = _serve(root, schedule, start, now or datetime.now(UTC)) if is_mine else None
        runs += [run] if run is not None else []
    return runs


def _serve(root: Path, schedule: Schedule, start: Start, now: datetime) -> ScheduleRun | None:
    kept = record(root, schedule.name, now)
    if not _file(root, schedule.name).exists():
        _save(root, schedule.name, kept)
    if kept.paused:
        return None
    missed = 0
    if kept.starting is not None and now - datetime.fromisoformat(kept.starting) > _SURE:
        kept = msgspec.structs.replace(kept, handled=kept.starting, starting=None, missed=kept.missed + 1)
        _save(root, schedule.name, kept)
    if kept.starting is None:
        due = schedule_times.due(schedule, datetime.fromisoformat(kept.handled), now, zone_of(schedule))
        if due is None:
            return None
        moment, missed = timestamp(due.moment, "seconds"), due.missed
        if not due.starts:
            _save(root, schedule.name, msgspec.structs.replace(kept, handled=moment, missed=kept.missed + missed))
            return None
        kept.starting = moment
        _save(root, schedule.name, kept)
        failpoint("schedule claimed")
    moment = kept.starting
    run = ScheduleRun(due=moment, started_at=timestamp(now, "seconds"), missed=kept.missed + missed)
    try:
        run.delegation, run.group = start(schedule, f"schedule {schedule.name} {moment}")
    except UnderstudyError as error:
        if error.kind in {ErrorKind.DISK_FULL, ErrorKind.STATE_UNAVAILABLE}:
            raise  # nothing was decided: it is tried again
        run.error = error.info()
    failpoint("schedule started")
    runs = [*kept.runs, run][-MOST_RUNS:]
    _save(root, schedule.name, msgspec.structs.replace(kept, handled=moment, starting=None, missed=0, runs=runs))
    return run


def _save(root: Path, name: str, kept: Record) -> None:
    file = _file(root, name)
    with durable.named_failures(file):
        file.parent.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
        durable.replace(file, msgspec.json.encode(kept), sync=True)


def _file(root: Path, name: str) -> Path:
    return root / "schedules" / f"{name}.json"


def _lock(root: Path, name: str) -> Path:
    folder = root / "schedules"
    with durable.named_failures(folder):
        folder.mkdir(mode=durable.PRIVATE_FOLDER, parents=True, exist_ok=True)
    return folder / f"{name}.lock"
