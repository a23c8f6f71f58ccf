"""Requests about schedules: list, create, remove, pause and run them, and start what is due."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from understudy.api import batch_file, messages
from understudy.api.caller import Caller, TerminalCaller
from understudy.api.handlers import configuration, delegations, groups
from understudy.config.loading import loader
from understudy.engine.queueing import schedule_runs, schedule_times, system_timer
from understudy.journal import change_notifications, delegation_folder
from understudy.model.config.config_entries import ScheduleEntry, ScheduleRun
from understudy.model.config.delegators import Scope
from understudy.model.config.schedules import Schedule
from understudy.model.delegation.delegations import StartParams
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import timestamp


class ScheduleCaller(TerminalCaller):
    """The caller of what schedules start by themselves."""

    name = "schedule"


def list_all(caller: Caller, params: messages.NoParams) -> messages.SchedulesResult:
    """List the schedules with their next and their last runs."""
    loaded = loader.load(None, trusted=False)
    return messages.SchedulesResult(
        schedules=[_with_runs(entry) for entry in loaded.schedules.values()], problems=loaded.problems
    )


def create(caller: Caller, params: messages.ScheduleCreateParams) -> ScheduleEntry:
    """Create a schedule; its first run is at the next of its times."""
    made = configuration.editor(caller, None).create(params.schedule, Scope.USER)
    schedule_runs.begin(delegation_folder.state_root(), made.schedule.name)
    change_notifications.notify(configuration.CHANGED)
    return _with_runs(made)


def delete(caller: Caller, params: messages.DeleteParams) -> messages.EmptyResult:
    """Remove a schedule; what it started stays."""
    configuration.editor(caller, None).delete("schedule", params.name, params.revision)
    schedule_runs.forget(delegation_folder.state_root(), params.name)
    change_notifications.notify(configuration.CHANGED)
    return messages.EmptyResult()


def pause(caller: Caller, params: messages.SchedulePauseParams) -> ScheduleEntry:
    """Pause a schedule, or resume it."""
    entry = _entry(params.name)
    schedule_runs.pause(delegation_folder.state_root(), params.name, paused=params.paused)
    return _with_runs(entry)


def run(caller: Caller, params: messages.ScheduleNameParams) -> ScheduleRun:
    """Start the work of a schedule now, also while it is paused; its times stay as they are."""
    entry = _entry(params.name)
    configuration.require_usable(entry.state.problems)
    return schedule_runs.run_now(delegation_folder.state_root(), entry.schedule, lambda *a: _start(caller, *a))


def serve(caller: Caller, params: messages.NoParams) -> messages.ScheduleServeResult:
    """Start what is due. Each time of a schedule is served once, however many processes ask for it."""
    usable = [entry.schedule for entry in loader.load(None, trusted=False).schedules.values() if entry.usable]
    root = delegation_folder.state_root()
    return messages.ScheduleServeResult(runs=schedule_runs.serve(root, usable, lambda *a: _start(caller, *a)))


def install(caller: Caller, params: messages.ScheduleInstallParams) -> messages.ScheduleInstallResult:
    """Let a timer of the system start what is due, or say what would be written."""
    files, command = system_timer.planned()
    installs = bool(command) and not params.dry_run
    if installs:
        system_timer.install(files, command)
    named = {str(path): text for path, text in files.items()}
    return messages.ScheduleInstallResult(files=named, command=command, installed=installs)


def _start(caller: Caller, schedule: Schedule, key: str) -> tuple[str | None, str | None]:
    """Start the work of a schedule; return the id of the delegation or of the group."""
    workspace = Path(schedule.workspace).expanduser()
    if not workspace.is_dir():
        raise UnderstudyError(
            ErrorKind.INVALID_PARAMS,
            f"The folder {workspace} of the schedule {schedule.name!r} does not exist.",
            hint=f"Change `workspace`, or remove it: understudy schedules remove {schedule.name}",
        )
    if schedule.batch is not None:
        file = workspace / schedule.batch
        try:
            data = file.read_bytes()
        except OSError as error:
            raise UnderstudyError(
                ErrorKind.INVALID_PARAMS,
                f"The batch {file} of the schedule {schedule.name!r} cannot be read: {error.strerror}.",
                hint="Change `batch`, or write the file.",
            ) from error
        batch = batch_file.read(data, file, workspace)
        try:
            started = groups.start(caller, msgspec.structs.replace(batch.params, idempotency_key=key))
        except UnderstudyError as error:
            raise batch.locate(error) from None
        return None, started.group.id
    params = StartParams(
        recipe=schedule.recipe or "",
        task=schedule.task,
        files=[(workspace / Path(file).expanduser()).as_uri() for file in schedule.files] or None,
        delegator=schedule.delegator,
        workspace=workspace.as_uri(),
        idempotency_key=key,
    )
    return delegations.start(caller, params).id, None


def _entry(name: str) -> ScheduleEntry:
    return configuration.find(loader.load(None, trusted=False).schedules, name, ErrorKind.UNKNOWN_SCHEDULE)


def _with_runs(entry: ScheduleEntry) -> ScheduleEntry:
    """Return an entry with what is known about its runs."""
    kept = schedule_runs.record(delegation_folder.state_root(), entry.schedule.name)
    next_at = None
    if entry.usable and not kept.paused:
        zone = schedule_runs.zone_of(entry.schedule)
        next_at = timestamp(schedule_times.next_time(entry.schedule, datetime.now(UTC), zone), "seconds")
    facts = {"next_at": next_at, "paused": kept.paused, "missed": kept.missed, "runs": kept.runs}
    return msgspec.structs.replace(entry, state=msgspec.structs.replace(entry.state, **facts))
