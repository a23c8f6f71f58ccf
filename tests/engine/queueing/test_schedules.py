"""Schedules start their work once for each time, over all processes, or tell that they did not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from understudy.engine.queueing import schedule_runs
from understudy.journal import delegation_folder
from understudy.model.config.schedules import Schedule
from understudy.model.errors import ErrorKind, UnderstudyError
from understudy.model.wire import timestamp

QUICK = "sys.stdin.read()\nsay(type='result', ok=True, text='Done.')"
SERVES = """
import sys
from datetime import datetime
from understudy.api.handlers.setup import schedules
from understudy.config.loading import loader
from understudy.engine.queueing import schedule_runs
from understudy.journal import delegation_folder
sys.stdin.readline()
usable = [entry.schedule for entry in loader.load(None, trusted=False).schedules.values()]
caller = schedules.ScheduleCaller()
runs = schedule_runs.serve(
    delegation_folder.state_root(), usable, lambda *a: schedules._start(caller, *a), datetime.fromisoformat(sys.argv[1])
)
print(len(runs), flush=True)
"""


@pytest.fixture
def quick(project):
    project.program("quick", QUICK)
    return project


def add(project, **fields):
    schedule = {
        "name": "nightly", "cron": "30 2 * * *", "timezone": "UTC", "workspace": str(project.top), "recipe": "ask",
        "task": "Why?", "delegator": "quick",
    }  # fmt: skip
    schedule = {name: value for name, value in {**schedule, **fields}.items() if value is not None}
    return project.call("schedules/create", schedule=schedule)


def listed(project):
    [entry] = project.call("schedules/list").schedules
    return entry


def serving(moment, **environment):
    command = [sys.executable, "-c", SERVES, moment.isoformat()]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environment
    )


def serve(moment, **environment):
    process = serving(moment, **environment)
    out, _ = process.communicate("go\n", timeout=60)
    return int(out) if process.returncode == 0 else process.returncode


def due_time(days=1):
    return datetime.now(UTC).replace(hour=2, minute=30, second=0, microsecond=0) + timedelta(days=days)


def delegations(project):
    return project.call("delegations/list", limit=100).delegations


def test_a_time_is_served_once_by_many_processes(quick):
    add(quick)
    moment = due_time() + timedelta(seconds=20)
    processes = [serving(moment) for _ in range(4)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    counts = sorted(int(process.communicate(timeout=60)[0]) for process in processes)
    assert counts == [0, 0, 0, 1]
    [started] = delegations(quick)
    assert quick.finish(started.id).verdict == "answered"
    state = listed(quick).state
    assert [(run.delegation, run.due, run.missed) for run in state.runs] == [
        (started.id, timestamp(due_time(), "seconds"), 0)
    ]
    assert started.asked_by.frontend == "schedule"


@pytest.mark.parametrize("failpoint", ["schedule claimed:1", "schedule started:1"])
def test_a_kill_in_between_starts_nothing_twice_and_loses_nothing(quick, failpoint):
    add(quick)
    moment = due_time() + timedelta(seconds=20)
    assert serve(moment, UNDERSTUDY_FAILPOINT=failpoint) == -9
    assert serve(moment + timedelta(minutes=1)) == 1
    assert serve(moment + timedelta(minutes=2)) == 0
    [started] = delegations(quick)
    assert quick.finish(started.id).verdict == "answered"
    assert [run.delegation for run in listed(quick).state.runs] == [started.id]


def test_a_start_that_was_interrupted_long_ago_is_told_as_missed(quick):
    add(quick)
    assert serve(due_time() + timedelta(seconds=20), UNDERSTUDY_FAILPOINT="schedule started:1") == -9
    assert serve(due_time() + timedelta(hours=20)) == 0, "its key may no longer count: it could start twice"
    assert listed(quick).state.missed == 1
    [started] = delegations(quick)
    quick.finish(started.id)


@pytest.mark.parametrize("rule", ["CET-1CEST,M3.5.0,M10.5.0/3", "Mars/Base", ":"])
def test_a_machine_whose_zone_is_a_rule_has_a_zone(rule):
    schedule = Schedule(name="s", cron="0 2 * * *", workspace="/w", recipe="ask")
    assert schedule_runs.zone_of(schedule, {"TZ": rule}) is not None
    assert str(schedule_runs.zone_of(schedule, {"TZ": "Asia/Tokyo"})) == "Asia/Tokyo"


def test_missed_times_are_told(quick):
    add(quick, catchUp="skip")
    assert serve(due_time(3) + timedelta(hours=6)) == 0
    assert listed(quick).state.missed == 3
    assert serve(due_time(4)) == 1
    [run] = listed(quick).state.runs
    assert run.missed == 3
    assert listed(quick).state.missed == 0
    quick.finish(run.delegation)


def test_a_start_that_is_refused_is_told_and_not_repeated(quick):
    add(quick, delegator="gone")
    assert serve(due_time()) == 1
    assert serve(due_time() + timedelta(minutes=1)) == 0
    [run] = listed(quick).state.runs
    assert (run.delegation, run.error.kind) == (None, "unknown_delegator")


def test_a_paused_schedule_starts_nothing_and_makes_up_for_nothing(quick):
    add(quick)
    assert quick.call("schedules/pause", name="nightly", paused=True).state.next_at is None
    assert serve(due_time()) == 0
    assert quick.call("schedules/pause", name="nightly", paused=False).state.next_at is not None
    assert delegations(quick) == []


def test_a_batch_starts_as_one_group(quick):
    quick.write("tasks.toml", '[[tasks]]\nrecipe = "ask"\ntask = "One?"\ndelegator = "quick"\n' * 2)
    add(quick, recipe=None, task=None, delegator=None, batch="tasks.toml")
    run = quick.call("schedules/run", name="nightly")
    assert run.group is not None
    assert all(quick.finish(one.id).verdict == "answered" for one in delegations(quick))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "* * * *"}, "4 fields"),
        ({"cron": "0 0 31 2 *"}, "day-of-month"),
        ({"timezone": "Mars/Base"}, "time zone"),
        ({"batch": "b.toml"}, "either"),
        ({"workspace": "relative"}, "absolute"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(quick, fields, word):
    with pytest.raises(UnderstudyError) as caught:
        add(quick, **fields)
    assert caught.value.kind is ErrorKind.CONFIG_INVALID
    assert word in caught.value.message


def test_a_workspace_cannot_start_work_by_itself(quick):
    quick.write(
        ".understudy/schedules/evil.toml",
        f'cron = "* * * * *"\nworkspace = {json.dumps(str(quick.top))}\nrecipe = "ask"\ntask = "x"\n',
    )
    quick.trust()
    assert quick.call("schedules/list").schedules == []
    problems = quick.call("delegators/list", workspace=str(quick.top)).problems
    assert "A workspace cannot start work by itself." in [problem.message for problem in problems]


def test_a_schedule_written_by_hand_starts_at_its_next_time(quick):
    file = quick.config / "config.toml"
    entry = f'[[schedules]]\nname = "mine"\ncron = "30 2 * * *"\ntimezone = "UTC"\nworkspace = "{quick.top}"\n'
    file.write_text(file.read_text() + entry + 'recipe = "ask"\ntask = "x"\ndelegator = "quick"\n')
    now = datetime.now(UTC)
    assert serve(now) == 0, "times before it was first seen do not count"
    assert serve(due_time()) == 1
    [run] = listed(quick).state.runs
    quick.finish(run.delegation)
    assert schedule_runs.record(delegation_folder.state_root(), "mine").handled == timestamp(due_time(), "seconds")


def test_an_unknown_name_is_a_typed_error(quick):
    add(quick)
    with pytest.raises(UnderstudyError) as caught:
        quick.call("schedules/run", name="nightli")
    assert (caught.value.kind, caught.value.hint) == (ErrorKind.UNKNOWN_SCHEDULE, "Did you mean 'nightly'?")
